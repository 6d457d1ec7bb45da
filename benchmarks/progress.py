"""The cost of a progress bar: a fit with it, compared with the bare compiled program.

    python benchmarks/progress.py

Both run the same epochs of the same problem alternately. Writes ``results/bench_progress.json``.
"""

import argparse
import contextlib
import io
import os
import statistics
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from paper.records import Record
from twofold.core.numerics import Standardizer, pad, padded_size
from twofold.envs.toy import HETEROSCEDASTIC
from twofold.estimators.training import Plan, train
from twofold.inference import alpha, loop
from twofold.model.spec import BNNLV

EPOCHS, REPEATS = 10 * loop.CHUNK_EPOCHS, 7


def make_problem() -> tuple:
    """The heteroscedastic problem with the estimator's default sizes."""
    x, y = HETEROSCEDASTIC.training_data(0)
    y = y[:, None]
    standardised = Standardizer.fit(x).transform(x), Standardizer.fit(y).transform(y)
    data = pad(*standardised, padded_size(len(x)), "float32")
    problems = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], alpha.Problem(data, 1.0))
    algorithm = alpha.build(alpha.Alpha().config(BNNLV(1, 1, (20, 20), 1, 1.0, 1.0), 75))
    schedule = alpha.Schedule(jnp.int32(EPOCHS), jnp.int32(10), jnp.float32(5e-3), jnp.float32(1.0))
    return algorithm, jax.random.split(jax.random.key(0), 1), problems, schedule


def bare(algorithm, keys, problems, schedule) -> float:
    """Seconds of the compiled program alone."""
    states = loop.init(algorithm, keys, problems)
    started = time.perf_counter()
    for first in range(0, EPOCHS, loop.CHUNK_EPOCHS):
        count = jnp.int32(loop.CHUNK_EPOCHS)
        arguments = keys, states, problems, schedule, jnp.int32(first), count
        states, _, _ = loop.advance(algorithm, *arguments)
    jax.block_until_ready(states)
    return time.perf_counter() - started


def with_bar(algorithm, keys, problems, schedule) -> float:
    """Seconds of the same run with chunks, energies read back and a bar drawn."""
    started = time.perf_counter()
    with contextlib.redirect_stderr(io.StringIO()):
        train(
            algorithm, keys, problems, schedule, Plan(EPOCHS, np.array([10]), "epochs", True, None)
        )
    return time.perf_counter() - started


def main() -> None:
    """Measure both alternately and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    os.environ["FORCE_COLOR"] = "1"  # rich then draws the bar as on a terminal
    problem = make_problem()
    bare(*problem)
    pairs = [(with_bar(*problem), bare(*problem)) for _ in range(REPEATS)]
    record = Record("bench_progress", {"epochs": EPOCHS, "repeats": REPEATS}, seeds=[0])
    record.add("seconds/bare", statistics.median(b for _, b in pairs))
    record.add("seconds/with_bar", statistics.median(a for a, _ in pairs))
    record.add("overhead", statistics.median(a / b for a, b in pairs) - 1.0)
    record.write(arguments.output)
    print(record.metrics)


if __name__ == "__main__":
    main()
