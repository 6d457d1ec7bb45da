"""Fit a model to columns of a table, in memory or in blocks."""

import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twofold.cli.models import (
    Rows,
    draw_held_out,
    draw_streamed,
    name_options,
    read_values,
    split_rows,
    to_rows,
)
from twofold.cli.run import Run
from twofold.cli.terminal import CommandError, say

if TYPE_CHECKING:
    from twofold.estimators.regressor import BNNLVRegressor
    from twofold.tables import Table, TableFile

LARGE_BYTES = 2**27
HELD_OUT = 0.1
# Scores of fewer rows say nothing; that of so many has a standard error of a hundredth of a row's.
FEWEST_HELD_OUT, MOST_HELD_OUT = 5, 10_000


class Task(NamedTuple):
    """Columns, the share of rows to hold out (None: the default), and how to choose rows."""

    inputs: list[str]
    outputs: list[str]
    held_out: float | None
    seed: int
    drop_missing: bool

    @property
    def names(self) -> list[str]:
        """All columns."""
        return [*self.inputs, *self.outputs]


class Result(NamedTuple):
    """Rows to evaluate a fit on, the share held out, and the number and range of training rows;
    warnings of the fit."""

    train: Rows
    test: Rows | None
    share: float
    rows: int
    low: np.ndarray
    high: np.ndarray
    doubts: list[str]


def is_large(path: Path) -> bool:
    """Whether a table is read in blocks: a folder, or a file of more than LARGE_BYTES."""
    return path.is_dir() or (path.is_file() and path.stat().st_size > LARGE_BYTES)


def fit_in_memory(model: "BNNLVRegressor", table: "Table", task: Task, run: Run) -> Result:
    """Fit to a whole table."""
    values, _ = read_values(table, task.names, task.drop_missing)
    inputs = len(task.inputs)
    _check_targets(table.source, values[:, inputs:], task.outputs)
    share = _choose_share(task.held_out, len(values))
    held_out = draw_held_out(len(values), share, task.seed)
    train, test = split_rows(values, inputs, held_out)
    with run.timed("fit"):
        doubts = _fit_with_doubts(lambda: model.fit(train.x, train.y), model)
    low, high = train.x.min(axis=0), train.x.max(axis=0)
    return Result(train, test, share, len(train.x), low, high, doubts)


def fit_in_blocks(model: "BNNLVRegressor", table: "TableFile", task: Task, run: Run) -> Result:
    """Fit to a table that need not fit into memory."""
    from twofold.estimators.streaming import BLOCK_ROWS, check_streamed, fit_scratch, write_scratch

    inputs, count = len(task.inputs), table.count_rows()
    check_streamed(model, count)
    if count is None:
        count = sum(map(len, table.blocks(BLOCK_ROWS, task.inputs[:1])))
    share = HELD_OUT if task.held_out is None else task.held_out
    share = min(share, MOST_HELD_OUT / max(count, 1))
    aside: list[np.ndarray] = []
    with tempfile.TemporaryDirectory(prefix="twofold-") as folder:
        with run.timed("read"), name_options():
            blocks = _read_training_rows(table, task, share, aside)
            scratch = write_scratch(Path(folder) / "rows", blocks)
        ends = np.stack([scratch.running.low, scratch.running.high])
        _check_targets(table.source, ends[:, inputs:], task.outputs)
        with run.timed("fit"):
            doubts = _fit_with_doubts(
                lambda: fit_scratch(model, scratch, inputs, min(len(task.outputs), 2)), model
            )
        places = scratch.rows_of(0, task.seed)
        train = to_rows(scratch.read(places), inputs, places)
    held_out = np.concatenate(aside)
    test = to_rows(held_out, inputs, np.arange(len(held_out))) if len(held_out) else None
    low, high = ends[:, :inputs]
    return Result(train, test, share, scratch.rows, low, high, doubts)


def _read_training_rows(
    table: "TableFile", task: Task, share: float, aside: list[np.ndarray]
) -> Iterator[np.ndarray]:
    """Training rows, block by block; held-out rows are put aside."""
    from twofold.estimators.streaming import BLOCK_ROWS

    for block in table.blocks(BLOCK_ROWS, task.names):
        values, kept = block.values(task.names, task.drop_missing)
        held_out = draw_streamed(block.rows[kept], share, task.seed)
        aside.append(values[held_out])
        yield values[~held_out]


def _check_targets(source: str, targets: np.ndarray, outputs: list[str]) -> None:
    """Refuse targets that nothing can be learnt from."""
    if len(targets) < 2:
        raise CommandError(f"{source} has {len(targets)} row; at least 2 are needed, better 50")
    for name, column in zip(outputs, targets.T, strict=True):
        if column.min() == column.max():
            raise CommandError(
                f"{source}: {name!r} is {column[0]:g} in every row: nothing to learn"
            )


def _fit_with_doubts(fit: Callable[[], Any], model: "BNNLVRegressor") -> list[str]:
    """Fit, and return the warnings about the result."""
    from twofold.estimators.training import whole_fits

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with whole_fits(f"progress is kept in {model.checkpoint}; run the same command to resume"):
            fit()
    ignored = DeprecationWarning, FutureWarning
    return [str(one.message) for one in caught if not issubclass(one.category, ignored)]


def _choose_share(held_out: float | None, rows: int) -> float:
    """The share to hold out of a table in memory."""
    share = HELD_OUT if held_out is None else held_out
    count = round(share * rows)
    if not share or count >= FEWEST_HELD_OUT:
        return share
    if held_out is not None:
        raise CommandError(
            f"{share:g} of {rows} rows are {count}, too few to evaluate a model; hold out a larger "
            "share, or none with --held-out 0"
        )
    say(f"note: {rows} rows are too few to hold some out, so the fit is not evaluated")
    return 0.0
