"""Times and memory of the main jobs over a grid of sizes, for the formulas of the cost model.

    python benchmarks/cost_model.py            on JAX's default device
    python benchmarks/cost_model.py --smoke    a small run

The programs of a job are compiled in parallel and then measured one by one. Writes
``results/cost_model.json``, keeping the measurements of other devices.
"""

import argparse
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.cost_formulas import (
    MODEL_INPUTS,
    PAPER_UNITS,
    POLICY,
    Sizes,
    batch,
    key,
    slots,
    updates,
)
from benchmarks.peak_rates import seconds
from benchmarks.prediction_memory import DOUBLE, Request, prediction_bytes
from benchmarks.search import BETA, Setting
from benchmarks.timed_jobs import ensemble_setup, schedule
from paper.records import Record
from twofold import Alpha, Ensemble
from twofold.core.numerics import pad
from twofold.inference import alpha, ensemble, loop
from twofold.inference.meanfield import MeanFieldPosterior
from twofold.model.spec import BNNLV
from twofold.plant import descent
from twofold.plant.descent import RiskWeights
from twofold.plant.log import Window
from twofold.plant.rollout import draw_noise, particles, rollout
from twofold.uncertainty import predictive
from twofold.uncertainty.decomposition import by_entropy, by_variance
from twofold.uncertainty.entropies import entropies, integrate
from twofold.uncertainty.predictive import chunk_rows, rows_at_once

REPEATS = 3
# Numbers in the split of a point: three parts and their errors.
RESULTS = 6
# Points of a split are powers of two, so that no chunk has empty rows.
GRID: dict[str, list[Sizes]] = {
    "training": [
        {"N": n, "D": d, "K": k, "H": h}
        for n, d, k, h in [(50, 1, 50, 20), (250, 1, 50, 20), (750, 1, 50, 20), (750, 1, 10, 20),
                           (750, 8, 50, 20), (750, 8, 50, 50), (5000, 1, 50, 20),
                           (50_000, 1, 10, 20), (100_000, 8, 50, 20)]
    ],
    "ensemble": [
        {"N": n, "D": d, "H": h, "S": s}
        for n, d, h, s in [(50, 1, 20, 32), (250, 1, 20, 32), (250, 5, 20, 32), (250, 5, 20, 8),
                           (250, 5, 50, 32), (2000, 1, 20, 32), (1000, 1, 20, 8),
                           (50_000, 5, 20, 8), (50_000, 1, 20, 8)]
    ],
    "variance": [
        {"N": n, "D": d, "M": m, "L": el, "H": h}
        for n, d, m, el, h in [(128, 1, 100, 100, 20), (1024, 1, 100, 100, 20),
                               (1024, 8, 100, 100, 50), (1024, 1, 32, 100, 20),
                               (1024, 1, 100, 20, 20)]
    ],
    "entropy": [
        {"N": n, "D": d, "M": m, "L": el, "H": h}
        for n, d, m, el, h in [(32, 1, 100, 100, 20), (128, 1, 100, 100, 20),
                               (128, 8, 100, 100, 50), (128, 1, 32, 100, 20),
                               (32, 1, 300, 300, 20), (128, 1, 300, 300, 20)]
    ],
    "search": [
        {"T": t, "M": m, "N": n, "S": s, "H": h}
        for t, m, n, s, h in [(10, 50, 25, 1, 75), (100, 50, 25, 1, 75), (100, 25, 25, 1, 75),
                              (50, 50, 10, 1, 75), (50, 50, 25, 10, 75), (50, 50, 25, 1, 150)]
    ],
    "forecast": [
        {"T": t, "M": m, "N": n, "S": s, "H": h}
        for t, m, n, s, h in [(10, 50, 25, 1, 75), (100, 50, 25, 1, 75), (100, 25, 25, 1, 75),
                              (50, 50, 25, 10, 75), (50, 50, 25, 1, 150), (100, 50, 10, 1, 25)]
    ],
    "choice": [{"N": n, "D": d} for n, d in [(30, 2), (200, 2), (30, 8), (200, 8)]],
}  # fmt: skip
SMOKE: dict[str, Sizes] = {"N": 12, "D": 1, "K": 4, "H": 8, "S": 2, "M": 4, "L": 4, "T": 3}


class Ready(NamedTuple):
    """A compiled job: a call, its number of units, its memory in bytes, and the library's estimate
    of that memory (0: none)."""

    call: Callable[[], Any]
    units: float
    held: float
    estimate: float = 0.0


