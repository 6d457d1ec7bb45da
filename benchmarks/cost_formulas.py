"""Time and memory of a job as formulas in the sizes of a problem, with fitted constants.

Time and memory of a job are sums of terms, each a constant of the machine times a product of sizes
(``LABELS``, ``HELD_LABELS``):

    training   a + U·(b + c·K·B·H + d·K·B·W)        a pass; U updates of B rows
    ensemble   a + U·(b + c·S·Q·B·H + d·S·Q·B·W)    a pass; Q nodes of z, S members
    variance   a + b·M·L·N·H + c·M·L·N·W            a split by variance
    entropy    a + b·N + c·M·L·N + d·M·L·N·W        a split by entropy
    search     a + b·T + T·M·N·S·(c + d·(4 Wₘ + 6 Wₚ))    an update
    forecast   a + b·T + T·M·N·S·(c + d·(2 Wₘ + 2 Wₚ))
    choice     a + b·N + c·D                        a campaign's ``ask``, with a fit of one pass

W is the number of weights (``D + 1`` inputs, two layers of H units, one output). Constants are
non-negative, fitted by least squares of relative errors to the points in
``results/cost_model.json``. The memory of a split depends on its chunks and is computed by
``benchmarks.prediction_memory``.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.optimize import nnls

from benchmarks.work_counts import weights_of
from twofold.core.numerics import padded_size
from twofold.model.spec import BNNLV
from twofold.plant.descent import Config
from twofold.plant.policy import PolicyNetwork
from twofold.plant.rollout import Task
from twofold.plant.search import PAPER, policies_at_once

BATCH, NODES, MEMBERS = 250, 24, 32
POLICY = (61, 20, 20, 3)
MODEL_INPUTS = 62
PAPER_UNITS = 75
PAPER_UPDATES = PAPER.epochs * PAPER.updates
CAMPAIGN_UPDATES = 5_000
Sizes = dict[str, int]


def network(size: Sizes) -> int:
    """W, of a model with D inputs, one latent input and two layers of H units."""
    return weights_of((size["D"] + 1, size["H"], size["H"], 1))


def batch(size: Sizes) -> int:
    """B, the number of rows in an update, padding included."""
    return min(BATCH, padded_size(size["N"]))


def updates(size: Sizes) -> int:
    """U, the number of updates in a pass over the data."""
    return -(-size["N"] // batch(size))


def _pass(size: Sizes, draws: int) -> list[float]:
    """Terms of a pass over the data: of the pass itself, and per update, hidden unit and weight."""
    often, values = updates(size), draws * batch(size)
    return [1, often, often * values * size["H"], often * values * network(size)]


def training(size: Sizes) -> list[float]:
    """Terms of a pass of α-updates."""
    return _pass(size, size["K"])


def ensemble(size: Sizes) -> list[float]:
    """Terms of a pass of all members."""
    return _pass(size, size["S"] * NODES)


def variance(size: Sizes) -> list[float]:
    """Terms of a split by variance of N points."""
    nested = size["M"] * size["L"] * size["N"]
    return [1, nested * size["H"], nested * network(size)]


def entropy(size: Sizes) -> list[float]:
    """Terms of a split by entropy of N points, processed sequentially."""
    nested = size["M"] * size["L"] * size["N"]
    return [1, size["N"], nested, nested * network(size)]


def _rolled(size: Sizes, of_model: int, of_policy: int) -> list[float]:
    """Terms of roll-outs: of the call itself, per step, per step of one roll-out, and per
    weight."""
    model = weights_of((MODEL_INPUTS, size["H"], size["H"], 1))
    each = of_model * model + of_policy * weights_of(POLICY)
    steps = size["T"] * size["M"] * size["N"] * size["S"]
    return [1, size["T"], steps, steps * each]


def search(size: Sizes) -> list[float]:
    """Terms of an update of S policies."""
    return _rolled(size, 4, 6)


def forecast(size: Sizes) -> list[float]:
    """Terms of roll-outs without a gradient."""
    return _rolled(size, 2, 2)


def choice(size: Sizes) -> list[float]:
    """Terms of a campaign's ``ask``, including a fit of one epoch."""
    return [1, size["N"], size["D"]]


