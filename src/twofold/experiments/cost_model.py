"""What a job costs: formulas in the sizes of a problem, their constants fitted to measured points.

A job's time is a sum of terms, each a constant of the machine times a product of sizes:

    training   a + U·(b + c·K·B·H + d·K·B·W)        a pass; U updates of B rows
    ensemble   a + U·(b + c·S·Q·B·H + d·S·Q·B·W)    a pass; Q nodes of z, S members
    variance   a + b·M·L·N·H + c·M·L·N·W            a split by variance
    entropy    a + b·N + c·M·L·N + d·M·L·N·W        a split by entropy
    search     a + b·T + c·T·M·N·S·(4 Wₘ + 6 Wₚ)    an update
    forecast   a + b·T + c·T·M·N·S·(2 Wₘ + 2 Wₚ)
    choice     a + b·N + c·D                        a campaign's question, with a fit of one pass

W counts weights (``D + 1`` inputs, two layers of H units, one output). Constants are not negative
and make the largest relative error small; ``results/cost_model.json`` has the points.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from twofold.data import padded_size
from twofold.experiments.bench_tables import DEVICES
from twofold.experiments.counts import weights_of
from twofold.experiments.markdown import markdown, metrics

BATCH, NODES, MEMBERS = 250, 24, 32
POLICY = (61, 20, 20, 3)
MODEL_INPUTS = 62
PAPER_UPDATES = 75_000
CAMPAIGN_UPDATES = 5_000
MEMORY = {"cpu": 16e9, "gpu": 140e9}
Sizes = dict[str, int]


def network(size: Sizes) -> int:
    """W, of a model with D inputs, one latent input and two layers of H units."""
    return weights_of((size["D"] + 1, size["H"], size["H"], 1))


def batch(size: Sizes) -> int:
    """B, the rows that an update computes with, empty slots included."""
    return min(BATCH, padded_size(size["N"]))


def updates(size: Sizes) -> int:
    """U, the updates of a pass over the data."""
    return -(-size["N"] // batch(size))


def _pass(size: Sizes, draws: int) -> list[float]:
    """Terms of a pass over the data: its own, and those of an update, of a hidden unit's value and
    of a weight's product in it."""
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
    """Terms of a split by entropy of N points, one of which comes after the other."""
    nested = size["M"] * size["L"] * size["N"]
    return [1, size["N"], nested, nested * network(size)]


def _rolled(size: Sizes, of_model: int, of_policy: int) -> list[float]:
    model = weights_of((MODEL_INPUTS, size["H"], size["H"], 1))
    each = of_model * model + of_policy * weights_of(POLICY)
    return [1, size["T"], size["T"] * size["M"] * size["N"] * size["S"] * each]


def search(size: Sizes) -> list[float]:
    """Terms of an update of S policies."""
    return _rolled(size, 4, 6)


def forecast(size: Sizes) -> list[float]:
    """Terms of roll-outs without a gradient."""
    return _rolled(size, 2, 2)


def choice(size: Sizes) -> list[float]:
    """Terms of a campaign's question, its fit of one epoch included."""
    return [1, size["N"], size["D"]]


def held(job: str, size: Sizes) -> list[float]:
    """Terms of a job's memory: what is kept between the way there and the way back, or until the
    result is there."""
    if job in ("training", "ensemble"):
        draws = size.get("K", size.get("S", 0) * NODES)
        return [1, draws * batch(size) * size["H"]]
    if job == "variance":
        return [1, size["M"] * size["N"]]
    if job == "entropy":
        return [1, size["M"] * size["L"] * size["N"]]
    return [1, size["T"] * size["M"] * size["N"] * size["S"]]


TERMS: dict[str, Callable[[Sizes], list[float]]] = {
    one.__name__: one for one in (training, ensemble, variance, entropy, search, forecast, choice)
}


class Point(NamedTuple):
    """A measurement: sizes, seconds, and bytes beside arguments and results (0: not known)."""

    sizes: Sizes
    seconds: float
    memory: float


class Fit(NamedTuple):
    """Constants of a job's time and memory on a device, and the largest relative errors."""

    job: str
    time: np.ndarray
    memory: np.ndarray
    time_error: float
    memory_error: float

    def seconds(self, sizes: Sizes) -> float:
        """Predicted time."""
        return float(np.dot(self.time, TERMS[self.job](sizes)))

    def bytes(self, sizes: Sizes) -> float:
        """Predicted memory."""
        return float(np.dot(self.memory, held(self.job, sizes)))


def key(sizes: Sizes) -> str:
    """Sizes as part of a metric's name."""
    return ",".join(f"{name}={value}" for name, value in sizes.items())


def parse(text: str) -> Sizes:
    """Undoes ``key``."""
    return {name: int(value) for name, value in (part.split("=") for part in text.split(","))}