def bnn(size: Sizes) -> BNNLV:
    """A model of these sizes."""
    return BNNLV(size["D"], 1, (size["H"],) * 2, 1, 1.0, 1.0)


def data(size: Sizes, members: int) -> Any:
    """Standard normal rows, once for each member."""
    rng = np.random.default_rng(0)
    rows = size["N"]
    made = pad(
        rng.normal(size=(rows, size["D"])), rng.normal(size=(rows, 1)), slots(size), "float32"
    )
    return jax.tree.map(lambda leaf: jnp.stack([leaf] * members), made)


def train(algorithm: Any, problems: Any, members: int, plan: Any, epochs: int) -> Ready:
    """The training loop for some epochs."""
    keys = jax.random.split(jax.random.key(0), members)
    start = loop.init(algorithm, keys, problems)
    more = jnp.int32(0), jnp.int32(epochs)
    program = loop.advance.lower(algorithm, keys, start, problems, plan, *more).compile()

    def call() -> Any:
        states = loop.init(algorithm, keys, problems)
        return program(keys, states, problems, plan, *more)

    return Ready(call, epochs, held(program))


def held(program: Any) -> float:
    """Bytes of arguments, results and temporary arrays; aliased memory is counted once."""
    found = program.memory_analysis()
    return float(
        found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes
        - found.alias_size_in_bytes
    )  # fmt: skip


def measured(ready: Ready) -> float:
    """Median seconds of a unit, after one call."""
    jax.block_until_ready(ready.call())
    return statistics.median(seconds(ready.call) for _ in range(REPEATS)) / ready.units


