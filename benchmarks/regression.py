"""This library beside others on public tables: the same train/test splits, the same cores.

    python benchmarks/regression.py                             everything, resumable
    python benchmarks/regression.py --sets airfoil diabetes     some tables
    python benchmarks/regression.py --libraries catboost gp     some libraries
    python benchmarks/regression.py --splits 5                  at most five splits or seeds each
    python benchmarks/regression.py --libraries twofold --together    on a GPU: scores alone
    python benchmarks/regression.py --libraries bde gp --workers 7    on many cores: scores alone
    python benchmarks/regression.py --smoke --output FOLDER     tiny fits, no environments

Every fit is a process of its own in the environment of its library (``make peers`` makes them), and
a job: a run that is stopped keeps what it has, and the same command does the rest. Writes
``results/regression.json``; runs of some tables or libraries join what others have written. Other
work on the machine makes ``seconds_fit`` longer; ``cpu_seconds_fit``, the processor's time of all
threads, much less so. With ``--together`` this library's fits of a table run side by side in one
program, for a GPU: scores without seconds, which stay those of an earlier run. ``--workers`` runs
that many fits at a time, each on two cores of its own, and records no seconds either.

On four problems of known truth the two parts of the predictive entropy are compared with it too, of
the libraries that have several members and noise that varies: rank correlations of the epistemic
part, in nats and as the deviation of the members' means, with the scarcity of data (``−log p(x)``),
and of the aleatoric one with the true entropy of y given x; mean absolute error of the latter in
nats. ``reference`` has the same of the long chains of the default's model, whose parts in nats are
stored in ``results/``, at points among the data: about what a perfect sampler would reach. Where
the true entropy hardly varies its rank correlation judges noise (bimodal: of the truth with an
error of 0.005 nats it is 0.7), so there is its *order* too: of all pairs of points whose true
entropies differ by DISTINCT nats, how many more are in the right order than in the wrong one.
"""

import argparse
import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers import known_parts
from benchmarks.peers.processes import SCRIPT, interpreter, predict_apart
from benchmarks.peers.public_tables import TABLES, load_table, score
from benchmarks.peers.regress import CORES
from paper.problems import ONE_DIMENSIONAL
from paper.records import Record
from paper.reference.answers import read_references
from twofold.core.jobs import Job, run_jobs

WORK = Path(".cache/bench/unfinished/regression")
# What decides a fit of this library.
SOURCES = ("src/twofold/*/*.py", "paper/gp.py")
TABLE_SOURCES = ("benchmarks/peers/public_tables.py",)
PROBLEM_SOURCES = (
    "benchmarks/peers/known_parts.py",
    "paper/problems.py",
    "src/twofold/envs/toy.py",
)
SMOKE_ROWS = 60


class Library(NamedTuple):
    """An adapter of ``peers/regress.py``, its options, and its environment: a folder of
    ``.peers``, or this one."""

    adapter: str
    options: dict[str, Any]
    environment: str | None = None


PART_SEEDS = 3
REFERENCE = "reference"
LONG = {"inference": {"method": "langevin", "steps": 64_000}, "hidden_layer_sizes": [32, 32, 32]}
LIBRARIES = {
    "twofold": Library("twofold", {}),
    "twofold_quick": Library("twofold", {"inference": "ensemble"}),
    "twofold_alpha": Library("twofold", {"inference": "alpha"}),
    "twofold_long": Library("twofold", LONG),
    "bde": Library("bde", {}, "bde"),
    "catboost": Library("catboost", {}, "boosting"),
    "ngboost": Library("ngboost", {}, "boosting"),
    "gp": Library("gp", {}),
    "linear": Library("linear", {}),
    "forest": Library("forest", {}),
    REFERENCE: Library(REFERENCE, {}),
}
WITH_PARTS = ("twofold", "twofold_quick", "twofold_alpha", "bde", "catboost")
# Where a longer run than the default's is measured.
LONG_TABLES = ("airfoil",)
SMOKE = {
    "twofold": {"inference": {"method": "langevin", "steps": 32, "updates": 20, "chains": 2}},
    "linear": {},
}