def points(values: dict[str, float], job: str, device: str) -> list[Point]:
    """What was measured of a job on a device."""
    found = []
    for name, seconds in values.items():
        parts = name.split("/")
        if len(parts) == 4 and (parts[0], parts[2], parts[3]) == (job, device, "seconds"):
            memory = values.get("/".join([*parts[:3], "bytes"]), 0.0)
            found.append(Point(parse(parts[1]), seconds, memory))
    return found


def solve(rows: list[list[float]], amounts: list[float]) -> tuple[np.ndarray, float]:
    """Constants, not negative, with least squares of relative errors, and the largest of those."""
    relative = np.array(rows, float) / np.array(amounts)[:, None]
    scale = relative.max(axis=0)
    constants = nnls(relative / scale, np.ones(len(rows)))[0] / scale
    return constants, float(np.abs(relative @ constants - 1).max())


def fit(job: str, measured: list[Point]) -> Fit:
    """Constants of a job."""
    time, time_error = solve([TERMS[job](p.sizes) for p in measured], [p.seconds for p in measured])
    known = [p for p in measured if p.memory > 0]
    if not known:
        return Fit(job, time, np.zeros(2), time_error, 0.0)
    memory, error = solve([held(job, p.sizes) for p in known], [p.memory for p in known])
    return Fit(job, time, memory, time_error, error)


def fits(values: dict[str, float], device: str) -> dict[str, Fit]:
    """All jobs that were measured on a device."""
    measured = {job: points(values, job, device) for job in TERMS}
    return {job: fit(job, found) for job, found in measured.items() if found}


def paper_search(policies: int) -> Sizes:
    """An update at the paper's sizes."""
    return {"T": 100, "M": 50, "N": 25, "S": policies, "H": 75}


def policies_at_once(found: dict[str, Fit], policies: int, memory: float) -> int:
    """As many of the policies as fit into memory together, in groups of the same size."""
    groups = 1
    while (
        groups < policies and found["search"].bytes(paper_search(-(-policies // groups))) > memory
    ):
        groups += 1
    return -(-policies // groups)


def frontier_seconds(
    found: dict[str, Fit], policies: int, memory: float, often: int = PAPER_UPDATES
) -> float:
    """Time of a search for many policies at the paper's sizes, groups one after another."""
    together = policies_at_once(found, policies, memory)
    each = found["search"].seconds(paper_search(together))
    return -(-policies // together) * often * each


def campaigns_seconds(
    found: dict[str, Fit], campaigns: int, measurements: int, inputs: int = 5
) -> float:
    """Time to ask each of many campaigns once, their models fitted anew."""
    model = {"N": measurements, "D": inputs, "H": 20, "S": MEMBERS}
    fitting = CAMPAIGN_UPDATES / updates(model) * found["ensemble"].seconds(model)
    return campaigns * (fitting + found["choice"].seconds({"N": measurements, "D": inputs}))


def measured_table(job: str, results: Path) -> str:
    """Predicted beside measured."""
    values, rows = metrics("cost_model", results), []
    for device, label in DEVICES.items():
        measured = points(values, job, device)
        found = fit(job, measured) if measured else None
        for point in measured:
            assert found is not None
            predicted = found.seconds(point.sizes)
            rows.append(
                [
                    key(point.sizes).replace(",", ", "),
                    label,
                    f"{1e3 * point.seconds:.3g}",
                    f"{1e3 * predicted:.3g}",
                    f"{predicted / point.seconds - 1:+.0%}",
                    f"{point.memory / 1e6:,.1f}" if point.memory else "–",
                ]
            )
    return markdown(["sizes", "on", "measured, ms", "predicted, ms", "error", "held, MB"], rows)


def errors_table(results: Path) -> str:
    """How far each formula is from what was measured, at most."""
    values, rows = metrics("cost_model", results), []
    by_device = {device: fits(values, device) for device in DEVICES}
    for job in TERMS:
        found = [by_device[device].get(job) for device in DEVICES]
        cells = ["–" if one is None else f"{one.time_error:.0%}" for one in found]
        rows.append([job, *cells])
    return markdown(["job", *DEVICES.values()], rows)


def calculations(results: Path) -> str:
    """What large runs would need."""
    values, rows = metrics("cost_model", results), []
    for device, label in DEVICES.items():
        found = fits(values, device)
        if "search" in found:
            together = policies_at_once(found, 1000, MEMORY[device])
            days = frontier_seconds(found, 1000, MEMORY[device]) / 86_400
            rows.append(
                [f"a frontier of 1,000 policies, {together} at once", label, f"{days:,.1f} days"]
            )
        if {"ensemble", "choice"} <= found.keys():
            hours = campaigns_seconds(found, 1000, 200) / 3600
            rows.append(
                ["1,000 campaigns of 200 measurements, asked once", label, f"{hours:,.1f} hours"]
            )
    return markdown(["", "on", "takes"], rows)
