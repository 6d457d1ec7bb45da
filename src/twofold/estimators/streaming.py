"""Tables larger than memory: ``fit_table`` and ``decompose_table``.

The table is read once, into a scratch file of plain numbers (8 bytes each); memory does not grow
with its rows. Training then passes over it block by block. A block is trained on like a separate
data set, in one call of the method's compiled program, except that the prior is scaled by the
block's fraction of *all* rows. Blocks consist of *strips* of a few neighbouring rows from all over
the table, shuffled in every pass, so that the order of a sorted table does not matter.
"""

import copy
import hashlib
import tempfile
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from twofold.core.numerics import Padded, Place, Running, Standardizer, pad, padded_size
from twofold.estimators.fitting import JointFit, check_memory, describe_data, fit_prepared
from twofold.estimators.storage import About
from twofold.estimators.validation import check_settings
from twofold.inference.alpha import Alpha, bytes_per_datum
from twofold.inference.method import DEFAULT, check_integer, replace_options, resolve_method
from twofold.tables import TableError, check_names, check_roles, open_table, open_writer
from twofold.tables.coding import OUTSIDE, Column, encode, name_outside
from twofold.tables.table import disk_errors, list_of_names
from twofold.tables.writing import would_overwrite

Regressor = Any  # a BNNLVRegressor
By = Literal["entropy", "variance"]
POOL_ROWS = 2**14
STRIP_ROWS = 2**8
BLOCK_STRIPS = 2**7
BLOCK_ROWS = STRIP_ROWS * BLOCK_STRIPS
MOST_ROWS = 2**31 - 1  # programs number rows in 32 bits
STREAMED_NODES = 24
DIGITS = 6  # significant digits written to a table
STREAMED_NOTE = (
    f"the default method needs all rows at once; a table read in blocks is fitted with "
    f"Alpha(nodes={STREAMED_NODES}) instead"
)