def slots(size: Sizes) -> int:
    """R, the number of allocated rows, padding included."""
    return padded_size(size["N"])


def _pass_held(size: Sizes, draws: int, copies: int) -> list[float]:
    """Terms of the memory of a pass: constant, values of hidden units and inputs kept for the
    backward pass, and the rows."""
    values, rows = draws * batch(size), copies * slots(size)
    return [1, values * size["H"], values * size["D"], rows * size["D"], rows]


def training_held(size: Sizes) -> list[float]:
    """Terms of the memory of a pass of α-updates, with a q(z) for each row."""
    return _pass_held(size, size["K"], 1)


def ensemble_held(size: Sizes) -> list[float]:
    """Terms of the memory of a pass of all members, each with its own data."""
    return _pass_held(size, size["S"] * NODES, size["S"])


def search_held(size: Sizes) -> list[float]:
    """Terms of the memory of an update of S policies: of a step, and of all steps for the backward
    pass."""
    rolled = size["M"] * size["N"] * size["S"]
    return [1, rolled * size["H"], size["T"] * rolled, size["T"] * rolled * size["H"]]


def forecast_held(size: Sizes) -> list[float]:
    """Terms of the memory of roll-outs without a gradient: models, noise, a step, and costs."""
    paths = size["M"] * size["N"]
    model = size["M"] * weights_of((MODEL_INPUTS, size["H"], size["H"], 1))
    rolled = paths * size["S"]
    return [1, model, size["T"] * paths, rolled * size["H"], size["T"] * rolled]


TERMS: dict[str, Callable[[Sizes], list[float]]] = {
    one.__name__: one for one in (training, ensemble, variance, entropy, search, forecast, choice)
}
HELD: dict[str, Callable[[Sizes], list[float]]] = {
    "training": training_held,
    "ensemble": ensemble_held,
    "search": search_held,
    "forecast": forecast_held,
}
LABELS = {
    "training": ["1", "U", "U·K·B·H", "U·K·B·W"],
    "ensemble": ["1", "U", "U·S·Q·B·H", "U·S·Q·B·W"],
    "variance": ["1", "M·L·N·H", "M·L·N·W"],
    "entropy": ["1", "N", "M·L·N", "M·L·N·W"],
    "search": ["1", "T", "T·M·N·S", "T·M·N·S·(4 W_m + 6 W_p)"],
    "forecast": ["1", "T", "T·M·N·S", "T·M·N·S·(2 W_m + 2 W_p)"],
    "choice": ["1", "N", "D"],
}
HELD_LABELS = {
    "training": ["1", "K·B·H", "K·B·D", "R·D", "R"],
    "ensemble": ["1", "S·Q·B·H", "S·Q·B·D", "S·R·D", "S·R"],
    "search": ["1", "M·N·S·H", "T·M·N·S", "T·M·N·S·H"],
    "forecast": ["1", "M·W_m", "T·M·N", "M·N·S·H", "T·M·N·S"],
}


class Point(NamedTuple):
    """A measurement: sizes, seconds, bytes of arguments, results and temporary arrays, and the
    library's estimate of those bytes (0: none)."""

    sizes: Sizes
    seconds: float
    memory: float = 0.0
    estimate: float = 0.0


class Fit(NamedTuple):
    """Constants of a job's time and memory on a device (none where there is an estimate),
    and the largest relative errors (None if unknown)."""

    job: str
    time: np.ndarray
    memory: np.ndarray
    time_error: float
    memory_error: float | None

    def seconds(self, sizes: Sizes) -> float:
        """Predicted time."""
        return float(np.dot(self.time, TERMS[self.job](sizes)))

    def bytes(self, point: Point) -> float:
        """Predicted memory: by the estimate or else by the formula; 0 without either."""
        if point.estimate or not len(self.memory):
            return point.estimate
        return float(np.dot(self.memory, HELD[self.job](point.sizes)))


