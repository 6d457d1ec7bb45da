"""Time of the main jobs relative to the least time that their work takes on this machine.

    python benchmarks/floors.py            on JAX's default device
    python benchmarks/floors.py --smoke    a small run of seconds

Machine and jobs are measured alternately, so that other load slows down both alike; times are
medians without compilation. Writes ``results/bench.json`` under the name of the device, keeping the
numbers of other devices and benchmarks.
"""

import argparse
import statistics
import sys
from pathlib import Path

import jax
import numpy as np

from benchmarks.peak_rates import Peaks, seconds
from benchmarks.timed_jobs import Job, jobs
from benchmarks.work_counts import Rates, floor_seconds
from paper.records import Record

REPEATS = 5


def measure(job: Job, peaks: Peaks, repeats: int) -> tuple[float, Rates]:
    """Median time of the call, and median rates of the machine at that time."""
    jax.block_until_ready(job.call())
    times, rates = [], []
    for _ in range(repeats):
        rates.append(peaks.measure())
        times.append(seconds(job.call))
    return statistics.median(times), Rates(*np.median(np.array(rates), axis=0))


def add(record: Record, device: str, name: str, job: Job, found: tuple[float, Rates]) -> None:
    """Record time, floor and their ratio, and which part of the work determines the floor."""
    time, rates = found
    floor = floor_seconds(job.work, rates)
    record.add(f"floor/{name}/{device}", time / floor)
    record.add(f"milliseconds/{name}/{device}", 1e3 * time / job.units)
    record.add(f"floor_milliseconds/{name}/{device}", 1e3 * floor / job.units)
    shares = [done / rate / floor for done, rate in zip(job.work, rates, strict=True)]
    record.add(f"bound_by/{name}/{device}", int(np.argmax(shares)))


def main() -> None:
    """Measure on this machine and write the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--only", nargs="+", default=[], help="jobs whose names begin so")
    parser.add_argument("--output", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    device = jax.default_backend()
    record = Record("bench", {"repeats": REPEATS}, [0])
    peaks, rates = Peaks(arguments.smoke), []
    for name, build in jobs(device == "gpu", arguments.smoke).items():
        if arguments.only and not name.startswith(tuple(arguments.only)):
            continue
        job = build()
        found = measure(job, peaks, 2 if arguments.smoke else REPEATS)
        rates.append(found[1])
        add(record, device, name, job, found)
        ratio = record.metrics[f"floor/{name}/{device}"]
        print(f"{name:34s} {ratio:8.1f} times its floor", file=sys.stderr, flush=True)
    for part, rate in zip(Rates._fields, np.median(np.array(rates), axis=0), strict=True):
        record.add(f"peak/{part}_per_second/{device}", rate)
    written = record.merge(arguments.output, lambda name: name not in record.metrics)
    print(f"wrote {written}")
    for name, value in record.metrics.items():
        print(f"{name:60s} {value:.4g}")


if __name__ == "__main__":
    main()
