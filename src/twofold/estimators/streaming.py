"""``fit_table``: fit to a table on disk that is never in memory as a whole.

The table is read once, into a scratch file of plain numbers (8 bytes a number) beside which nothing
grows with its rows; training then passes over it block by block. A block is trained on as a data
set of its own would be, in one call of the method's compiled program, but that its prior counts as
one part of *all* rows.
"""

import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np
from sklearn.base import clone

from twofold.core.data import Padded, Place, Standardizer, pad, padded_size
from twofold.core.naming import listed
from twofold.estimators import memory, validation
from twofold.estimators.fitting import About, about_data, checkpoint_of, judge, keys_of, store, warn
from twofold.estimators.scratch import BLOCK_ROWS, Scratch, write_scratch
from twofold.estimators.training import Plan, train
from twofold.inference.method import MinibatchMethod, check_integer
from twofold.inference.registry import METHODS, method_class, replace_options, resolve_method
from twofold.tables import TableError, TableFile, check_names, open_table
from twofold.tables.table import list_of_names

Regressor = Any  # a BNNLVRegressor


def fit_table(
    estimator: Regressor,
    source: Any,
    *,
    target: str | Sequence[str],
    inputs: Sequence[str] | None = None,
    drop_missing: bool = False,
    scratch: Any = None,
) -> Regressor:
    """Fit to columns of a Parquet file, a folder of them, or a CSV file, block by block.

    Predicts ``target`` from ``inputs`` (all other columns where they are not named). Rows without a
    finite number in every column are refused, or left out with ``drop_missing``. ``scratch`` is the
    folder of a temporary file with 8 bytes for each number used (None: the system's). ``epochs``
    are passes over the table; without them there are as many as the least number of updates takes.
    Returns the estimator, fitted as ``fit`` would have left it.
    """
    opened = open_table(source)
    outputs = [target] if isinstance(target, str) else list_of_names("target", target)
    others = [name for name in opened.names if name not in outputs]
    names = others if inputs is None else list_of_names("inputs", inputs)
    check_names(opened, [*names, *outputs])
    if not names or not outputs or len({*names, *outputs}) < len(names) + len(outputs):
        raise TableError(
            "expected at least one target and one input, none of them both or twice, got "
            f"{listed(outputs) or 'no target'} and {listed(names) or 'no input'}"
        )
    check_streamed(estimator, opened.count_rows())
    with tempfile.TemporaryDirectory(dir=scratch, prefix="twofold-") as folder:
        values = values_of(opened, [*names, *outputs], drop_missing)
        rows = write_scratch(Path(folder) / "rows", values)
        fit_scratch(estimator, rows, len(names), 1 if isinstance(target, str) else 2)
    estimator.feature_names_in_ = np.array(names, dtype=object)
    return estimator


def values_of(source: TableFile, names: Sequence[str], drop_missing: bool) -> Iterator[np.ndarray]:
    """Columns of a table as numbers, block by block."""
    for block in source.blocks(BLOCK_ROWS, names):
        yield block.values(names, drop_missing)[0]


def check_streamed(estimator: Regressor, rows: int | None) -> None:
    """Refuse what cannot be fitted block by block, and say what it would cost."""
    validation.check_settings(estimator)
    method = resolve_method(estimator.inference)
    if not isinstance(method, MinibatchMethod):
        able = [name for name in METHODS if issubclass(method_class(name), MinibatchMethod)]
        raise ValueError(
            f"{method.name!r} looks at all data in every step and cannot be fitted block by block; "
            f"use one of {', '.join(map(repr, able))}"
        )
    method.check_streamed(estimator.latent_dim, np.dtype(estimator.dtype).itemsize, rows)


def fit_scratch(estimator: Regressor, scratch: Scratch, inputs: int, y_ndim: int) -> None:
    """Fit to the rows of a scratch file, of whose columns the first are the inputs."""
    joint = scratch.running.standardizer()
    sides = (slice(None, inputs), slice(inputs, None))
    x, y = (Standardizer(joint.mean[side], joint.scale[side]) for side in sides)
    about = about_data(estimator, (x, y), y_ndim, scratch.fingerprint)
    method = _for_blocks(resolve_method(estimator.inference), scratch)
    stand_in = clone(estimator).set_params(inference=method)
    memory.check_fit([stand_in], about.model, scratch.block_rows)
    with jax.enable_x64(estimator.dtype == "float64"):
        setup = method.set_up(about.model, np.array([scratch.block_rows]), estimator.dtype)
        with ThreadPoolExecutor(1) as pool:
            blocks = Blocks(scratch, about, estimator.dtype, pool, setup.epochs)

            def problems(visit: int) -> Any:
                block = jax.tree.map(lambda leaf: leaf[None], blocks(visit))
                return method.problems([method], block)

            batches = np.repeat(setup.batches, method.runs)
            checkpoint = checkpoint_of([stand_in], [about], setup)
            plan = Plan(setup.epochs, batches, "blocks", estimator.verbose, checkpoint)
            keys = keys_of([about], method.runs)
            outcome = train(setup.algorithm, keys, problems, setup.schedule, plan, method.runs)
            result = method.finish(setup.config, outcome.states, outcome.energies, setup.epochs)
            fitted = judge(about.model, result, blocks(0))
    store(estimator, about, fitted, outcome.energies.mean(axis=1))
    estimator.n_features_in_ = inputs
    warn([estimator])


def _for_blocks(method: Any, scratch: Scratch) -> Any:
    """The method with as many epochs as blocks are trained on, in all passes together."""
    updates = scratch.blocks * -(-scratch.block_rows // method.batch_size)
    passes = method.epochs or -(-method.min_updates // updates)
    visits = int(passes * scratch.blocks)
    check_integer("the number of blocks in all epochs together", visits, 1)
    return replace_options(method, {"epochs": visits})


class Blocks:
    """Standardised blocks by the number of their visit; the next one is read ahead."""

    def __init__(
        self, scratch: Scratch, about: About, dtype: str, pool: ThreadPoolExecutor, visits: int
    ):
        self._scratch, self._about, self._dtype = scratch, about, dtype
        self._pool, self._visits = pool, visits
        self._length = padded_size(scratch.block_rows)
        self._ahead: dict[int, Future[Any]] = {}

    def __call__(self, visit: int) -> Padded:
        """The block of a visit."""
        ahead = self._ahead.get(visit)
        x, y, rows = self._read(visit) if ahead is None else ahead.result()
        if visit + 1 < self._visits:
            self._ahead = {visit + 1: self._pool.submit(self._read, visit + 1)}
        numbered: Any = np.pad(rows, (0, self._length - len(rows))).astype(np.int32)
        total: Any = np.asarray(self._scratch.rows, np.int32)
        return pad(x, y, self._length, self._dtype)._replace(place=Place(numbered, total))

    def _read(self, visit: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = self._scratch.rows_of(visit, self._about.seed)
        values, inputs = self._scratch.read(rows), self._about.model.inputs
        x = self._about.x_standardizer.transform(values[:, :inputs])
        return x, self._about.y_standardizer.transform(values[:, inputs:]), rows
