"""Make a piece by name: its record and figures, with resumable work for long runs."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from paper.fits import CONTINUED
from paper.pieces import PIECES, Piece
from paper.records import Context, Record, commit

WORK = Path(".cache/experiments")


class Made(NamedTuple):
    """The files of a piece, and the metrics of its record."""

    files: list[Path]
    metrics: dict[str, float]


def make_piece(
    name: str,
    smoke: bool,
    output: Path | None,
    resume: bool = True,
    executor: str | None = None,
) -> Made:
    """Make one of ``PIECES``; pieces of many jobs use the executor, if given.

    Unfinished work is kept in ``.cache/experiments`` and resumed; without ``resume`` it is ignored,
    and everything is recomputed.
    """
    piece = PIECES[name]
    if executor is not None and not piece.in_jobs:
        raise ValueError(
            f"{name} is one job, which no executor can distribute; pieces of many jobs: "
            f"{', '.join(other for other, one in PIECES.items() if one.in_jobs)}"
        )
    if smoke:
        with _temporary(output) as (work, place), _explain_stop("a smoke run keeps nothing"):
            return _make(name, piece, Context(True, work, place, executor))
    work = WORK / _work_folder(name, piece, resume)
    work.mkdir(parents=True, exist_ok=True)
    with _explain_stop(CONTINUED if resume else f"unfinished work is kept in {work}"):
        return _make(name, piece, Context(False, work, output or Path("results"), executor))


def _make(name: str, piece: Piece, context: Context) -> Made:
    record = Record(name, {"smoke": context.smoke}, [])
    context.output.mkdir(parents=True, exist_ok=True)
    made = piece.load_maker()(*piece.arguments, context)
    if isinstance(made, Record):
        return Made([made.merge(context.output, piece.keeps)], made.metrics)
    if made:  # figures without metrics get a record of how they were made
        record.write_to(made[0].with_name(f"{made[0].name}.record.json"))
    return Made(made, {})


@contextmanager
def _temporary(output: Path | None) -> Iterator[tuple[Path, Path]]:
    """Temporary folders of a smoke run: for work (deleted afterwards) and for results."""
    place = output or Path(tempfile.mkdtemp(prefix="twofold-smoke-"))
    try:
        # Stopped workers may still be writing.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
            yield Path(work), place
    finally:
        if output is None and not any(place.iterdir()):
            place.rmdir()


@contextmanager
def _explain_stop(kept: str) -> Iterator[None]:
    """The same message for Ctrl-C in a fit, between fits, or while waiting for workers."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        raise KeyboardInterrupt(f"stopped by Ctrl-C; {kept}") from stopped


def _work_folder(name: str, piece: Piece, resume: bool) -> str:
    """The work folder: one per version of the source, unless the piece names its own."""
    if not resume:
        return f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    return piece.work or commit()
