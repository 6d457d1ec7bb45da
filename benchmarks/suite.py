"""All benchmarks, one after another, and one table of what they found.

    python benchmarks/suite.py                     all of it; what this commit has done is kept
    python benchmarks/suite.py --fresh             all of it anew
    python benchmarks/suite.py --only train floors some parts
    python benchmarks/suite.py --collect           run nothing, gather the records in results/

Every part runs in a process of its own and leaves its records in ``.cache/bench/<part>``, from
where they join those in ``results/``. What they say together goes to ``results/bench.json``:
``ratio/<what>/<peer>`` is a peer's time over ours, ``floor/<job>/<device>`` our time over the least
that the work takes.
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
# What of which record becomes a ratio of the suite's: its name there, and its name here.
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
    """The command line of a part, as it is given in the repository's root."""
    words = [sys.executable, f"benchmarks/{part}.py"]
    if part in WITH_PEERS and peer_python != PEER_PYTHON:
        words += ["--peer-python", peer_python]
    return [*words, "--output", str(WORK / part)]


def is_done(name: str) -> bool:
    """Whether a part has come to its end with the source as it is."""
    mark = WORK / name / "done"
    return mark.exists() and mark.read_text() == f"{commit()}\n"


def run_part(name: str, peer_python: str) -> str | None:
    """Run a part in a fresh folder; returns what went wrong."""
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
    """A part's records join those in ``output``, and its figures replace those there."""
    for path in sorted((WORK / name).glob("*.json")):
        join(path, output)
    for path in (WORK / name).glob("*.png"):
        shutil.copy(path, output)


def gather(output: Path, record: Record) -> None:
    """Ratios of all peers, from their own records."""
    for name, ratios in RATIOS.items():
        path = output / f"{name}.json"
        metrics = json.loads(path.read_text())["metrics"] if path.exists() else {}
        for theirs, ours in ratios.items():
            if theirs in metrics:
                record.add(ours, metrics[theirs])


def main() -> None:
    """Run what is not done, gather, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--collect", action="store_true")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--peer-python", default=PEER_PYTHON)
    parser.add_argument("--output", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    # That of the source that is measured: new records will make it another one.
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
