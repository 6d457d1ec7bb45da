"""Seconds for one fit of each posterior on each problem of the contest.

The settings are those of ``python -m twofold.experiments posteriors``, alone on the machine. A fit
is thousands of equal epochs, so that the time of all of them is that of a stretch of a few seconds,
scaled up, and the compilation, each measured REPEATS times:

    python benchmarks/posteriors.py         two CPU cores
    python benchmarks/posteriors.py --gpu   one GPU

The numbers join ``results/posteriors.json``.
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from twofold import BNNLVRegressor
from twofold.data import Standardizer, pad, padded_size
from twofold.estimators.methods import METHODS as INFERENCES
from twofold.experiments.contest import DEFAULT, METHODS
from twofold.experiments.jobs import settings
from twofold.experiments.problems import PROBLEMS
from twofold.experiments.records import Record
from twofold.inference import base
from twofold.model.bnn import BNNLV

REPEATS = 3
STRETCH_SECONDS = 2.0


def time_fit(problem: str, method: str) -> list[float]:
    """Seconds of a whole fit, REPEATS times."""
    x, y = PROBLEMS[problem].training(0)
    x, y = (Standardizer.fit(v).transform(v) for v in (x, y[:, None]))
    estimator = BNNLVRegressor(**settings(method, smoke=False))
    inputs = x.shape[1]
    model = BNNLV(inputs, 1, tuple(estimator.hidden_layer_sizes), 1, 1.0, float(inputs))
    chosen = INFERENCES[estimator.inference]([estimator], model, np.array([len(x)]))
    data = pad(x, y, padded_size(len(x)), "float32")
    spread = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], chosen.members, axis=0), data)
    keys = jax.random.split(jax.random.key(0), chosen.members)
    return [stretch(chosen, keys, chosen.problems(spread)) for _ in range(REPEATS)]


def stretch(method, keys, problems) -> float:
    """Compile anew, run for a while, and scale up to the whole run."""
    jax.clear_caches()
    started = time.perf_counter()
    states = base.init(method.algorithm, keys, problems)
    run = base.run(method.algorithm, keys, states, problems, method.schedule, 0, method.epochs)
    first = next(run)
    compiled = time.perf_counter()
    last = first
    while last.epoch < method.epochs and time.perf_counter() - compiled < STRETCH_SECONDS:
        last = next(run)
    per_epoch = (time.perf_counter() - compiled) / (last.epoch - first.epoch)
    return compiled - started + per_epoch * (method.epochs - first.epoch)


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
    stretches = {"repeats": REPEATS, "stretch_seconds": STRETCH_SECONDS}
    record = Record("posteriors", stretches, seeds=[0])
    for problem in PROBLEMS:
        for method in METHODS:
            seconds = time_fit(problem, method)
            for name in (method, "default") if method == DEFAULT else (method,):
                record.add_mean(f"{problem}/{name}/seconds_{device}", seconds)
            print(f"{problem:16s} {method:20s} {np.mean(seconds):8.1f} s", flush=True)
    kept = record.merge(options.output, lambda name: f"/seconds_{device}/" not in name)
    print(f"wrote {kept}")


if __name__ == "__main__":
    main()
