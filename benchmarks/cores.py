"""Chains on the cores of a CPU: a share per core, compared with one program that XLA divides.

    python benchmarks/cores.py

Both take the same steps of the same eight Langevin chains, alternately; compilation is excluded.
Writes ``results/bench_cores.json``: milliseconds of a step of all chains, and their ratio.
"""

import argparse
import statistics
import time
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from paper.records import Record
from twofold.core import cores
from twofold.core.numerics import pad, padded_size
from twofold.inference import langevin, loop
from twofold.inference.ensemble import DEFAULT_NODES, draw_starts
from twofold.model.spec import BNNLV

# Rows, inputs, hidden units and latent inputs.
SIZES = {
    "120x1": (120, 1, (20,), 0),
    "750x1": (750, 1, (20, 20), 0),
    "500x10": (500, 10, (50, 50), 0),
    "1500x5": (1500, 5, (50, 50), 0),
    "750x1_latent": (750, 1, (20, 20), 1),
}
CHAINS, EPOCHS, REPEATS = 8, 16, 5


def make_chains(rows: int, inputs: int, hidden: tuple[int, ...], latents: int) -> tuple:
    """Algorithm, keys, walks and schedule of chains on noise."""
    model = BNNLV(
        inputs, 1, hidden, latents, 1.0, float(inputs), varying_noise=True, scaled_prior=True,
        linear_skip=True, activation="tanh", latent_levels=DEFAULT_NODES * latents,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    data = pad(rng.normal(size=(rows, inputs)), rng.normal(size=(rows, 1)), padded_size(rows), "f4")
    keys = jax.random.split(jax.random.key(0), CHAINS)
    counted = np.broadcast_to(np.arange(len(data.x)) < rows, (CHAINS, len(data.x)))
    walks = langevin.Problem(
        jax.tree.map(lambda leaf: np.repeat(leaf[None], CHAINS, axis=0), data),
        counted,
        draw_starts(model, "float32", keys),
        np.full(CHAINS, langevin.FIRST_STEP, np.float32),
        np.ones(CHAINS, np.float32),
    )
    settings = langevin.Langevin()
    config = langevin.Config(model, DEFAULT_NODES, settings.samples, settings.energy_error)
    return langevin.set_up(config, EPOCHS, 1).algorithm, keys, walks, jnp.int32(EPOCHS)


def time_step(algorithm, keys, walks, schedule, cores_used: int) -> float:
    """Milliseconds of a step of all chains."""
    with mock.patch.object(cores, "count_cores", lambda: cores_used):
        states = loop.init(algorithm, keys, walks)
        loop.compile_run(algorithm, keys, states, walks, schedule)
        started = time.perf_counter()
        for _ in loop.run(algorithm, keys, states, walks, schedule, 0, EPOCHS):
            pass
        return 1e3 * (time.perf_counter() - started) / (EPOCHS * langevin.STEPS)


def measure() -> Record:
    """Measure all sizes in both ways."""
    record = Record("bench_cores", {"chains": CHAINS, "cores": cores.count_cores()}, [0])
    for name, size in SIZES.items():
        problem = make_chains(*size)
        pairs = [
            (time_step(*problem, 1), time_step(*problem, cores.count_cores()))
            for _ in range(REPEATS)
        ]
        divided, shared = (statistics.median(times) for times in zip(*pairs, strict=True))
        record.add(f"{name}/divided/ms", divided)
        record.add(f"{name}/shared/ms", shared)
        record.add(f"{name}/ratio", divided / shared)
    return record


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("results"))
    options = parser.parse_args()
    record = measure()
    for name, value in record.metrics.items():
        print(f"{name:30s} {value:8.2f}")
    print(f"wrote {record.write(options.output)}")


if __name__ == "__main__":
    main()
