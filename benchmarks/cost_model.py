"""Times and memory of the main jobs over a grid of sizes, for the formulas of the cost model.

    python benchmarks/cost_model.py            on whatever device JAX computes
    python benchmarks/cost_model.py --smoke    a rehearsal

Writes ``results/cost_model.json``, keeping what other devices have written there.
"""

import argparse
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jobs import schedule
from peaks import seconds
from search import BETA, Setting

from twofold.control import search
from twofold.control.rollout import draw_noise, particles, rollout
from twofold.control.search import Weights
from twofold.data import pad, padded_size
from twofold.experiments.cost_model import (
    MODEL_INPUTS,
    NODES,
    POLICY,
    Sizes,
    batch,
    key,
    updates,
)
from twofold.experiments.records import Record
from twofold.inference import alpha, base, ensemble
from twofold.inference.meanfield import MeanFieldPosterior
from twofold.logs.windows import Window
from twofold.model.bnn import BNNLV
from twofold.uncertainty import predictive, quadrature
from twofold.uncertainty.decomposition import by_entropy, by_variance
from twofold.uncertainty.entropies import entropies

REPEATS = 3
GRID: dict[str, list[Sizes]] = {
    "training": [
        {"N": n, "D": d, "K": k, "H": h}
        for n, d, k, h in [(50, 1, 50, 20), (250, 1, 50, 20), (750, 1, 50, 20), (750, 1, 10, 20),
                           (750, 8, 50, 20), (750, 8, 50, 50), (5000, 1, 50, 20)]
    ],
    "ensemble": [
        {"N": n, "D": d, "H": h, "S": s}
        for n, d, h, s in [(50, 1, 20, 32), (250, 1, 20, 32), (250, 5, 20, 32), (250, 5, 20, 8),
                           (250, 5, 50, 32), (2000, 1, 20, 32), (1000, 1, 20, 8)]
    ],
    "variance": [
        {"N": n, "D": d, "M": m, "L": el, "H": h}
        for n, d, m, el, h in [(100, 1, 100, 100, 20), (1000, 1, 100, 100, 20),
                               (1000, 8, 100, 100, 50), (1000, 1, 32, 100, 20),
                               (1000, 1, 100, 20, 20)]
    ],
    "entropy": [
        {"N": n, "D": d, "M": m, "L": el, "H": h}
        for n, d, m, el, h in [(32, 1, 100, 100, 20), (128, 1, 100, 100, 20),
                               (128, 8, 100, 100, 50), (128, 1, 32, 100, 20),
                               (32, 1, 300, 300, 20), (128, 1, 300, 300, 20)]
    ],
    "search": [
        {"T": t, "M": m, "N": n, "S": s, "H": 75}
        for t, m, n, s in [(10, 50, 25, 1), (100, 50, 25, 1), (100, 25, 25, 1), (50, 50, 10, 1),
                           (50, 50, 25, 10)]
    ],
    "forecast": [
        {"T": t, "M": m, "N": n, "S": s, "H": 75}
        for t, m, n, s in [(10, 50, 25, 1), (100, 50, 25, 1), (100, 25, 25, 1), (50, 50, 25, 10)]
    ],
    "choice": [{"N": n, "D": d} for n, d in [(30, 2), (200, 2), (30, 8), (200, 8)]],
}  # fmt: skip
SMOKE: dict[str, Sizes] = {"N": 12, "D": 1, "K": 4, "H": 8, "S": 2, "M": 4, "L": 4, "T": 3}


def bnn(size: Sizes) -> BNNLV:
    """A model of these sizes."""
    return BNNLV(size["D"], 1, (size["H"],) * 2, 1, 1.0, 1.0)


def data(size: Sizes, members: int) -> Any:
    """Standard normal rows, once for each member."""
    rng = np.random.default_rng(0)
    rows = size["N"]
    made = pad(
        rng.normal(size=(rows, size["D"])), rng.normal(size=(rows, 1)), padded_size(rows), "float32"
    )
    return jax.tree.map(lambda leaf: jnp.stack([leaf] * members), made)


def loop(
    algorithm: Any, problems: Any, members: int, plan: Any, epochs: int
) -> tuple[Callable, float]:
    """The training loop for some epochs, and the bytes that its program holds."""
    keys = jax.random.split(jax.random.key(0), members)
    start = base.init(algorithm, keys, problems)
    more = jnp.int32(0), jnp.int32(epochs)
    program = base.advance.lower(algorithm, keys, start, problems, plan, *more).compile()

    def call() -> Any:
        states = base.init(algorithm, keys, problems)
        return program(keys, states, problems, plan, *more)

    return call, held(program)


def held(program: Any) -> float:
    """Bytes beside arguments and results."""
    analysis = program.memory_analysis()
    return float(getattr(analysis, "temp_size_in_bytes", 0.0))


def measured(call: Callable[[], Any], units: float) -> float:
    """Median seconds of a unit, after one call."""
    jax.block_until_ready(call())
    return statistics.median(seconds(call) for _ in range(REPEATS)) / units


