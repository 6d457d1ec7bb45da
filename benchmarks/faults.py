"""Test all interfaces with invalid input and disk faults, and count the outcomes.

    python benchmarks/faults.py [--only campaign tables]

Runs the tests of ``tests/fuzz`` at both sizes, each file in its own process. Crashes, hangs and
losses found by failing tests are counted, and so are processes that die or do not end. Writes
``results/faults.json``.
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

from paper.records import Record

TESTS = Path(__file__).parents[1] / "tests" / "fuzz"
COUNTS = ("cases", "refused", "crashes", "hangs", "losses", "failed_tests")
# No test file takes a tenth of this on two idle cores.
PATIENCE = 3 * 3600
FAILED = 1


def run(file: Path, folder: Path, seed: int, quick: bool) -> tuple[Counter[str], list[str]]:
    """The counts of one test file by slash-separated names, and the failed tests."""
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
        counts.update({name: found[name] for name in COUNTS if name in found})
    text = report.read_text()
    return counts, [line for line in text.splitlines() if line.startswith("FAILED")]


def surface_of(file: Path) -> str:
    """The name under which a file's counts are recorded."""
    return file.stem.removeprefix("test_")


def main() -> None:
    """Run and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="another one draws other cases")
    parser.add_argument("--quick", action="store_true", help="the quick tests only")
    files = [file for file in sorted(TESTS.glob("test_*.py")) if "fuzz" in file.read_text()]
    names = [surface_of(file) for file in files]
    parser.add_argument("--only", nargs="+", choices=names, help="the others keep their counts")
    parser.add_argument("--output", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    settings: dict[str, Any] = {"quick": arguments.quick}
    record = Record("faults", settings, seeds=[arguments.seed])
    chosen = arguments.only or names
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            file = TESTS / f"test_{name}.py"
            counts, failures = run(file, Path(folder), arguments.seed, arguments.quick)
            counts["failed_tests"] = len(failures)
            for count in COUNTS:
                record.add(f"{name}/{count}", counts[count])
            print(name, dict(counts), *failures, sep="\n  ", flush=True)
    kept = earlier(arguments.output, [name for name in names if name not in chosen])
    for count in COUNTS:
        every = (record.metrics | kept).items()
        record.add(f"total/{count}", sum(v for name, v in every if name.endswith(f"/{count}")))
    print(f"wrote {record.merge(arguments.output, keep=kept.__contains__)}")


def earlier(folder: Path, surfaces: list[str]) -> dict[str, float]:
    """Counts of an earlier run that are not measured again."""
    path = folder / "faults.json"
    metrics = json.loads(path.read_text())["metrics"] if path.exists() else {}
    return {name: v for name, v in metrics.items() if name.partition("/")[0] in surfaces}


if __name__ == "__main__":
    main()
