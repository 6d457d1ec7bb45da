"""``twofold fit``: a model of some columns of a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twofold.cli.config import Config
from twofold.cli.errors import CommandError
from twofold.cli.output import TABLES, AsJson, check_place, say, show_json, show_table
from twofold.cli.run import Run
from twofold.core.naming import listed

if TYPE_CHECKING:
    from twofold.cli.models import Rows
    from twofold.estimators.regressor import BNNLVRegressor

# Fewer rows than these say nothing of a model.
FEWEST_HELD_OUT = 5


def fit(
    ctx: typer.Context,
    data: Annotated[
        Path, typer.Argument(help="A CSV or Parquet file with a heading, or a folder of Parquet.")
    ],
    target: Annotated[str, typer.Option(help="The column to predict; several: a,b")],
    out: Annotated[Path, typer.Option(help="The file of the model to write.")],
    inputs: Annotated[
        str | None, typer.Option(help="Columns to predict from: a,b,c (default: all others).")
    ] = None,
    ignore: Annotated[str | None, typer.Option(help="Columns to leave out: a,b")] = None,
    held_out: Annotated[
        float | None,
        typer.Option(help="Share of the rows to judge the model by (0.1; of few rows none)."),
    ] = None,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Leave out rows with blank cells.")
    ] = False,
    setting: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE of BNNLVRegressor, such as epochs=2000.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same model.")] = 0,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Read the table in blocks; large ones always are."),
    ] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Fit a model to a table, and judge it by rows that it has not seen.

    Stopped by Ctrl-C or killed, the same command goes on where it was.

    Example: twofold fit oven.csv --target yield --out oven.twofold
    """
    from twofold.cli import large, models
    from twofold.cli.columns import named_columns, read_values
    from twofold.cli.settings import regressor_of
    from twofold.core.compilation import enable_compile_cache
    from twofold.tables import open_table, read_table

    check_place(out, reads=[data, config])
    if out.suffix.lower() in TABLES:
        raise CommandError(
            f"{out} would be a table; name the model otherwise, such as {out.stem}.twofold"
        )
    if (held_out is not None and not 0 <= held_out <= 0.9) or not 0 <= seed < 2**32:
        raise CommandError(
            f"expected --held-out of 0 to 0.9 and a seed below 2**32, got {held_out} and {seed}"
        )
    run = Run(ctx, seed)
    streamed = stream or large.is_large(data)
    table: Any = open_table(data) if streamed else read_table(data)
    digest = run.reads(data)
    outputs = named_columns(table, target)
    names = _inputs(table, outputs, inputs, ignore)
    checkpoint = out.with_name(out.name + ".checkpoint")
    model = regressor_of(setting or []).set_params(random_state=seed, checkpoint=checkpoint)
    enable_compile_cache()
    if streamed:
        wanted = large.Wanted(names, outputs, held_out, seed, drop_missing)
        result, doubts = large.fitted_in_blocks(model, table, wanted, run)
    else:
        values, _ = read_values(table, [*names, *outputs], drop_missing)
        large.check_rows(data, values[:, len(names) :], outputs)
        share = _share(held_out, len(values))
        train, test = models.divided(values, len(names), share, seed)
        with run.timed("fit"):
            doubts = large.fit_noting_doubts(lambda: model.fit(train.x, train.y), checkpoint)
        low, high = train.x.min(axis=0), train.x.max(axis=0)
        result = large.Result(train, test, share, len(train.x), low, high)
    model.set_params(checkpoint=None)
    about = models.About(
        names, outputs, result.low.tolist(), result.high.tolist(), str(data.resolve()), digest,
        result.share, seed, drop_missing, streamed,
    )  # fmt: skip
    models.save(out, model, about)
    checkpoint.unlink(missing_ok=True)
    with run.timed("judge"):
        run.metrics |= judged(model, result.train, result.test, outputs)
        run.metrics["rows fitted"] = float(result.rows)
    record = run.write(out)
    if as_json:
        show_json({"model": out, "record": record, "metrics": run.metrics, "doubts": doubts})
        return
    show_table(["", "value"], [[name, f"{v:.4g}"] for name, v in run.metrics.items()])
    print(f"wrote {out} and {record}")
    for doubt in doubts:
        say(f"note: {doubt}")


def _share(wanted: float | None, rows: int) -> float:
    """What is held out of so many rows."""
    from twofold.cli.large import HELD_OUT

    share = HELD_OUT if wanted is None else wanted
    held = round(share * rows)
    if not share or held >= FEWEST_HELD_OUT:
        return share
    if wanted is not None:
        raise CommandError(
            f"{share:g} of {rows} rows are {held}, too few to judge a model by; hold out a larger "
            "share, or none with --held-out 0"
        )
    say(f"note: {rows} rows are too few to hold some out, so nothing will tell how good the fit is")
    return 0.0


def judged(
    model: "BNNLVRegressor", train: "Rows", test: "Rows | None", outputs: list[str]
) -> dict[str, float]:
    """How much of the uncertainty more data could remove, and scores on rows held out."""
    import numpy as np

    from twofold.estimators.linear import LinearGaussian

    rows = train if test is None else test
    variances = model.decompose(rows.x, by="variance")
    share = variances.epistemic.mean(axis=0) / variances.total.mean(axis=0)
    found = {"rows fitted": float(len(train.x)), "epistemic share of the variance": np.mean(share)}
    if test is None:
        return found
    linear = LinearGaussian.fit(train.x, train.y)
    scored: dict[str, Any] = {"": model, "linear, ": linear}
    for name, one in scored.items():
        found[f"{name}held-out log-likelihood (nats)"] = np.mean(one.log_likelihood(test.x, test.y))
        error = np.sqrt(np.mean(np.square(one.predict(test.x) - test.y), axis=0))
        errors = zip(outputs, np.atleast_1d(error), strict=True)
        found |= {f"{name}held-out RMSE of {output}": value for output, value in errors}
    return {"rows held out": float(len(test.x))} | {k: float(v) for k, v in found.items()}


def _inputs(table: Any, outputs: list[str], inputs: str | None, ignore: str | None) -> list[str]:
    """The columns to predict from."""
    from twofold.cli.columns import named_columns

    ignored = [] if ignore is None else named_columns(table, ignore)
    if inputs is None:
        names = [name for name in table.names if name not in [*outputs, *ignored]]
    else:
        names = [name for name in named_columns(table, inputs) if name not in ignored]
    if not outputs or not names or len({*names, *outputs}) < len(names) + len(outputs):
        raise CommandError(
            "expected at least one target and one input, and no column twice, got "
            f"{listed(outputs) or 'no target'} and {listed(names) or 'no input'}"
        )
    return names
