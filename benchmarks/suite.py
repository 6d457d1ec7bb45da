"""Run all benchmarks and summarise them in one record.

    python benchmarks/suite.py                     all parts; results of this commit are reused
    python benchmarks/suite.py --fresh             all parts again
    python benchmarks/suite.py --only train floors some parts
    python benchmarks/suite.py --collect           run nothing, summarise the records in results/

Every part runs in a process of its own and writes its records to ``.cache/bench/<part>``, from
where they are merged into those in ``results/``. The summary is ``results/bench.json``:
``ratio/<job>/<peer>`` is the time of a peer divided by twofold's, ``floor/<job>/<device>``
twofold's time divided by the least that the work takes.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.tables.suite import terminal
from paper.records import Record, commit, join

WORK = Path(".cache/bench")
PEER_PYTHON = ".bench-venv/bin/python"
# Ratios of the summary: the metric in a part's record, and its name here.
RATIOS = {
    "bench_train": {
        "ratio/torch_eager": "ratio/train/torch_eager",
        "ratio/torch_compile": "ratio/train/torch_compile",
        "ratio/torch_tuned": "ratio/train/torch_tuned",
        "ratio/lightning_uq_box": "ratio/train_matched/lightning_uq_box",
    },
    "bench_search": {
        "ratio/torch": "ratio/search/torch_eager",
        "ratio/torch_compiled": "ratio/search/torch_compile",
    },
    "bench_entropy": {
        "cpu/ratio/scipy_over_default": "ratio/entropy/scipy",
        "cpu/ratio/scipy_over_nearest_neighbour": "ratio/entropy_nearest_neighbour/scipy",
    },
    "bench_simulator": {"ratio/original/cpu": "ratio/simulator/original"},
    "bench_progress": {"overhead": "overhead/progress_bar"},
}


PARTS = (
    "floors",
    "gains",
    "cost_model",
    "train",
    "search",
    "entropy",
    "simulator",
    "progress",
    "cores",
    "first_fit",
    "first_use",
    "regression",
    "offline_rl",
    "posteriors",
    "table1",
    "scaling",
    "faults",
    "campaign_faults",
)
WITH_PEERS = ("train", "search")


def command(part: str, peer_python: str) -> list[str]:
    """The command line of a part, for the root of the repository."""
    words = [sys.executable, f"benchmarks/{part}.py"]
    if part in WITH_PEERS and peer_python != PEER_PYTHON:
        words += ["--peer-python", peer_python]
    return [*words, "--output", str(WORK / part)]


def is_done(name: str) -> bool:
    """Whether a part has been completed with the current source."""
    mark = WORK / name / "done"
    return mark.exists() and mark.read_text() == f"{commit()}\n"


def run_part(name: str, peer_python: str) -> str | None:
    """Run a part in an empty folder; returns its errors."""
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"{name} …", file=sys.stderr, flush=True)
    done = subprocess.run(command(name, peer_python), capture_output=True, text=True)
    if done.returncode:
        return (done.stderr or done.stdout).strip()[-1500:]
    (folder / "done").write_text(f"{commit()}\n")
    return None


def publish(name: str, output: Path) -> None:
    """Merge a part's records into those in ``output``, and replace its figures there."""
    for path in sorted((WORK / name).glob("*.json")):
        join(path, output)
    for path in (WORK / name).glob("*.png"):
        shutil.copy(path, output)


def gather(output: Path, record: Record) -> None:
    """Ratios of all peers, from the records of the parts."""
    for name, ratios in RATIOS.items():
        path = output / f"{name}.json"
        metrics = json.loads(path.read_text())["metrics"] if path.exists() else {}
        for theirs, ours in ratios.items():
            if theirs in metrics:
                record.add(ours, metrics[theirs])


def main() -> None:
    """Run the missing parts, summarise, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--collect", action="store_true")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--peer-python", default=PEER_PYTHON)
    parser.add_argument("--output", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    # The commit that is measured, before new records change the working tree.
    os.environ.setdefault("TWOFOLD_COMMIT", commit())
    failed = {}
    for name in () if arguments.collect else arguments.only:
        if arguments.fresh or not is_done(name):
            error = run_part(name, arguments.peer_python)
            if error is not None:
                failed[name] = error
                print(f"{name} failed:\n{error}", file=sys.stderr, flush=True)
    parts = [] if arguments.collect else [name for name in arguments.only if is_done(name)]
    for name in parts:
        publish(name, arguments.output)
    record = Record("bench", {"parts": parts}, [0])
    gather(arguments.output, record)
    print(f"wrote {record.merge(arguments.output, lambda name: name not in record.metrics)}")
    print(terminal(arguments.output))
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}; the others are kept, run again for these")


if __name__ == "__main__":
    main()
