"""``twofold fit``: a model of some columns of a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from twofold.cli import terminal
from twofold.cli.run import Config, Run
from twofold.cli.terminal import TABLES, AsJson, CommandError, check_place
from twofold.core.naming import listed

if TYPE_CHECKING:
    from twofold.cli.models import Rows
    from twofold.estimators.regressor import BNNLVRegressor

DropMissing = Annotated[bool, Option("--drop-missing", help="Drop rows with missing values.")]
Stream = Annotated[bool, Option("--stream", help="Read in blocks, as large tables are.")]
Seed = Annotated[int, Option(help="Random seed.")]


def fit(
    ctx: typer.Context,
    data: Annotated[Path, Argument(help="CSV or Parquet file, or a folder of Parquet files.")],
    target: Annotated[str, Option(help="Column to predict; several: a,b")],
    out: Annotated[Path, Option(help="Model file to write.")],
    inputs: Annotated[
        str | None, Option(help="Input columns: a,b,c (default: all others).")
    ] = None,
    ignore: Annotated[str | None, Option(help="Columns to ignore: a,b")] = None,
    held_out: Annotated[
        float | None, Option(help="Share of rows to hold out (default: 0.1).")
    ] = None,
    drop_missing: DropMissing = False,
    setting: Annotated[list[str] | None, Option(help="Model setting, such as epochs=2000")] = None,
    seed: Seed = 0,
    stream: Stream = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Fit a model to a table, and evaluate it on held-out rows.

    After Ctrl-C or a crash, the same command resumes the fit.

    Example: twofold fit oven.csv --target yield --out oven.twofold
    """
    from twofold.cli import models
    from twofold.tables import open_table, read_table

    check_place(out, (), [data, config])
    if out.suffix.lower() in TABLES:
        raise CommandError(
            f"{out} has the ending of a table; name the model file {out.stem}.twofold, for example"
        )
    if (held_out is not None and not 0 <= held_out <= 0.9) or not 0 <= seed < 2**32:
        raise CommandError(
            f"expected --held-out of 0 to 0.9 and a seed below 2**32, got {held_out} and {seed}"
        )
    run = Run(ctx, seed)
    streamed = stream or models.is_large(data)
    table: Any = open_table(data) if streamed else read_table(data)
    digest = run.reads(data)
    outputs = models.find_columns(table, target)
    names = _find_inputs(table, outputs, inputs, ignore)
    checkpoint = out.with_name(out.name + ".checkpoint")
    model = terminal.build_regressor(setting or [])
    model.set_params(random_state=seed, checkpoint=checkpoint)
    source = str(data.resolve()), digest
    about = models.About(names, outputs, [], [], *source, held_out, seed, drop_missing, streamed)
    fit_table: Any = models.fit_in_blocks if streamed else models.fit_in_memory
    result: models.Result = fit_table(model, table, about, run)
    model.set_params(checkpoint=None)
    models.save_model(out, model, result.about)
    checkpoint.unlink(missing_ok=True)
    with run.timed("judge"):
        run.metrics |= evaluate(model, result.train, result.test, outputs)
        run.metrics["rows fitted"] = float(result.rows)
    record = run.write(out)
    if as_json:
        metrics = {"metrics": run.metrics, "doubts": result.doubts}
        terminal.show_json({"model": out, "record": record, **metrics})
        return
    terminal.show_table(["", "value"], [[name, f"{v:.4g}"] for name, v in run.metrics.items()])
    print(f"wrote {out} and {record}")
    for doubt in result.doubts:
        terminal.say(f"note: {doubt}")


def evaluate(
    model: "BNNLVRegressor", train: "Rows", test: "Rows | None", outputs: list[str]
) -> dict[str, float]:
    """The epistemic share of the variance, and scores on held-out rows beside a linear model's."""
    import numpy as np

    from twofold.estimators.regressor import LinearGaussian

    rows = train if test is None else test
    variances = model.decompose(rows.x, by="variance")
    share = variances.epistemic.mean(axis=0) / variances.total.mean(axis=0)
    scores = {"rows fitted": float(len(train.x)), "epistemic share of the variance": np.mean(share)}
    if test is None:
        return scores
    models: dict[str, Any] = {"": model, "linear, ": LinearGaussian.fit(train.x, train.y)}
    for name, one in models.items():
        log_likelihood = one.log_likelihood(test.x, test.y)
        scores[f"{name}held-out log-likelihood (nats)"] = np.mean(log_likelihood)
        error = np.sqrt(np.mean(np.square(one.predict(test.x) - test.y), axis=0))
        errors = zip(outputs, np.atleast_1d(error), strict=True)
        scores |= {f"{name}held-out RMSE of {output}": value for output, value in errors}
    return {"rows held out": float(len(test.x))} | {k: float(v) for k, v in scores.items()}


def _find_inputs(
    table: Any, outputs: list[str], inputs: str | None, ignore: str | None
) -> list[str]:
    """The input columns: those that are named, or all others."""
    from twofold.cli.models import find_columns

    ignored = find_columns(table, ignore or "")
    names = find_columns(table, inputs) if inputs is not None else table.names
    excluded = ignored if inputs is not None else [*outputs, *ignored]
    names = [name for name in names if name not in excluded]
    if not outputs or not names or len({*names, *outputs}) < len(names) + len(outputs):
        raise CommandError(
            "expected at least one target and one input, and no column twice, got "
            f"{listed(outputs) or 'no target'} and {listed(names) or 'no input'}"
        )
    return names