def passes(size: Sizes, least: int) -> int:
    """As many as make ``least`` updates, beside which the start of a run is small."""
    return -(-least // updates(size))


def of_training(size: Sizes, least: int = 60) -> tuple[float, float]:
    """A pass of α-updates."""
    epochs = passes(size, least)
    algorithm = alpha.build(alpha.Config(bnn(size), batch(size), size["K"]))
    problems = alpha.Problem(data(size, 1), jnp.ones(1))
    call, memory = loop(algorithm, problems, 1, schedule(epochs, updates(size)), epochs)
    return measured(call, epochs), memory


def of_ensemble(size: Sizes, least: int = 16) -> tuple[float, float]:
    """A pass of all members."""
    epochs = passes(size, least)
    algorithm = ensemble.build(ensemble.Config(bnn(size), batch(size), NODES))
    problems, plan = data(size, size["S"]), schedule(epochs, updates(size))
    call, memory = loop(algorithm, problems, size["S"], plan, epochs)
    return measured(call, epochs), memory


def nested(size: Sizes) -> tuple[BNNLV, predictive.Nested, jax.Array]:
    """A model, its nested draws, and points."""
    model = bnn(size)
    mean = 0.3 * jax.random.normal(jax.random.key(0), (model.num_weights,))
    posterior = MeanFieldPosterior(mean, jnp.full_like(mean, 0.01), jnp.full(1, -2.0))
    drawn = predictive.nest(jax.random.key(1), model, posterior, size["M"], size["L"])
    return model, drawn, jax.random.normal(jax.random.key(2), (size["N"], size["D"]))


def of_variance(size: Sizes) -> tuple[float, float]:
    """A split by variance."""
    model, drawn, x = nested(size)
    program = (
        jax.jit(lambda d, x: by_variance(predictive.moments(model, d, x))).lower(drawn, x).compile()
    )
    return measured(lambda: program(drawn, x), 1), held(program)


def of_entropy(size: Sizes) -> tuple[float, float]:
    """A split by entropy."""
    model, drawn, x = nested(size)
    function = partial(entropies, quadrature.integrate, False, jax.random.key(0), model)
    program = jax.jit(lambda d, x: by_entropy(function(d, x))).lower(drawn, x).compile()
    return measured(lambda: program(drawn, x), 1), held(program)


def of_search(setting: Setting, size: Sizes) -> tuple[float, float]:
    """An update of policies."""
    config = replace(
        setting.config(), horizon=size["T"], weight_draws=size["M"], noise_draws=size["N"]
    )
    wanted = Weights(jnp.linspace(0.0, BETA, size["S"]), jnp.zeros(size["S"]))
    call, memory = loop(search.build(config), wanted, size["S"], setting.plant(), 1)
    return measured(call, 1), memory


def of_forecast(setting: Setting, size: Sizes) -> tuple[float, float]:
    """Roll-outs without a gradient."""
    weights = jnp.tile(setting.policy, (size["S"], 1))
    draws = jax.tree.map(lambda leaf: leaf[: size["M"]], setting.draws)
    window = particles(Window(*(leaf[:1] for leaf in setting.windows)), size["N"])

    def costs(key: jax.Array) -> jax.Array:
        noise = draw_noise(key, setting.model, size["T"], size["M"], size["N"])
        return rollout(setting.task, setting.scales, weights, draws, noise, window).costs

    program = jax.jit(costs).lower(jax.random.key(0)).compile()
    return measured(lambda: program(jax.random.key(0)), 1), held(program)


def of_choice(size: Sizes) -> tuple[float, float]:
    """A campaign's question after one more measurement, with a fit of a single epoch."""
    from twofold.campaign import Campaign, Continuous  # needs a database, which nothing else does

    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(size["D"])]
    settings = {"epochs": 1, "verbose": False}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs = [Continuous(name, -1.0, 1.0) for name in names]
        campaign = Campaign.create(Path(folder) / "c.db", inputs, ["y"], settings=settings)

        def tell() -> None:
            place = dict(zip(names, rng.uniform(-1, 1, len(names)).tolist(), strict=True))
            campaign.tell({"y": rng.normal()}, point=place)

        for _ in range(size["N"]):
            tell()
        campaign.ask(1)
        times = []
        for _ in range(REPEATS):
            tell()
            started = time.perf_counter()
            campaign.ask(1)
            times.append(time.perf_counter() - started)
    return statistics.median(times), 0.0


def main() -> None:
    """Measure the grid and write the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--only", nargs="+", choices=GRID, default=list(GRID))
    parser.add_argument("--output", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    setting, device = Setting(), jax.default_backend()
    if (setting.model.sizes[0], setting.shape.sizes) != (MODEL_INPUTS, POLICY):
        raise SystemExit("the industrial benchmark's model or policy has other sizes by now")
    jobs: dict[str, Callable[[Sizes], tuple[float, float]]] = {
        "training": of_training,
        "ensemble": of_ensemble,
        "variance": of_variance,
        "entropy": of_entropy,
        "search": partial(of_search, setting),
        "forecast": partial(of_forecast, setting),
        "choice": of_choice,
    }
    record = Record("cost_model", {"repeats": REPEATS}, [0])
    for job in arguments.only:
        grid = GRID[job]
        for size in [{name: SMOKE[name] for name in grid[0]}] if arguments.smoke else grid:
            found, memory = jobs[job](size)
            record.add(f"{job}/{key(size)}/{device}/seconds", found)
            if memory:
                record.add(f"{job}/{key(size)}/{device}/bytes", memory)
            print(f"{job:10s} {key(size):40s} {1e3 * found:10.3g} ms", file=sys.stderr, flush=True)
        # Job by job: a run that is stopped leaves what it has.
        written = record.merge(arguments.output, lambda name: name not in record.metrics)
        print(f"wrote {written}", flush=True)


if __name__ == "__main__":
    main()
