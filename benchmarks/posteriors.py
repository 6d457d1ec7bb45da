"""Seconds for one fit of each posterior on each problem of the comparison.

The settings are those of ``python -m paper posteriors``, with nothing else on the machine. A fit is
a compilation and thousands of equal epochs, so its time is extrapolated from the compilation and
some short parts; methods that choose their own length are timed as a whole. Problems with the same
number of inputs use the same program and share one measurement:

    python benchmarks/posteriors.py         two CPU cores
    python benchmarks/posteriors.py --gpu   one GPU

The numbers are added to ``results/posteriors.json``.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paper.fits import settings
from paper.posteriors import DEFAULT, METHODS
from paper.problems import PROBLEMS
from paper.records import Record
from twofold import BNNLVRegressor
from twofold.core.numerics import Standardizer, pad, padded_size
from twofold.estimators.fitting import hidden_sizes
from twofold.inference import loop
from twofold.inference.loop import Setup
from twofold.inference.method import resolve_method
from twofold.model.spec import BNNLV

STRETCHES = 3
STRETCH_SECONDS = 1.0


def time_fit(problem: str, method: str) -> list[float]:
    """Seconds of a whole fit, extrapolated from each measured part."""
    x, y = PROBLEMS[problem].training(0)
    estimator = BNNLVRegressor(**settings(method, smoke=False), verbose=False)
    if resolve_method(estimator.inference).staged:
        return [time_whole(estimator, x, y, seed) for seed in range(STRETCHES)]
    x, y = (Standardizer.fit(v).transform(v) for v in (x, y[:, None]))
    inputs = x.shape[1]
    hidden = hidden_sizes(estimator.hidden_layer_sizes, False, len(x), inputs)
    model = BNNLV(inputs, 1, hidden, 1, 1.0, float(inputs))
    chosen = resolve_method(estimator.inference)
    setup = chosen.set_up(model, np.array([len(x)]), "float32")
    data = pad(x, y, padded_size(len(x)), "float32")
    spread = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], chosen.runs, axis=0), data)
    keys = jax.random.split(jax.random.key(0), chosen.runs)
    return scaled_up(setup, keys, chosen.problems([chosen] * chosen.runs, spread))


def time_whole(estimator: BNNLVRegressor, x: np.ndarray, y: np.ndarray, seed: int) -> float:
    """Seconds of a fit, its compilation included."""
    jax.clear_caches()
    started = time.perf_counter()
    estimator.set_params(random_state=seed).fit(x, y)
    return time.perf_counter() - started


def epochs_done(method: Setup, keys: jax.Array, problems: Any) -> Iterator[int]:
    """Run the fit repeatedly; yields the number of epochs of each chunk."""
    while True:
        states = loop.init(method.algorithm, keys, problems)
        done = 0
        for chunk in loop.run(
            method.algorithm, keys, states, problems, method.schedule, 0, method.epochs
        ):
            yield chunk.epoch - done
            done = chunk.epoch


def scaled_up(method: Setup, keys: jax.Array, problems: Any) -> list[float]:
    """Compile, run some parts, and extrapolate each to the whole run."""
    started, chunks = time.perf_counter(), epochs_done(method, keys, problems)
    next(chunks)
    compilation = time.perf_counter() - started
    found = []
    for _ in range(STRETCHES):
        started, epochs = time.perf_counter(), 0
        while not epochs or time.perf_counter() - started < STRETCH_SECONDS:
            epochs += next(chunks)
        found.append((time.perf_counter() - started) / epochs)
    return [compilation + each * method.epochs for each in found]


def main() -> None:
    """Parse the command line, measure, write the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("results"))
    options = parser.parse_args()
    device = "gpu" if options.gpu else "cpu"
    if options.gpu != (jax.default_backend() == "gpu"):
        parser.error(f"asked for a {device}, but JAX computes on {jax.default_backend()}")
    stretches = {"stretches": STRETCHES, "stretch_seconds": STRETCH_SECONDS}
    record = Record("posteriors", stretches, seeds=[0])
    alike: dict[int, list[str]] = {}
    for name, problem in PROBLEMS.items():
        alike.setdefault(problem.training(0)[0].shape[1], []).append(name)
    for inputs, problems in alike.items():
        for method in METHODS:
            seconds = time_fit(problems[0], method)
            print(f"{inputs} inputs, {method:20s} {np.mean(seconds):8.1f} s", flush=True)
            for name in (method, "default") if method == DEFAULT else (method,):
                for problem in problems:
                    record.add_mean(f"{problem}/{name}/seconds_{device}", seconds)
    print(f"wrote {record.merge(options.output, lambda name: f'/seconds_{device}/' not in name)}")


if __name__ == "__main__":
    main()
