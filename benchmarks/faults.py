"""Try bad input and faults of the disk over the whole surface, and count what came of it.

    python benchmarks/faults.py

Runs the tests of ``tests/fuzz`` at both of their sizes, one process for each file of them. A test
that fails has found something: its crashes, hangs and losses are counted, and so is a process that
dies or does not end. Writes ``results/faults.json``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from twofold.experiments.records import Record

TESTS = Path(__file__).parents[1] / "tests" / "fuzz"
COUNTS = ("cases", "refused", "crashes", "hangs", "losses")
# No file of tests takes a tenth of it on two idle cores.
PATIENCE = 3 * 3600
FAILED = 1


def run(file: Path, folder: Path, seed: int, quick: bool) -> tuple[Counter[str], list[str]]:
    """The counts of one file of tests by slash-separated names, and the tests that failed."""
    lines, report = folder / f"{file.stem}.jsonl", folder / f"{file.stem}.txt"
    lines.touch()
    words = [sys.executable, "-m", "pytest", str(file), "-q", "-p", "no:cacheprovider", "-rf"]
    words += [] if quick else ["-m", "slow or not slow"]
    environment = os.environ | {"TWOFOLD_FAULTS": str(lines), "TWOFOLD_FUZZ_SEED": str(seed)}
    counts: Counter[str] = Counter()
    with report.open("w") as output:
        try:
            done = subprocess.run(
                words, env=environment, stdout=output, stderr=output, timeout=PATIENCE
            )
            died = done.returncode not in (0, FAILED)
        except subprocess.TimeoutExpired:
            died = False
            counts["hangs"] += 1
    counts["crashes"] += died
    for line in lines.read_text().splitlines():
        found = json.loads(line)
        counts.update({name: found[name] for name in COUNTS})
    text = report.read_text()
    return counts, [line for line in text.splitlines() if line.startswith("FAILED")]


def surface_of(file: Path) -> str:
    """The name that a file's counts go under."""
    return file.stem.removeprefix("test_")


def main() -> None:
    """Run and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="another one draws other cases")
    parser.add_argument("--quick", action="store_true", help="the quick tests only")
    parser.add_argument("--output", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    settings: dict[str, Any] = {"quick": arguments.quick}
    record = Record("faults", settings, seeds=[arguments.seed])
    total: Counter[str] = Counter()
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for file in sorted(TESTS.glob("test_*.py")):
            counts, failures = run(file, Path(folder), arguments.seed, arguments.quick)
            for name in COUNTS:
                record.add(f"{surface_of(file)}/{name}", counts[name])
            record.add(f"{surface_of(file)}/failed_tests", len(failures))
            total.update(counts)
            failed += failures
            print(surface_of(file), dict(counts), *failures, sep="\n  ", flush=True)
    for name in COUNTS:
        record.add(f"total/{name}", total[name])
    record.add("total/failed_tests", len(failed))
    print(f"wrote {record.write(arguments.output)}")


if __name__ == "__main__":
    main()