class Scratch(NamedTuple):
    """``running.rows`` rows of float64 numbers ``[C]`` in a file."""

    path: Path
    running: Running
    fingerprint: str

    @property
    def rows(self) -> int:
        return self.running.rows

    @property
    def blocks(self) -> int:
        """Number of blocks of a pass, of nearly equal size."""
        return -(-self.rows // BLOCK_ROWS)

    @property
    def block_rows(self) -> int:
        """Number of rows of the largest block."""
        strips = -(-self.rows // STRIP_ROWS)
        return min(self.rows, -(-strips // self.blocks) * STRIP_ROWS)

    def rows_of(self, visit: int, seed: int) -> np.ndarray:
        """Indices of the rows in the block of a visit; every pass shuffles the strips."""
        turn, block = divmod(visit, self.blocks)
        strips = np.random.default_rng([seed, turn]).permutation(-(-self.rows // STRIP_ROWS))
        chosen = np.array_split(strips, self.blocks)[block]
        numbers = (chosen[:, None] * STRIP_ROWS + np.arange(STRIP_ROWS)).ravel()
        return numbers[numbers < self.rows]

    def read(self, rows: np.ndarray) -> np.ndarray:
        """Rows by index, ``[N, C]``."""
        shape = self.rows, len(self.running.mean)
        return np.array(np.memmap(self.path, "<f8", "r", shape=shape)[rows])


def write_scratch(path: Path, blocks: Iterable[np.ndarray]) -> Scratch:
    """Append blocks ``[N, C]``, and collect statistics of all of them."""
    running, digest = None, hashlib.sha256()
    with disk_errors(path, "written"), path.open("wb") as file:
        for values in (np.ascontiguousarray(block, "<f8") for block in blocks if len(block)):
            digest.update(values.data.cast("B"))
            file.write(values.data.cast("B"))
            running = running.merge(Running.of(values)) if running else Running.of(values)
    if running is None or not 2 <= running.rows <= MOST_ROWS:
        raise ValueError(
            f"a fit needs 2 to {MOST_ROWS:,} rows with a value in every column, "
            f"got {running.rows if running else 0:,}"
        )
    return Scratch(path, running, digest.hexdigest())


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

    Predicts ``target`` from ``inputs`` (default: all other columns). Rows with missing or
    non-finite values are refused, or left out with ``drop_missing``. ``scratch`` is the folder of a
    temporary file with 8 bytes per number used (None: the system's). ``epochs`` are passes over the
    table; the default is as many as the minimum number of updates takes. An estimator with
    ``inference="langevin"``, the default, which needs all rows at once, gets ``Alpha(nodes=24)``
    instead, with a warning. Returns the estimator, fitted as ``fit`` would have left it.
    """
    opened = open_table(source)
    outputs = [target] if isinstance(target, str) else list_of_names("target", target)
    others = [name for name in opened.names if name not in outputs]
    names = others if inputs is None else list_of_names("inputs", inputs)
    check_names(opened, [*names, *outputs])
    check_roles(names, outputs)
    if replace_default(estimator):
        warnings.warn(STREAMED_NOTE, UserWarning, stacklevel=2)
    check_streamed(estimator, opened.count_rows())
    with tempfile.TemporaryDirectory(dir=scratch, prefix="twofold-") as folder:
        columns = [*names, *outputs]
        blocks = (b.values(columns, drop_missing)[0] for b in opened.blocks(BLOCK_ROWS, columns))
        rows = write_scratch(Path(folder) / "rows", blocks)
        fit_scratch(estimator, rows, len(names), 1 if isinstance(target, str) else 2)
    estimator.feature_names_in_ = np.array(names, dtype=object)
    return estimator


def replace_default(estimator: Regressor) -> bool:
    """Replace the default method by one that supports blocks; returns whether it did."""
    if not isinstance(estimator.inference, str) or estimator.inference != DEFAULT:
        return False
    estimator.set_params(inference={"method": "alpha", "nodes": STREAMED_NODES})
    return True


def check_streamed(estimator: Regressor, rows: int | None) -> None:
    """Refuse a method that needs all rows at once, or stores something per row."""
    check_settings(estimator)
    method = resolve_method(estimator.inference)
    if not isinstance(method, Alpha):
        raise ValueError(
            f"{method.name!r} needs all data in every step and cannot fit in blocks; use 'alpha'"
        )
    latents = 1 if estimator.latent_dim == "auto" else estimator.latent_dim
    if not latents or method.nodes or method.encoder is not None:
        return
    each = bytes_per_datum(latents, np.dtype(estimator.dtype).itemsize)
    total = "" if rows is None else f", {each * rows / 2**20:,.0f} MiB for {rows:,} rows"
    raise ValueError(
        f"Alpha() with a latent input stores a q(z) of {each} bytes for each row{total}; it cannot "
        "be fitted block by block; use Alpha(encoder=[20]), which computes q(z) by a network, or "
        f"Alpha(nodes={STREAMED_NODES}), which integrates z out"
    )


def fit_scratch(estimator: Regressor, scratch: Scratch, inputs: int, y_ndim: int) -> None:
    """Fit to the rows of a scratch file, whose first columns are the inputs."""
    joint, rows = scratch.running.standardizer(), scratch.block_rows
    sides = (slice(None, inputs), slice(inputs, None))
    of_x, of_y = (Standardizer(joint.mean[side], joint.scale[side]) for side in sides)
    about = describe_data(estimator, of_x, of_y, y_ndim, scratch.fingerprint, rows)
    # One epoch per block, in all passes together.
    method: Any = resolve_method(estimator.inference)
    updates = scratch.blocks * -(-rows // method.batch_size)
    visits = int((method.epochs or -(-method.min_updates // updates)) * scratch.blocks)
    check_integer("the number of blocks in all epochs together", visits, 1)
    method = replace_options(method, {"epochs": visits})
    check_memory(method, about.model, rows, estimator.dtype)
    with jax.enable_x64(estimator.dtype == "float64"), ThreadPoolExecutor(1) as pool:
        blocks = Blocks(scratch, about, estimator.dtype, pool, visits)

        def problems(visit: int) -> Any:
            return method.problems([method], jax.tree.map(lambda leaf: leaf[None], blocks(visit)))

        alone = JointFit([estimator], [method], [about], np.array([rows]))
        fit_prepared(alone, problems, lambda: [blocks(0)], "blocks")
    estimator.n_features_in_ = inputs


@dataclass
class Blocks:
    """Standardised blocks by visit number; the next one is read ahead."""

    scratch: Scratch
    about: About
    dtype: str
    pool: ThreadPoolExecutor
    visits: int
    ahead: dict[int, Future[Any]] = field(default_factory=dict)

    def __call__(self, visit: int) -> Padded:
        x, y, rows = self.ahead[visit].result() if visit in self.ahead else self._read(visit)
        if visit + 1 < self.visits:
            self.ahead = {visit + 1: self.pool.submit(self._read, visit + 1)}
        length = padded_size(self.scratch.block_rows)
        numbered: Any = np.pad(rows, (0, length - len(rows))).astype(np.int32)
        total: Any = np.asarray(self.scratch.rows, np.int32)
        return pad(x, y, length, self.dtype)._replace(place=Place(numbered, total))

    def _read(self, visit: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = self.scratch.rows_of(visit, self.about.seed)
        values, inputs = self.scratch.read(rows), self.about.model.inputs
        x = self.about.x_standardizer.transform(values[:, :inputs])
        return x, self.about.y_standardizer.transform(values[:, inputs:]), rows


class Written(NamedTuple):
    """Number of rows written, and the mean of every new column."""

    rows: int
    means: dict[str, float]


def split_columns(
    model: Regressor, x: np.ndarray, outputs: Sequence[str], by: By, quantiles: Sequence[float] = ()
) -> dict[str, np.ndarray]:
    """Predictive mean, parts (in nats or deviations) and quantiles of each output, rounded."""
    columns, split = {"mean": model.predict(x)}, model.decompose(x, by=by)
    parts, unit = (split, "nats") if by == "entropy" else (split.standard_deviations(), "sd")
    columns |= {f"{part}_{unit}": values for part, values in parts.parts._asdict().items()}
    if quantiles:
        quantile_values = np.moveaxis(model.predict(x, quantiles=quantiles), -1, 0)
        columns |= {f"q{q:g}": values for q, values in zip(quantiles, quantile_values, strict=True)}
    return {
        f"{name}_{kind}": _round(column.reshape(len(x), -1)[:, index])
        for index, name in enumerate(outputs)
        for kind, column in columns.items()
    }


def _round(values: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        exponent = np.floor(np.log10(np.abs(values)))
    scale = 10.0 ** np.where(np.isfinite(exponent), DIGITS - 1 - exponent, 0.0)
    return np.round(values * scale) / scale


def decompose_table(
    model: Regressor,
    source: Any,
    out: Any,
    by: By = "entropy",
    *,
    inputs: Sequence[str | Column] | None = None,
    outputs: Sequence[str] | None = None,
    quantiles: Sequence[float] = (),
    drop_missing: bool = False,
) -> Written:
    """Predict the rows of a Parquet or CSV table and split their uncertainty, block by block.

    Writes the columns of the table followed by those of ``split_columns`` to ``out`` (``.csv`` or
    ``.parquet``), which appears when it is complete; if the training range is known, a last column
    names the inputs outside it. ``inputs`` are the columns of the model's inputs, or their names,
    in order (None: those it was fitted to); ``outputs`` names its outputs.
    """
    opened, place = open_table(source), Path(out)
    if would_overwrite(Path(opened.source), place):
        raise TableError(f"{place} is the input; write to another file")
    fitted = getattr(model, "feature_names_in_", None)
    names = fitted if inputs is None else list_of_names("inputs", inputs)
    if names is None:
        raise ValueError(
            f"the model was fitted to {model.n_features_in_} columns without names; give the "
            "column names of the table with inputs=[…]"
        )
    columns = [one if isinstance(one, Column) else Column(str(one)) for one in names]
    features = sum(len(one.features) for one in columns)
    if features != model.n_features_in_:
        raise ValueError(f"the model has {model.n_features_in_} inputs, got {features} names")
    numbered = [f"y{index}" for index in range(model.model_.outputs)]
    output_names = list(outputs or (numbered if len(numbered) > 1 else ["y"]))
    check_names(opened, [one.name for one in columns])
    # Rows are passed as arrays, so column names are not checked.
    nameless = copy.copy(model)
    vars(nameless).pop("feature_names_in_", None)
    rows, sums = 0, dict[str, float]()
    with open_writer(place) as write:
        for block in opened.blocks(POOL_ROWS):
            values, kept = encode(block, columns, (), drop_missing)
            if not len(kept):
                continue
            new_columns = split_columns(nameless, values, output_names, by, quantiles)
            outside = {OUTSIDE: name_outside(columns, values)}
            data = block.take(kept).data
            write(dict(zip(data.column_names, data.columns, strict=True)) | new_columns | outside)
            rows += len(kept)
            for name, column in new_columns.items():
                sums[name] = sums.get(name, 0.0) + float(column.sum())
        if not rows:
            raise TableError(f"{opened.source}: no row has a value in every column")
    return Written(rows, {name: total / rows for name, total in sums.items()})