def measure_fit(
    name: str, number: int, adapter: str, options: dict[str, Any], environment: str | None,
    smoke: bool,
) -> dict[str, float]:  # fmt: skip
    """Scores and seconds of one library on one split."""
    split = load_table(name, number + 1)[number]
    if smoke:
        split = tuple(part[:SMOKE_ROWS] for part in split)
    table = dict(zip(("X", "y", "X_test", "y_test"), split, strict=True))
    predicted, seconds = predict_apart(adapter, options, environment, table, name)
    scale = float(split[1].std()) if TABLES[name].standardised else 1.0
    return score(predicted, split[3], scale, TABLES[name].step) | seconds


def measure_scores(*arguments: Any) -> dict[str, float]:
    """``measure_fit`` without seconds."""
    found = measure_fit(*arguments)
    return {name: value for name, value in found.items() if "seconds" not in name}


def measure_parts(
    name: str, seed: int, adapter: str, options: dict[str, Any], environment: str | None
) -> dict[str, float]:
    """How one library's two parts compare with the truth, on one seed's data."""
    table = dict(
        zip(("X", "y", "X_test", "y_test"), known_parts.known_table(name, seed), strict=True)
    )
    predicted, _ = predict_apart(adapter, options, environment, table | {"parts": 1}, name)
    return known_parts.compare_parts(name, predicted)


def measure_reference(name: str, seed: int, *_: Any) -> dict[str, float]:
    """How the two parts of the stored reference compare with the truth."""
    return known_parts.compare_reference(name, seed, read_references(lambda _: Path("results")))


def measure_together(name: str, options: dict[str, Any], count: int) -> list[dict[str, float]]:
    """The same scores of this library's fits to all splits, or seeds, of a table, side by side."""
    from benchmarks.peers.regress import describe_fit
    from twofold import BNNLVRegressor, fit_many

    known = name in ONE_DIMENSIONAL
    splits = (
        [known_parts.known_table(name, s) for s in range(count)]
        if known
        else load_table(name, count)
    )
    models = [BNNLVRegressor(random_state=0, verbose=False, **options) for _ in splits]
    fit_many(models, [split[0] for split in splits], [split[1] for split in splits])
    found = []
    for model, (_, y, x_test, y_test) in zip(models, splits, strict=True):
        predicted = describe_fit(model)(x_test, y_test, known)
        scale = float(y.std()) if not known and TABLES[name].standardised else 1.0
        found.append(
            known_parts.compare_parts(name, predicted)
            if known
            else score(predicted, y_test, scale, TABLES[name].step)
        )
    return found


def describe_source(library: Library) -> str:
    """What a kept fit depends on beside its options: a digest of the code, or the packages that
    ``make peers`` has installed, with the adapters."""
    if library.environment is None:
        return digest(SOURCES)
    return digest((), Path(interpreter(library.environment)).parents[1] / ".installed")


def digest(patterns: Sequence[str], *files: Path) -> str:
    """Of the adapters, of files of this project, and of others."""
    root = SCRIPT.parents[2]
    found = [path for pattern in patterns for path in sorted(root.glob(pattern))]
    every = [SCRIPT, *found, *files]
    return hashlib.sha256(b"".join(path.read_bytes() for path in every)).hexdigest()


def list_jobs(
    table: str,
    library: str,
    chosen: Library,
    splits: int,
    smoke: bool,
    together: bool,
    with_seconds: bool = True,
) -> list[Job]:
    """A library's fits of a table: one job for each, or for all together."""
    known, place = table in ONE_DIMENSIONAL, f"{table}/{library}"
    identity: dict[str, Any] = {"place": place, "library": chosen._asdict()}
    identity["source"] = describe_source(chosen)
    if known:
        references = sorted(Path("results").glob("reference_*.npz"))
        identity |= {"problems": digest(PROBLEM_SOURCES, *references)}
        identity["points"] = known_parts.PART_POINTS
    else:
        identity["tables"] = digest(TABLE_SOURCES)
    if together:
        identity["together"] = splits
        return [Job(place, measure_together, (table, chosen.options, splits), identity)]
    jobs = []
    for number in range(splits):
        measured = measure_parts if known else measure_fit if with_seconds else measure_scores
        measured = measure_reference if library == REFERENCE else measured
        arguments = (table, number, *chosen, *([] if known else [smoke]))
        title = f"{place}, {'seed' if known else 'split'} {number}"
        jobs.append(Job(title, measured, arguments, identity | {"split": number}))
    return jobs


