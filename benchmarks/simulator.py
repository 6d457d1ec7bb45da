"""Steps per second of the industrial benchmark, compared with the original on PyPI.

    python benchmarks/simulator.py

The original simulates one plant at a time; twofold is timed with many in parallel and with one.
Both get random actions. Writes ``results/bench_simulator.json``.
"""

import argparse
import time
from pathlib import Path
from unittest import mock

import jax
import numpy as np

from paper.industrial_checks import load_plant, random
from paper.records import Record
from paper.systems import steps_per_second


def original_steps_per_second(steps: int) -> float:
    """One plant with random actions."""
    rng = np.random.default_rng(0)
    # NumPy 2 has no ``numpy.float``, which the original calls.
    with mock.patch.object(np, "float", float, create=True):
        plant = load_plant()(50.0, inital_seed=0)
        started = time.perf_counter()
        for _ in range(steps):
            plant.step(random(rng, plant.state))
        return steps / (time.perf_counter() - started)


def main() -> None:
    """Measure both alternately and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    steps, repeats = (50, 1) if arguments.smoke else (3000, 3)
    pairs = [
        (steps_per_second(arguments.smoke), original_steps_per_second(steps))
        for _ in range(repeats)
    ]
    ours, original = np.median(pairs, axis=0)
    record = Record("bench_simulator", {"steps": steps, "repeats": repeats}, [0])
    device = jax.default_backend()
    record.add(f"steps_per_second/twofold/{device}", ours)
    record.add(f"steps_per_second/original/{device}", original)
    record.add(f"ratio/original/{device}", ours / original)
    print(f"wrote {record.write(arguments.output)}")
    print(record.metrics)


if __name__ == "__main__":
    main()
