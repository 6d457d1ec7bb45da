"""``twofold decompose``: predictions for the rows of a table, their uncertainty in two parts."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from twofold.cli.fit import DropMissing, Stream
from twofold.cli.run import Config, Run
from twofold.cli.terminal import AsJson, CommandError, check_place, say, show_records

ModelFile = Annotated[Path, Argument(help="Model file of twofold fit.")]


def decompose(
    ctx: typer.Context,
    model: ModelFile,
    data: Annotated[Path, Argument(help="CSV or Parquet file with the model's inputs.")],
    by: Annotated[
        Literal["entropy", "variance"],
        Option(help="Entropies in nats, or standard deviations in units of the target."),
    ] = "entropy",
    out: Annotated[Path | None, Option(help="*.csv or *.parquet file (default: stdout).")] = None,
    drop_missing: DropMissing = False,
    stream: Stream = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Predict the rows of a table, and split the uncertainty of each prediction in two.

    The result has the columns of the table, the predicted mean, and the total, epistemic and
    aleatoric uncertainty.

    Example: twofold decompose oven.twofold new.csv --by variance --out split.csv
    """
    from twofold.cli.models import is_large, load_model, name_columns, name_options, read_values
    from twofold.estimators.streaming import decompose_table, split_columns
    from twofold.tables import csv_text, open_table, read_table

    check_place(out, reads=[model, data, config])
    run = Run(ctx)
    run.reads(model)
    regressor, about = load_model(model)
    names, outputs = name_columns(model, regressor, about)
    if stream or is_large(data):
        if out is None or as_json:
            raise CommandError(
                f"{data} is read in blocks: write the result to a file with --out, without --json"
            )
        # Refuses a pipe before its bytes are read, which would wait for its other end.
        open_table(data)
        run.reads(data)
        with run.timed("decompose"), name_options():
            written = decompose_table(
                regressor, data, out, by, inputs=names, outputs=outputs, drop_missing=drop_missing
            )
        run.metrics |= {f"mean {name}": mean for name, mean in written.means.items()}
        say(f"wrote {out}: {written.rows} rows; record: {run.write(out)}")
        return
    table = read_table(data)
    run.reads(data)
    values, kept = read_values(table, names, drop_missing)
    with run.timed("decompose"):
        parts = split_columns(regressor, values, outputs, by)
    columns: dict[str, Any] = table.take(kept).to_lists()
    columns |= {name: column.tolist() for name, column in parts.items()}
    run.metrics |= {f"mean {name}": float(column.mean()) for name, column in parts.items()}
    run.write_table(out, columns)
    if as_json:
        show_records(columns)
    elif out is None:
        print(csv_text(columns), end="")