def key(sizes: Sizes) -> str:
    """Sizes as part of a metric's name."""
    return ",".join(f"{name}={value}" for name, value in sizes.items())


def parse(text: str) -> Sizes:
    """Undoes ``key``."""
    return {name: int(value) for name, value in (part.split("=") for part in text.split(","))}


def points(values: dict[str, float], job: str, device: str) -> list[Point]:
    """The measurements of a job on a device."""
    found = []
    for name, seconds in values.items():
        parts = name.split("/")
        if len(parts) == 4 and (parts[0], parts[2], parts[3]) == (job, device, "seconds"):
            place = "/".join(parts[:3])
            memory, estimate = (
                values.get(f"{place}/{kind}", 0.0) for kind in ("bytes", "estimate")
            )
            found.append(Point(parse(parts[1]), seconds, memory, estimate))
    return found


def solve(rows: list[list[float]], amounts: list[float]) -> tuple[np.ndarray, float]:
    """Non-negative constants by least squares of relative errors, and the largest error."""
    relative = np.array(rows, float) / np.array(amounts)[:, None]
    scale = relative.max(axis=0)
    constants = nnls(relative / scale, np.ones(len(rows)))[0] / scale
    return constants, float(np.abs(relative @ constants - 1).max())


def fit(job: str, measured: list[Point]) -> Fit:
    """The constants of a job."""
    time, time_error = solve([TERMS[job](p.sizes) for p in measured], [p.seconds for p in measured])
    known = [p for p in measured if p.memory > 0]
    memory = np.zeros(0)
    if known and job in HELD:
        memory, _ = solve([HELD[job](p.sizes) for p in known], [p.memory for p in known])
    found = Fit(job, time, memory, time_error, None)
    errors = [abs(found.bytes(p) / p.memory - 1) for p in known if found.bytes(p)]
    return found._replace(memory_error=max(errors, default=None))


def fits(values: dict[str, float], device: str) -> dict[str, Fit]:
    """The fits of all jobs measured on a device."""
    measured = {job: points(values, job, device) for job in TERMS}
    return {job: fit(job, found) for job, found in measured.items() if found}


def paper_search(policies: int) -> Sizes:
    """An update at the paper's sizes."""
    sizes = {"T": PAPER.horizon, "M": PAPER.weight_draws, "N": PAPER.noise_draws}
    return sizes | {"S": policies, "H": PAPER_UNITS}


def paper_policies_at_once() -> int:
    """Number of policies searched together at the paper's sizes, on any device."""
    model = BNNLV(MODEL_INPUTS - 1, 1, (PAPER_UNITS,) * 2, 1, 1.0, 1.0)
    actions = POLICY[-1]
    shape = PolicyNetwork(POLICY[0], POLICY[1:-1], (-1.0,) * actions, (1.0,) * actions)
    nothing = cast(Any, None)  # observations and costs of a log do not matter here
    sizes = PAPER.horizon, PAPER.weight_draws, PAPER.noise_draws, PAPER.starts
    return policies_at_once(Config(Task(model, nothing, nothing, shape), *sizes))


def groups(policies: int, together: int) -> list[int]:
    """Number of policies in each group of a search."""
    return [min(together, policies - first) for first in range(0, policies, together)]


def frontier_seconds(
    found: dict[str, Fit], policies: int, together: int, often: int = PAPER_UPDATES
) -> float:
    """Time of a search for many policies at the paper's sizes, group by group."""
    each = [found["search"].seconds(paper_search(own)) for own in groups(policies, together)]
    return often * sum(each)


def campaigns_seconds(
    found: dict[str, Fit], campaigns: int, measurements: int, inputs: int = 5
) -> float:
    """Time of one ``ask`` in each of many campaigns, including the fit of a model."""
    model = {"N": measurements, "D": inputs, "H": 20, "S": MEMBERS}
    fitting = CAMPAIGN_UPDATES / updates(model) * found["ensemble"].seconds(model)
    return campaigns * (fitting + found["choice"].seconds({"N": measurements, "D": inputs}))
