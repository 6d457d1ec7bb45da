"""``twofold decompose``: predictions for the rows of a table, their uncertainty in two parts."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from twofold.cli.config import Config
from twofold.cli.errors import CommandError
from twofold.cli.output import TABLES, AsJson, check_place, records, say, show_json
from twofold.cli.run import Run

ModelFile = Annotated[Path, typer.Argument(help="A file of twofold fit.")]


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
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Read the table in blocks; large ones always are."),
    ] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Predict the rows of a table, and split the uncertainty of each prediction in two.

    The columns of the table are kept, and beside them stand the mean, and the total, epistemic and
    aleatoric part.

    Example: twofold decompose oven.twofold new.csv --by variance --out split.csv
    """
    from twofold.cli import large, models
    from twofold.cli.columns import command_words, read_values
    from twofold.core.compilation import enable_compile_cache
    from twofold.estimators.pools import decompose_table, split_columns
    from twofold.tables import csv_text, open_table, read_table, write_table

    check_place(out, TABLES, reads=[model, data, config])
    run = Run(ctx)
    run.reads(model)
    fitted, about = models.load(model)
    names, outputs = models.inputs_of(model, fitted, about), models.outputs_of(fitted, about)
    enable_compile_cache()
    if stream or large.is_large(data):
        if out is None or as_json:
            raise CommandError(
                f"{data} is read in blocks, and so written to a file alone: say --out, not --json"
            )
        # Before its bytes are read: whoever reads a pipe waits for its other end.
        open_table(data)
        run.reads(data)
        with run.timed("decompose"), command_words():
            written = decompose_table(
                fitted, data, out, by, inputs=names, outputs=outputs, drop_missing=drop_missing
            )
        run.metrics |= {f"mean {name}": mean for name, mean in written.means.items()}
        say(f"wrote {out}: {written.rows} rows; record: {run.write(out)}")
        return
    table = read_table(data)
    run.reads(data)
    values, kept = read_values(table, names, drop_missing)
    with run.timed("decompose"):
        found = split_columns(fitted, values, outputs, by)
    columns: dict[str, Any] = table.take(kept).to_lists()
    columns |= {name: column.tolist() for name, column in found.items()}
    run.metrics |= {f"mean {name}": float(column.mean()) for name, column in found.items()}
    if out is not None:
        write_table(out, columns)
    record = run.write(out)
    if out is not None:
        say(f"wrote {out}: {len(values)} rows; record: {record}")
    if as_json:
        show_json(records(columns))
    elif out is None:
        print(csv_text(columns), end="")
