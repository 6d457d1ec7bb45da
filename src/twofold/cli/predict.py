"""``twofold decompose`` and ``suggest``: predictions of a model for the rows of a table, with their
uncertainty in two parts, and where to measure next."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from twofold.cli import models, rows, terminal
from twofold.cli.fit import DropMissing, ModelFile, Seed, Stream, Text
from twofold.cli.run import Run, to_records
from twofold.cli.terminal import CommandError, check_place, print_message, print_note
from twofold.tables import open_table
from twofold.tables.coding import OUTSIDE, Column, decode, name_outside, spread

NATS = "information_nats"
BY = "Entropies in nats, or standard deviations in units of the target."
CANDIDATES = "Table of candidates (default: the measured range)."


def decompose(
    run: Run,
    model: ModelFile,
    data: Annotated[Path, Argument(help="CSV or Parquet file with the model's inputs.")],
    by: Annotated[Literal["entropy", "variance"], Option(help=BY)] = "entropy",
    quantiles: Annotated[Text, Option(help="Also quantiles of the prediction: 0.1,0.9")] = None,
    out: Annotated[Path | None, Option(help="*.csv or *.parquet file (default: stdout).")] = None,
    drop_missing: DropMissing = False,
    stream: Stream = False,
) -> None:
    """Predict the rows of a table, and split the uncertainty of each prediction in two.

    The result has the columns of the table, the predicted mean, the total, epistemic and aleatoric
    uncertainty, and in the column "outside_range" the inputs that lie outside the range the model
    was fitted to: there it extrapolates.

    Example: twofold decompose oven.twofold new.csv --by variance --out split.csv
    """
    from twofold.estimators.streaming import decompose_table, split_columns

    check_place(out, reads=[model, data, run.config])
    fitted, about = models.open_model(model, run)
    levels = [] if quantiles is None else terminal.parse_numbers("quantiles", quantiles)
    if not all(0 < level < 1 for level in levels):
        raise CommandError(f"--quantiles must lie between 0 and 1, got {quantiles}")
    if stream or rows.is_large(data):
        if out is None or run.as_json:
            raise CommandError(f"{data} is read in blocks: add --out FILE, and leave out --json")
        # Refuse a pipe before reading from it, which would block.
        open_table(data)
        run.reads(data)
        with run.timed("decompose"):
            written = decompose_table(
                fitted, data, out, by, inputs=about.columns, outputs=about.outputs,
                quantiles=levels, drop_missing=drop_missing,
            )  # fmt: skip
        run.metrics |= {f"mean {name}": mean for name, mean in written.means.items()}
        print_message(f"wrote {out}: {written.rows} rows; record: {run.write(out)}")
        return
    result, values = rows.read_inputs(data, about.columns, drop_missing, run)
    with run.timed("decompose"):
        parts = split_columns(fitted, values, about.outputs, by, levels)
    result |= {name: column.tolist() for name, column in parts.items()}
    run.metrics |= {f"mean {name}": float(column.mean()) for name, column in parts.items()}
    result |= _mark_outside(about.columns, values)
    run.write_table(out, result)
    run.show_columns(out, result)


def suggest(
    run: Run,
    model: ModelFile,
    candidates: Annotated[Path | None, Argument(help=CANDIDATES)] = None,
    num: Annotated[int | None, Option("--num", "-n", help="Points (default: at most 5).")] = None,
    out: Annotated[Path | None, Option(help="Also write a *.csv or *.parquet file.")] = None,
    seed: Seed = 0,
    drop_missing: DropMissing = False,
) -> None:
    """Suggest the most informative batch of points to measure.

    Without a table of candidates, points are spread evenly over the measured range of the inputs,
    and rounded like them. To plan and record a whole series of measurements, see twofold campaign.

    Example: twofold suggest oven.twofold candidates.csv --num 5
    """
    from twofold.active.suggestion import SPREAD, SUGGESTED, suggest_rows

    check_place(out, reads=[model, candidates, run.config])
    fitted, about = models.open_model(model, run)
    if candidates is not None:
        pool, x = rows.read_inputs(candidates, about.columns, drop_missing, run)
    elif all(one.kind == "category" or one.low is not None for one in about.columns):
        x = spread(about.columns, SPREAD, seed)
        pool = decode(about.columns, x)
    else:
        raise CommandError(f"{model} stores no range of its inputs; give a table of candidates")
    num = min(SUGGESTED, len(x)) if num is None else num
    if not 1 <= num <= len(x):
        raise CommandError(f"--num must lie between 1 and {len(x)} candidates, got {num}")
    with run.timed("choose"):
        best = suggest_rows(fitted, x, num)
    columns = {name: [column[i] for i in best.rows] for name, column in pool.items()}
    kinds = {"mean": best.mean} | {f"{part}_sd": sd for part, sd in best.deviations.items()}
    for i, name in enumerate(about.outputs):
        columns |= {f"{name}_{kind}": values[:, i].tolist() for kind, values in kinds.items()}
    columns |= {NATS: best.nats.tolist()} | _mark_outside(about.columns, x[best.rows])
    run.metrics |= {f"{NATS}, point {i + 1}": v for i, v in enumerate(columns[NATS])}
    run.write_table(out, columns)
    cells = {
        name: [f"{value:.4g}" if isinstance(value, float) else str(value) for value in column]
        for name, column in columns.items()
        if name != OUTSIDE or any(column)
    }
    title = f"Measure here next, of {len(x)} candidates"
    run.show(to_records(columns), terminal.to_point_table(cells, title))


def _mark_outside(columns: Sequence[Column], x: Any) -> dict[str, list[str]]:
    """A column of the inputs outside the measured range in each row; prints a note if any."""
    marks = name_outside(columns, x)
    if any(marks):
        print_note(
            f"{sum(map(bool, marks))} of {len(x)} rows lie outside the range that the model was "
            f"fitted to (column {OUTSIDE!r}): there it extrapolates"
        )
    return {OUTSIDE: marks}
