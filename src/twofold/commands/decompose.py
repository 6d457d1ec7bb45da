"""``twofold decompose``: predictions for the rows of a table, their uncertainty in two parts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from twofold.commands.config import Config
from twofold.commands.output import (
    TABLES,
    AsJson,
    check_place,
    csv_text,
    records,
    say,
    show_json,
)
from twofold.commands.run import Run

if TYPE_CHECKING:
    import numpy as np

    from twofold.estimators.regressor import BNNLVRegressor

ModelFile = Annotated[Path, typer.Argument(help="A file of twofold fit.")]
PARTS = ("total", "epistemic", "aleatoric")


def decompose(
    ctx: typer.Context,
    model: ModelFile,
    data: Annotated[Path, typer.Argument(help="A CSV or Parquet file with the model's inputs.")],
    by: Annotated[
        Literal["entropy", "variance"],
        typer.Option(help="Parts in nats, or as standard deviations in units of the target."),
    ] = "entropy",
    out: Annotated[
        Path | None, typer.Option(help="*.csv or *.parquet (default: CSV on stdout).")
    ] = None,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Leave out rows with blank cells.")
    ] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Predict the rows of a table, and split the uncertainty of each prediction in two.

    The columns of the table are kept, and beside them stand the mean, and the total, epistemic and
    aleatoric part.

    Example: twofold decompose oven.twofold new.csv --by variance --out split.csv
    """
    from twofold.commands import models
    from twofold.commands.columns import read_sheet
    from twofold.compilation import enable_compile_cache
    from twofold.logs import files

    check_place(out, TABLES, [model, data, config])
    run = Run(ctx)
    run.reads(model)
    fitted, about = models.load(model)
    names, outputs = models.inputs_of(model, fitted, about), models.outputs_of(fitted, about)
    sheet = read_sheet(data)
    run.reads(data)
    rows = sheet.numbers(names, drop_missing)
    enable_compile_cache()
    with run.timed("decompose"):
        found = split_columns(fitted, rows.values, outputs, by)
    columns: dict[str, Any] = sheet.columns_of(rows.kept)
    columns |= {name: column.tolist() for name, column in found.items()}
    run.metrics |= {f"mean {name}": float(column.mean()) for name, column in found.items()}
    record = run.write(out)
    if out is not None:
        files.write(out, columns)
        say(f"wrote {out}: {len(rows.values)} rows; record: {record}")
    if as_json:
        show_json(records(columns))
    elif out is None:
        print(csv_text(columns), end="")


def split_columns(
    model: "BNNLVRegressor", x: "np.ndarray", outputs: list[str], by: Literal["entropy", "variance"]
) -> dict[str, "np.ndarray"]:
    """For each output the predictive mean and the parts, in nats or as standard deviations."""
    mean = model.predict(x).reshape(len(x), -1)
    split = model.decompose(x, by=by)
    parts = split if by == "entropy" else split.standard_deviations()
    unit = "nats" if by == "entropy" else "sd"
    found = {}
    for index, name in enumerate(outputs):
        found[f"{name} mean"] = mean[:, index]
        for part in PARTS:
            found[f"{name} {part} {unit}"] = getattr(parts, part).reshape(len(x), -1)[:, index]
    return found