def passes(size: Sizes, least: int) -> int:
    """Number of passes with ``least`` updates, so that the start of a run hardly matters."""
    return -(-least // updates(size))


def of_training(size: Sizes, least: int = 60) -> Ready:
    """A pass of α-updates."""
    epochs = passes(size, least)
    algorithm = alpha.build(Alpha(draws=size["K"]).config(bnn(size), batch(size)))
    problems = alpha.Problem(data(size, 1), jnp.ones(1))
    return train(algorithm, problems, 1, schedule(epochs, updates(size)), epochs)


def of_ensemble(size: Sizes, least: int = 16) -> Ready:
    """A pass of all members."""
    often = passes(size, least) * updates(size)
    epochs = -(-often // ensemble.UPDATES)
    run = ensemble_setup(bnn(size), data(size, size["S"]), size["S"], batch(size), epochs)
    setup, share = run
    found = train(setup.algorithm, share, size["S"], setup.schedule, epochs)
    return found._replace(units=epochs * ensemble.UPDATES / updates(size))


def nested(size: Sizes, model: BNNLV) -> predictive.Nested:
    """Nested draws of a model."""
    mean = 0.3 * jax.random.normal(jax.random.key(0), (model.num_weights,))
    posterior = MeanFieldPosterior(mean, jnp.full_like(mean, 0.01), jnp.full(1, -2.0))
    return predictive.nest(jax.random.key(1), model, posterior, size["M"], size["L"])


def split(
    program: Literal["moments", "entropy"], function: Callable[..., Any], size: Sizes, model: BNNLV
) -> Ready:
    """A split of all points, in the library's chunks, which contain the same points."""
    rows, limit = size["N"], rows_at_once(model, size["M"], size["L"])
    chunk = chunk_rows(rows, limit)
    drawn, x = nested(size, model), jax.random.normal(jax.random.key(2), (chunk, size["D"]))
    compiled = jax.jit(function).lower(drawn, x).compile()
    request = Request(program, rows, limit, size["M"], size["L"], RESULTS)
    # On the host: inputs, results of each chunk in double precision, and their concatenation.
    on_host = DOUBLE * rows * (size["D"] + 2 * RESULTS)
    return Ready(
        lambda: [compiled(drawn, x) for _ in range(-(-rows // chunk))],
        1,
        held(compiled) + on_host,
        prediction_bytes(model, request, "float32"),
    )


def of_variance(size: Sizes) -> Ready:
    """A split by variance."""
    model = bnn(size)
    return split("moments", lambda d, x: by_variance(predictive.moments(model, d, x)), size, model)


def of_entropy(size: Sizes) -> Ready:
    """A split by entropy."""
    model = bnn(size)
    function = partial(entropies, integrate, False, jax.random.key(0), model)
    return split("entropy", lambda d, x: by_entropy(function(d, x)), size, model)


SETTINGS: dict[int, Setting] = {}
MAKING = Lock()


def setting_of(units: int) -> Setting:
    """The industrial benchmark and a model with this number of units, cached."""
    with MAKING:
        if units not in SETTINGS:
            SETTINGS[units] = Setting(units)
        return SETTINGS[units]


def of_search(size: Sizes) -> Ready:
    """An update of policies."""
    setting = setting_of(size["H"])
    config = replace(
        setting.config(), horizon=size["T"], weight_draws=size["M"], noise_draws=size["N"]
    )
    wanted = RiskWeights(jnp.linspace(0.0, BETA, size["S"]), jnp.zeros(size["S"]))
    return train(descent.build(config), wanted, size["S"], setting.plant(), 1)


def of_forecast(size: Sizes) -> Ready:
    """Roll-outs without a gradient."""
    setting = setting_of(size["H"])
    weights = jnp.tile(setting.policy, (size["S"], 1))
    draws = jax.tree.map(lambda leaf: leaf[: size["M"]], setting.draws)
    window = particles(Window(*(leaf[:1] for leaf in setting.windows)), size["N"])

    def costs(key: jax.Array, weights: Any, draws: Any, window: Any) -> jax.Array:
        noise = draw_noise(key, setting.model, size["T"], size["M"], size["N"])
        return rollout(setting.task, setting.scales, weights, draws, noise, window).costs

    given = jax.random.key(0), weights, draws, window
    program = jax.jit(costs).lower(*given).compile()
    return Ready(lambda: program(*given), 1, held(program))


def of_choice(size: Sizes) -> float:
    """A campaign's ``ask`` after one more measurement, with a fit of a single update."""
    from twofold.campaign import Campaign, Continuous

    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(size["D"])]
    settings = {"inference": Ensemble(updates=1), "verbose": False}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs = [Continuous(name, -1.0, 1.0) for name in names]
        campaign = Campaign.create(Path(folder) / "c.db", inputs, ["y"], settings=settings)

        def tell() -> None:
            place = dict(zip(names, rng.uniform(-1, 1, len(names)).tolist(), strict=True))
            campaign.tell({"y": rng.normal()}, point=place)

        for _ in range(size["N"]):
            tell()
        for _ in range(REPEATS):  # the first proposals may be made without a model
            tell()
            campaign.ask(1)
        times = []
        for _ in range(REPEATS):
            tell()
            started = time.perf_counter()
            campaign.ask(1)
            times.append(time.perf_counter() - started)
    return statistics.median(times)


JOBS: dict[str, Callable[[Sizes], Ready]] = {
    "training": of_training,
    "ensemble": of_ensemble,
    "variance": of_variance,
    "entropy": of_entropy,
    "search": of_search,
    "forecast": of_forecast,
}


def prepared(job: str, grid: list[Sizes]) -> list[Ready | None]:
    """The compiled points of a job; None for one compiled when it runs."""
    if job not in JOBS:
        return [None] * len(grid)
    with ThreadPoolExecutor() as pool:
        return list(pool.map(JOBS[job], grid))


def measure(job: str, grid: list[Sizes], record: Record, device: str) -> None:
    """Add all points of a job to the record."""
    for size, one in zip(grid, prepared(job, grid), strict=True):
        place = f"{job}/{key(size)}/{device}"
        found = of_choice(size) if one is None else measured(one)
        record.add(f"{place}/seconds", found)
        known = {} if one is None else {"bytes": one.held, "estimate": one.estimate}
        for name, value in known.items():
            if value:
                record.add(f"{place}/{name}", value)
        print(f"{job:10s} {key(size):40s} {1e3 * found:10.3g} ms", file=sys.stderr, flush=True)


def main() -> None:
    """Measure the grid and write the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--only", nargs="+", choices=GRID, default=list(GRID))
    parser.add_argument("--output", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    setting, device = setting_of(PAPER_UNITS), jax.default_backend()
    if (setting.model.sizes[0], setting.shape.sizes) != (MODEL_INPUTS, POLICY):
        raise SystemExit("the industrial benchmark's model or policy has other sizes by now")
    record, done = Record("cost_model", {"repeats": REPEATS}, [0]), set[tuple[str, str]]()

    def kept(name: str) -> bool:
        job, _, where, _ = name.split("/")
        return (job, where) not in done

    for job in arguments.only:
        grid = GRID[job]
        small = [{name: SMOKE[name] for name in grid[0]}]
        measure(job, small if arguments.smoke else grid, record, device)
        done.add((job, device))
        # Written job by job, so that an interrupted run keeps its measurements.
        print(f"wrote {record.merge(arguments.output, kept)}", flush=True)


if __name__ == "__main__":
    main()