def run_side_by_side(jobs: Sequence[Job], work: Path | None, workers: int) -> list[Any]:
    """The results of all jobs, ``workers`` at a time; the process of each inherits two cores of its
    thread."""
    numbers: Iterator[int] = count()
    cores = sorted(os.sched_getaffinity(0))

    def own_cores() -> None:
        first = CORES * next(numbers) % len(cores)
        os.sched_setaffinity(0, cores[first : first + CORES])

    with ThreadPoolExecutor(workers, initializer=own_cores) as pool:
        return list(pool.map(lambda job: run_jobs([job], work)[0], jobs))


def is_measured(table: str, library: str) -> bool:
    """Whether a library is asked about a table."""
    if library == "twofold_long" and table not in LONG_TABLES:
        return False
    if library == REFERENCE:
        return table in ONE_DIMENSIONAL
    return library in WITH_PARTS or table not in ONE_DIMENSIONAL


def measure(
    tables: Sequence[str],
    libraries: Sequence[str],
    most_splits: float,
    smoke: bool,
    work: Path | None,
    together: bool = False,
    workers: int | None = None,
) -> Record:
    """The record of some tables and libraries."""
    chosen = {name: LIBRARIES[name] for name in libraries}
    if smoke:
        chosen = {name: LIBRARIES[name]._replace(options=SMOKE[name]) for name in SMOKE}
    splits = {
        name: int(min(TABLES[name].splits if name in TABLES else PART_SEEDS, most_splits))
        for name in tables
    }
    settings = {name: library._asdict() for name, library in chosen.items()}
    described = {"libraries": settings, "splits": splits, "together": together, "workers": workers}
    record = Record("regression", described, list(range(max(splits.values()))))
    pairs = [(t, name) for t in tables for name in chosen if is_measured(t, name)]
    if not pairs:
        raise ValueError(f"none of {', '.join(chosen)} is measured on {', '.join(tables)}")
    jobs = {
        (table, name): list_jobs(
            table, name, chosen[name], splits[table], smoke, together, workers is None
        )
        for table, name in pairs
    }
    every_job = [job for own in jobs.values() for job in own]
    run = run_jobs if workers is None else partial(run_side_by_side, workers=workers)
    found = iter(run(every_job, work))
    for (table, name), own_jobs in jobs.items():
        every = [next(found) for _ in own_jobs]
        record.add_means(f"{table}/{name}", every[0] if together else every)
        record.add(f"{table}/{name}/splits", splits[table])
    return record


def main() -> None:
    """Parse the command line, measure, write the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sets = [*TABLES, *ONE_DIMENSIONAL]
    parser.add_argument("--sets", nargs="+", choices=sets, default=sets)
    parser.add_argument("--libraries", nargs="+", choices=list(LIBRARIES), default=list(LIBRARIES))
    parser.add_argument("--splits", type=int, help="maximum number of splits, or seeds, per table")
    parser.add_argument("--together", action="store_true", help="this library's fits side by side")
    parser.add_argument("--workers", type=int, help="number of fits at a time, without seconds")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("results"))
    options = parser.parse_args()
    if options.smoke and options.output == Path("results"):
        parser.error("--smoke must not join the record of full runs; give --output another folder")
    others = [name for name in options.libraries if LIBRARIES[name].adapter != "twofold"]
    if options.together and others:
        parser.error(f"--together is for fits of this library, not of {', '.join(others)}")
    if options.workers is not None and (options.workers < 1 or options.together):
        parser.error("--workers must be at least 1, and excludes --together")
    work = None if options.smoke else WORK
    tables = ["diabetes"] if options.smoke else options.sets
    if options.splits is not None and options.splits < 1:
        parser.error(f"--splits must be at least 1, got {options.splits}")
    most_splits = 2 if options.smoke else options.splits or float("inf")
    how = options.together, options.workers
    record = measure(tables, options.libraries, most_splits, options.smoke, work, *how)
    path = record.merge(options.output, lambda name: name not in record.metrics)
    for name, value in record.metrics.items():
        print(f"{name:50s} {value:9.3f}")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
