"""``twofold fit`` for tables that are read in blocks."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twofold.cli.run import Run
from twofold.cli.settings import words
from twofold.estimators.scratch import BLOCK_ROWS, write_scratch
from twofold.estimators.streaming import check_streamed, fit_scratch
from twofold.tables.blocks import Source, check_names, numbers, open_source

if TYPE_CHECKING:
    from twofold.cli.models import Rows
    from twofold.estimators.regressor import BNNLVRegressor

LARGE_BYTES = 2**27
# A score of so many rows errs by a hundredth of its deviation.
MOST_HELD_OUT, HELD_OUT = 10_000, 0.1


class Wanted(NamedTuple):
    """Columns, the share of rows to hold out (None: as is usual), and how rows are chosen."""

    inputs: list[str]
    outputs: list[str]
    held_out: float | None
    seed: int
    drop_missing: bool


class Result(NamedTuple):
    """Rows to judge a fit by, and what is known of those it was fitted to."""

    train: "Rows"
    test: "Rows | None"
    share: float
    rows: int
    low: np.ndarray
    high: np.ndarray


class Large(NamedTuple):
    """A table of which only the headings have been read."""

    source: Source

    @property
    def names(self) -> list[str]:
        """The columns that have a name."""
        return self.source.names

    def named(self, text: str) -> list[str]:
        """``a,b,c``, or the one column of that very name; all of them must be there."""
        names = [text] if text in self.names else words(text)
        check_names(self.source, names)
        return names


def open_large(path: Path) -> Large:
    """The table of a file or a folder."""
    return Large(open_source(path))


def is_large(path: Path) -> bool:
    """Whether a table is read in blocks: a folder, or a file of more than LARGE_BYTES."""
    return path.is_dir() or (path.is_file() and path.stat().st_size > LARGE_BYTES)


def chosen(rows: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Whether each row is one of a share that is chosen at random, by its number and the seed
    alone (splitmix64; Steele, Lea and Flood 2014)."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    words = (rows.astype(np.uint64) + np.uint64(1)) * golden
    for addend in (np.uint64(seed), golden):
        words = words + addend
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        words = words ^ (words >> np.uint64(31))
    return (words >> np.uint64(11)) * 2.0**-53 < share


def fitted_in_blocks(
    model: "BNNLVRegressor", table: Large, wanted: Wanted, run: Run
) -> tuple[Result, list[str]]:
    """Fit, and return what is needed to judge the result and what speaks against it."""
    from twofold.cli.fit import check_rows, fitted
    from twofold.cli.models import rows

    source, inputs = table.source, len(wanted.inputs)
    check_streamed(model, source.rows())
    share = _share(source, wanted)
    held: list[np.ndarray] = []
    with tempfile.TemporaryDirectory(prefix="twofold-") as folder:
        with run.timed("read"):
            scratch = write_scratch(Path(folder) / "rows", _kept(source, wanted, share, held))
        ends = np.stack([scratch.running.low, scratch.running.high])
        check_rows(source.path, ends[:, inputs:], wanted.outputs)
        with run.timed("fit"):
            doubts = fitted(
                lambda: fit_scratch(model, scratch, inputs, min(len(wanted.outputs), 2)),
                Path(model.checkpoint),
            )
        places = scratch.rows_of(0, wanted.seed)
        some = rows(scratch.read(places), inputs, places)
    kept = np.concatenate(held)
    test = rows(kept, inputs, np.arange(len(kept))) if len(kept) else None
    return Result(some, test, share, scratch.rows, *ends[:, :inputs]), doubts


def _share(source: Source, wanted: Wanted) -> float:
    """The usual share, but of no more rows than a score needs."""
    share = HELD_OUT if wanted.held_out is None else wanted.held_out
    count = source.rows()
    if count is None:
        first = wanted.inputs[:1]
        count = sum(len(block.rows) for block in source.blocks(first, BLOCK_ROWS))
    return min(share, MOST_HELD_OUT / max(count, 1))


def _kept(
    source: Source, wanted: Wanted, share: float, held: list[np.ndarray]
) -> Iterator[np.ndarray]:
    """Rows to fit to, block by block; those that are held out are put aside."""
    names = [*wanted.inputs, *wanted.outputs]
    for block in source.blocks(names, BLOCK_ROWS):
        values, kept = numbers(source, block, names, wanted.drop_missing)
        out = chosen(block.rows[kept], share, wanted.seed)
        held.append(values[out])
        yield values[~out]
