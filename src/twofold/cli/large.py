"""``twofold fit`` for tables that are read in blocks."""

import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from twofold.cli.columns import command_words
from twofold.cli.errors import CommandError
from twofold.cli.models import Rows, is_held_out, rows
from twofold.cli.run import Run
from twofold.estimators.regressor import BNNLVRegressor
from twofold.estimators.scratch import BLOCK_ROWS, write_scratch
from twofold.estimators.streaming import check_streamed, fit_scratch
from twofold.tables import TableFile

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

    train: Rows
    test: Rows | None
    share: float
    rows: int
    low: np.ndarray
    high: np.ndarray


def is_large(path: Path) -> bool:
    """Whether a table is read in blocks: a folder, or a file of more than LARGE_BYTES."""
    return path.is_dir() or (path.is_file() and path.stat().st_size > LARGE_BYTES)


def fitted_in_blocks(
    model: BNNLVRegressor, table: TableFile, wanted: Wanted, run: Run
) -> tuple[Result, list[str]]:
    """Fit, and return what is needed to judge the result and what speaks against it."""
    inputs = len(wanted.inputs)
    check_streamed(model, table.count_rows())
    share = _share(table, wanted)
    held: list[np.ndarray] = []
    with tempfile.TemporaryDirectory(prefix="twofold-") as folder:
        with run.timed("read"), command_words():
            scratch = write_scratch(Path(folder) / "rows", _kept(table, wanted, share, held))
        ends = np.stack([scratch.running.low, scratch.running.high])
        check_rows(Path(table.source), ends[:, inputs:], wanted.outputs)
        with run.timed("fit"):
            doubts = fit_noting_doubts(
                lambda: fit_scratch(model, scratch, inputs, min(len(wanted.outputs), 2)),
                Path(model.checkpoint),
            )
        places = scratch.rows_of(0, wanted.seed)
        some = rows(scratch.read(places), inputs, places)
    kept = np.concatenate(held)
    test = rows(kept, inputs, np.arange(len(kept))) if len(kept) else None
    return Result(some, test, share, scratch.rows, *ends[:, :inputs]), doubts


def check_rows(data: Path, targets: np.ndarray, outputs: list[str]) -> None:
    """Refuse what nothing can be learnt from."""
    if len(targets) < 2:
        raise CommandError(f"{data} has {len(targets)} row; at least 2 are needed, better 50")
    for name, column in zip(outputs, targets.T, strict=True):
        if column.min() == column.max():
            raise CommandError(f"{data}: {name!r} is {column[0]:g} in every row: nothing to learn")


def fit_noting_doubts(fit: Callable[[], Any], checkpoint: Path) -> list[str]:
    """Fit, and return what speaks against the result."""
    from twofold.estimators.training import whole_fits

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with whole_fits(f"{checkpoint} keeps what there is, and the same command goes on from it"):
            fit()
    unheard = DeprecationWarning, FutureWarning
    return [str(one.message) for one in caught if not issubclass(one.category, unheard)]


def _share(table: TableFile, wanted: Wanted) -> float:
    """The usual share, but of no more rows than a score needs."""
    share = HELD_OUT if wanted.held_out is None else wanted.held_out
    count = table.count_rows()
    if count is None:
        first = wanted.inputs[:1]
        count = sum(map(len, table.blocks(BLOCK_ROWS, first)))
    return min(share, MOST_HELD_OUT / max(count, 1))


def _kept(
    table: TableFile, wanted: Wanted, share: float, held: list[np.ndarray]
) -> Iterator[np.ndarray]:
    """Rows to fit to, block by block; those that are held out are put aside."""
    names = [*wanted.inputs, *wanted.outputs]
    for block in table.blocks(BLOCK_ROWS, names):
        values, kept = block.values(names, wanted.drop_missing)
        out = is_held_out(block.rows[kept], share, wanted.seed)
        held.append(values[out])
        yield values[~out]
