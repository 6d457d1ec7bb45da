"""How long a user waits for the first fit: a fresh process, from calling fit to predictions.

    python benchmarks/first_fit.py            the default and the quick ensemble at four sizes
    python benchmarks/first_fit.py --smoke    one size, tiny fits

Each measurement is a process of its own, first with an empty compile cache (``seconds``), then with
the cache that the first one has filled (``seconds_warm``). Writes ``results/first_fit.json``; an
interrupted run keeps its measurements, and the same command resumes it.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paper.fits import judged_settings
from paper.records import Record, commit
from twofold.core.jobs import Job, run_jobs

SIZES = ((120, 1), (500, 10), (750, 1), (1500, 5))
METHODS = {"quick": "quick", "default": "twofold"}
REPEATS = 3
SCRIPT = Path(__file__).parent / "peers" / "first_fit.py"
WORK = Path(".cache/bench/unfinished")
CACHE = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


def time_process(rows: int, inputs: int, inference: dict[str, Any], cache: str) -> dict[str, float]:
    """The measurements of a new process with a folder for compiled programs."""
    words = ["--rows", str(rows), "--inputs", str(inputs), "--inference", json.dumps(inference)]
    environment = os.environ | CACHE | {"JAX_COMPILATION_CACHE_DIR": cache}
    command = [sys.executable, str(SCRIPT), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def time_twice(rows: int, inputs: int, inference: dict[str, Any]) -> dict[str, float]:
    """A first fit with an empty compile cache, and one with a filled cache."""
    with tempfile.TemporaryDirectory(prefix="twofold-programs-") as cache:
        cold, warm = (time_process(rows, inputs, inference, cache) for _ in range(2))
    return {
        "seconds": cold["seconds"],
        "seconds_warm": warm["seconds"],
        "import_seconds": warm["import_seconds"],
    }


def add_times(record: Record, found: Mapping[str, Sequence[dict[str, float]]]) -> None:
    """Medians over the repeats of each measurement, and of all imports."""
    for place, repeats in found.items():
        for name in ("seconds", "seconds_warm"):
            record.add(f"{place}/{name}", statistics.median(one[name] for one in repeats))
    imports = [one["import_seconds"] for repeats in found.values() for one in repeats]
    record.add("import_seconds", statistics.median(imports))


def measure(smoke: bool, repeats: int, work: Path | None) -> Record:
    """The record of all sizes and methods; each pair of processes is a job."""
    sizes = (SIZES[0],) if smoke else SIZES
    inference = {
        name: judged_settings(method, smoke)["inference"] for name, method in METHODS.items()
    }
    record = Record("first_fit", {"inference": inference, "repeats": repeats}, seeds=[0])
    jobs, places = [], []
    # Each repeat runs all of them, so that other load on the machine affects all alike.
    for repeat in range(repeats):
        for rows, inputs in sizes:
            for name in METHODS:
                place = f"{rows}x{inputs}/{name}"
                identity = {"place": place, "repeat": repeat, "inference": inference[name]}
                arguments = rows, inputs, inference[name]
                jobs.append(Job(f"{place}, repeat {repeat}", time_twice, arguments, identity))
                places.append(place)
    found: dict[str, list[dict[str, float]]] = {place: [] for place in places}
    for place, one in zip(places, run_jobs(jobs, work), strict=True):
        found[place].append(one)
    add_times(record, found)
    return record


def main() -> None:
    """Parse the command line, measure, write the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--output", type=Path, default=Path("results"))
    options = parser.parse_args()
    work = None if options.smoke else WORK / f"first_fit-{commit()}"
    record = measure(options.smoke, 1 if options.smoke else options.repeats, work)
    print(f"wrote {record.write(options.output)}")
    if work is not None:
        shutil.rmtree(work)  # the next run measures again
    for name, value in record.metrics.items():
        print(f"{name:40s} {value:8.2f}")


if __name__ == "__main__":
    main()
