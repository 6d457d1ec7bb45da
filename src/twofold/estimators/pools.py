"""``decompose_table``: predictions for a table on disk, their uncertainty in two parts."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from twofold.tables import TableError, check_names, open_table, open_writer, would_overwrite
from twofold.tables.table import list_of_names

Regressor = Any  # a BNNLVRegressor
By = Literal["entropy", "variance"]
PARTS = ("total", "epistemic", "aleatoric")
POOL_ROWS = 2**14


class Written(NamedTuple):
    """How many rows were written, and the mean of every new column."""

    rows: int
    means: dict[str, float]


def split_columns(
    model: Regressor, x: np.ndarray, outputs: Sequence[str], by: By
) -> dict[str, np.ndarray]:
    """For each output the predictive mean and the parts, in nats or as standard deviations."""
    columns, split = {"mean": model.predict(x)}, model.decompose(x, by=by)
    parts, unit = (split, "nats") if by == "entropy" else (split.standard_deviations(), "sd")
    columns |= {f"{part} {unit}": getattr(parts, part) for part in PARTS}
    return {
        f"{name} {kind}": column.reshape(len(x), -1)[:, index]
        for index, name in enumerate(outputs)
        for kind, column in columns.items()
    }


def decompose_table(
    model: Regressor,
    source: Any,
    out: Any,
    by: By = "entropy",
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    drop_missing: bool = False,
) -> Written:
    """Predict the rows of a Parquet or CSV table and split their uncertainty, block by block.

    Writes the columns of the table and beside them those of ``split_columns`` to ``out`` (``.csv``
    or ``.parquet``), which appears when all of it is there. ``inputs`` names the columns of the
    model's inputs, in their order (None: those it was fitted to), ``outputs`` its outputs.
    """
    opened, place = open_table(source), Path(out)
    if would_overwrite(Path(opened.source), place):
        raise TableError(f"{place} is what is read; write to another file")
    names = _inputs(model, inputs)
    several = [f"y{index}" for index in range(model.model_.outputs)]
    called = list(outputs or (several if len(several) > 1 else ["y"]))
    check_names(opened, names)
    # Arrays have no names, and rows that come as arrays need none.
    nameless = copy.copy(model)
    vars(nameless).pop("feature_names_in_", None)
    rows, sums = 0, dict[str, float]()
    with open_writer(place) as write:
        for block in opened.blocks(POOL_ROWS):
            values, kept = block.values(names, drop_missing)
            if not len(kept):
                continue
            found = split_columns(nameless, values, called, by)
            data = block.take(kept).data
            write(dict(zip(data.column_names, data.columns, strict=True)) | found)
            rows += len(kept)
            for name, column in found.items():
                sums[name] = sums.get(name, 0.0) + float(column.sum())
        if not rows:
            raise TableError(f"{opened.source}: no row has a value in every column")
    return Written(rows, {name: total / rows for name, total in sums.items()})


def _inputs(model: Regressor, inputs: Sequence[str] | None) -> list[str]:
    fitted = getattr(model, "feature_names_in_", None)
    names = fitted if inputs is None else list_of_names("inputs", inputs)
    if names is None:
        raise ValueError(
            f"the model was fitted to {model.n_features_in_} columns without names; say which "
            "columns of the table they are: inputs=[…]"
        )
    if len(names) != model.n_features_in_:
        raise ValueError(f"the model has {model.n_features_in_} inputs, got {len(names)} names")
    return [str(name) for name in names]
