"""Run an experiment by its name: record, figures and work that waits to be finished."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from paper import (
    alpha_vs_hmc,
    amortised,
    batch_choice,
    calibration,
    contest,
    contest_figure,
    entropy_estimators,
    frontiers,
    industrial_original,
    off_manifold,
    random_batch,
    systems,
    table1,
    table1_curves,
    toy_figures,
    toy_fit,
    uci,
    wet_chicken_map,
)
from paper.fits import CONTINUED
from paper.records import Record, commit

WORK = Path(".cache/experiments")

RECORDED: dict[str, Callable[..., Record]] = {
    "toy_fit": toy_fit.run,
    "uci": uci.run,
    "uci_default": uci.run_default,
    "entropy_estimators": entropy_estimators.run,
    "alpha_vs_hmc": alpha_vs_hmc.run,
    "posteriors": contest.run,
    "off_manifold": off_manifold.run,
    "systems": systems.run,
    "systems_speed": systems.run_speed,
    "systems_original": industrial_original.run,
    "batch_choice": batch_choice.run,
    "industrial_direct": random_batch.run_direct,
    "amortised": amortised.run,
}

# What a run leaves of the record that it shares with other commands.
KEPT: dict[str, Callable[[str], bool]] = {
    "uci": lambda metric: uci.DEFAULT in metric,
    "uci_default": lambda metric: uci.DEFAULT not in metric,
    "posteriors": lambda metric: "/seconds_" in metric,
    "systems": lambda metric: "/steps_per_second/" in metric or "/original/" in metric,
    "systems_speed": lambda metric: True,
    "industrial_direct": lambda metric: not metric.startswith("direct/"),
    "industrial_random_batch": lambda metric: metric.startswith("direct/"),
    "systems_original": lambda metric: True,
}

# Drawn from records and curves that are there.
FIGURES: dict[str, Callable[[Path], Path]] = {
    "posteriors_figure": contest_figure.run,
    "table1_figure": table1_curves.draw,
    "river": systems.draw_river,
}

DRAWN: dict[str, Callable[..., Record]] = {
    "figure_3": wet_chicken_map.run,
    "calibration": calibration.run,
    "table1": table1.run,
    "table1_record": table1.compose,
    "industrial_random_batch": random_batch.run,
    **{name: partial(frontiers.run, name) for name in frontiers.FRONTIERS},
}

# Made of parts that do not depend on each other, which an executor can run elsewhere.
IN_JOBS = ("uci", "uci_default", "table1", *frontiers.FRONTIERS)


def names() -> list[str]:
    """Experiments that leave a record or figures of their own."""
    return [*RECORDED, *DRAWN, *table1.ADVANCES, *toy_figures.FIGURES]


class Made(NamedTuple):
    """What a run has left: files, and the numbers of its record."""

    files: list[Path]
    metrics: dict[str, float]


def run(
    name: str,
    smoke: bool,
    output: Path | None,
    resume: bool = True,
    executor: str | None = None,
) -> Made:
    """Run an experiment that leaves a record or figures; those of IN_JOBS by an executor, if given.

    Unfinished work waits in ``.cache/experiments``; without ``resume`` it is left alone, and all is
    done anew.
    """
    if executor is not None and name not in IN_JOBS:
        raise ValueError(
            f"{name} is one job, which no executor can share out; those that are many: "
            f"{', '.join(IN_JOBS)}"
        )
    shared = {} if executor is None else {"executor": executor}
    if smoke:
        with _rehearsal(output) as (work, place), _stopped("a rehearsal keeps nothing"):
            return _made(name, True, work, place, shared)
    work = WORK / _folder(name, resume)
    work.mkdir(parents=True, exist_ok=True)
    with _stopped(CONTINUED if resume else f"what is done lies in {work}, unfinished"):
        return _made(name, False, work, output or Path("results"), shared)


def _made(name: str, smoke: bool, work: Path, output: Path, shared: dict[str, str]) -> Made:
    if name in toy_figures.FIGURES:
        return Made(toy_figures.run(name, smoke, work, output), {})
    if name in table1.ADVANCES:
        table1.ADVANCES[name](smoke, work)
        return Made([] if smoke else [work], {})
    if name in DRAWN:
        record = DRAWN[name](smoke, work, output, **shared)
    else:
        record = RECORDED[name](smoke, work, **shared)
    kept = KEPT.get(name, lambda metric: False)
    return Made([record.merge(output, kept)], record.metrics)


@contextmanager
def _rehearsal(output: Path | None) -> Iterator[tuple[Path, Path]]:
    """Folders for the work, which is nobody's afterwards, and for what came of it, if anything."""
    place = output or Path(tempfile.mkdtemp(prefix="twofold-smoke-"))
    try:
        # Workers that were stopped may still be writing.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
            yield Path(work), place
    finally:
        if output is None and not any(place.iterdir()):
            place.rmdir()


@contextmanager
def _stopped(left: str) -> Iterator[None]:
    """Ctrl-C says the same wherever it is heard: in a fit, between fits, or waiting for workers."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        raise KeyboardInterrupt(f"stopped by Ctrl-C; {left}") from stopped


def _folder(name: str, resume: bool) -> str:
    """Of one version of the source; long runs that are made in pieces outlive it."""
    if not resume:
        return f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    if name.startswith("table1"):
        return "table1"
    in_pieces = {*frontiers.FRONTIERS, "industrial_random_batch"}
    return "frontiers" if name in in_pieces else commit()
