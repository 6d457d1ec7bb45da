"""``twofold fit``: fit a model to a table."""

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from twofold.cli import fitting, models, rows, terminal
from twofold.cli.run import Run
from twofold.cli.terminal import CommandError, check_place, print_note, to_table
from twofold.core.naming import listed
from twofold.tables import check_roles, open_table, read_table
from twofold.tables.coding import Column, describe_columns
from twofold.tables.writing import ENDINGS

CATEGORY = 'Input that is a category: NAME, or in order "NAME=small<medium<large"'
ERROR = "Column with the known standard deviation of each measurement; several: a,b"
GROUP = "Column of groups that are held out together (dates: by day)."
SHARE = "Share of rows to hold out (default: 0 with an out-of-bag score, else 0.1)."
Text = str | None
Texts = list[str] | None
DropMissing = Annotated[bool, Option("--drop-missing", help="Drop rows with missing values.")]
Stream = Annotated[bool, Option("--stream", help="Read in blocks, as for large tables.")]
Quick = Annotated[bool, Option("--quick", help="Fit in seconds: inference=ensemble, no chains.")]
DateOrder = Annotated[
    Literal["day-first", "month-first"] | None,
    Option(help="Order of day and month in dates like 03/04/2025."),
]
Seed = Annotated[int, Option(help="Random seed.", min=0, max=2**32 - 1)]
Force = Annotated[bool, Option("--force", help="Overwrite existing files that differ.")]
ModelFile = Annotated[Path, Argument(help="Model file of twofold fit.")]


def fit(
    run: Run,
    data: Annotated[Path, Argument(help="CSV or Parquet file, or a folder of Parquet files.")],
    target: Annotated[list[str], Option(help="Column to predict; several: a,b")],
    out: Annotated[Path, Option(help="Model file to write.")],
    inputs: Annotated[Text, Option(help="Input columns: a,b,c (default: all others).")] = None,
    ignore: Annotated[Text, Option(help="Columns to ignore: a,b")] = None,
    category: Annotated[Texts, Option(help=CATEGORY)] = None,
    weight: Annotated[Text, Option(help="Column with the weight of each row.")] = None,
    error: Annotated[Text, Option(help=ERROR)] = None,
    group: Annotated[Text, Option(help=GROUP)] = None,
    held_out: Annotated[float | None, Option(help=SHARE, min=0.0, max=0.9)] = None,
    date_order: DateOrder = None,
    drop_missing: DropMissing = False,
    quick: Quick = False,
    setting: Annotated[Texts, Option(help="Model setting, such as chains=20")] = None,
    seed: Seed = 0,
    stream: Stream = False,
    force: Force = False,
) -> None:
    """Fit a model to a table, and evaluate it on rows it was not trained on.

    Dates become days, text columns become categories.
    The default inference and --quick report an out-of-bag score: every row is predicted by networks
    that were not trained on it. After Ctrl-C or a crash, the same command resumes the fit.

    Example: twofold fit oven.csv --target yield --out oven.twofold
    """
    from twofold.estimators.regressor import BNNLVRegressor
    from twofold.estimators.streaming import STREAMED_NOTE, replace_default

    check_model_place(out, [data, run.config])
    streamed = stream or rows.is_large(data)
    table: Any = open_table(data) if streamed else read_table(data)
    source = [(data.resolve().name, run.reads(data))]
    run.protect(out, force)
    outputs = [name for text in target for name in rows.find_columns(table, text)]
    errors = None if error is None else rows.find_columns(table, error)
    if errors is not None and len(errors) != len(outputs):
        raise CommandError(f"--error needs a column for each target, got {listed(errors)}")
    known = [*(errors or []), *filter(None, [weight])]
    names = _find_inputs(table, outputs, inputs, ignore, [*known, *filter(None, [group])])
    if both := [name for name in names if name in known]:
        raise CommandError(f"{listed(both)} cannot be both an input and an error or weight")
    if streamed and category:
        raise CommandError(f"{data} is read in blocks, which does not support --category")
    columns = _describe_inputs(table, names, category or [], date_order, streamed)
    about = models.About(
        columns, outputs, source, held_out, seed, drop_missing, streamed, weight, errors, group
    )
    checkpoint = out.with_name(out.name + ".checkpoint")
    base, texts = BNNLVRegressor(), terminal.add_quick(setting or [], quick)
    chosen = any(one.partition("=")[0].strip() == "inference" for one in texts)
    replaced = streamed and not chosen and replace_default(base)
    model = terminal.build_regressor(texts, base=base)
    model.set_params(random_state=seed, checkpoint=checkpoint)
    if streamed:
        result = fitting.fit_in_blocks(model, table, about, run)
    else:
        result = fitting.fit_in_memory(model, [table], about, run)
    finish(run, out, model, result, [STREAMED_NOTE] * replaced)


def check_model_place(out: Path, reads: list[Path | None]) -> None:
    """Refuse a model file that is an input, cannot be written, or has a table's extension."""
    check_place(out, (), reads)
    if out.suffix.lower() in ENDINGS:
        raise CommandError(f"{out} has the extension of a table; use {out.stem}.twofold instead")


def finish(run: Run, out: Path, model: Any, result: fitting.Result, notes: list[str]) -> None:
    """Evaluate and save a fitted model; show its scores, how columns were encoded, and warnings."""
    from twofold.estimators.training import remove_checkpoint

    checkpoint = model.checkpoint
    model.set_params(checkpoint=None)
    with run.timed("judge"):
        scores, verdict = fitting.evaluate(model, result)
    models.save_model(out, model, result.about._replace(verdict=verdict))
    remove_checkpoint(checkpoint)
    run.metrics |= scores
    record, doubts = run.write(out), notes + result.doubts
    table = to_table(["", "value"], [[name, f"{v:.4g}"] for name, v in run.metrics.items()])
    columns = {one.name: one.kind for one in result.about.columns}
    content = {"model": out, "record": record, "metrics": run.metrics, "verdict": verdict}
    shown = [*map(_describe, result.about.columns), table, verdict, f"wrote {out} and {record}"]
    run.show(content | {"columns": columns, "doubts": doubts}, *filter(None, shown))
    for doubt in [] if run.as_json else doubts:
        print_note(doubt)


def _describe(column: Column) -> str:
    """The encoding of a date or text column; empty for a numeric column."""
    if column.kind in ("number", "date"):
        return f"{column.name}: dates, in days" if column.kind == "date" else ""
    order = " < " if column.kind == "ordered" else ", "
    return f"{column.name}: {column.kind} ({order.join(column.levels)})"


def _find_inputs(
    table: Any, outputs: list[str], inputs: str | None, ignore: str | None, taken: list[str]
) -> list[str]:
    """The input columns: those named, or all that are not used otherwise."""
    ignored = rows.find_columns(table, ignore or "")
    names = rows.find_columns(table, inputs) if inputs is not None else table.names
    excluded = ignored if inputs is not None else [*outputs, *taken, *ignored]
    names = [name for name in names if name not in excluded]
    check_roles(names, outputs)
    return names


def _describe_inputs(
    table: Any, names: list[str], texts: list[str], date_order: str | None, streamed: bool
) -> list[Column]:
    """The kind of each input column; ``texts`` are the values of ``--category``."""
    if streamed:
        return [Column(name) for name in names]
    categories = {}
    for text in texts:
        name, _, levels = (text, "", "") if text in names else text.partition("=")
        categories[name.strip()] = [level.strip() for level in levels.split("<") if level.strip()]
        if name.strip() not in names:
            raise CommandError(f"--category must name an input: {listed(names)}; got {text!r}")
    return describe_columns(table, names, categories, date_order)
