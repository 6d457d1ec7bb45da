"""``twofold fit``: a model of some columns of a table."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twofold.commands.config import Config
from twofold.commands.errors import CommandError, StoppedError
from twofold.commands.output import AsJson, check_place, say, show_json, show_table
from twofold.commands.run import Run

if TYPE_CHECKING:
    from twofold.commands.models import Rows
    from twofold.estimators.regressor import BNNLVRegressor

# Fewer rows than these say nothing of a model.
HELD_OUT, FEWEST_HELD_OUT = 0.1, 5


def fit(
    ctx: typer.Context,
    data: Annotated[Path, typer.Argument(help="A CSV or Parquet file with a heading.")],
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
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Fit a model to a table, and judge it by rows that it has not seen.

    Stopped by Ctrl-C or killed, the same command goes on where it was.

    Example: twofold fit oven.csv --target yield --out oven.twofold
    """
    from twofold.commands import models
    from twofold.commands.columns import read_sheet
    from twofold.commands.settings import regressor_of, words
    from twofold.compilation import enable_compile_cache

    check_place(out, reads=[data, config])
    if (held_out is not None and not 0 <= held_out <= 0.9) or not 0 <= seed < 2**32:
        raise CommandError(
            f"expected --held-out of 0 to 0.9 and a seed below 2**32, got {held_out} and {seed}"
        )
    run = Run(ctx, seed)
    sheet, digest = read_sheet(data), run.reads(data)
    outputs = words(target)
    names = _inputs(sheet, outputs, inputs, ignore)
    found = sheet.numbers([*names, *outputs], drop_missing)
    share = _share(held_out, len(found.values))
    train, test = models.divided(found.values, len(names), share, seed)
    checkpoint = out.with_name(out.name + ".checkpoint")
    model = regressor_of(setting or []).set_params(random_state=seed, checkpoint=checkpoint)
    enable_compile_cache()
    with run.timed("fit"):
        doubts = fitted(model, train, checkpoint)
    model.set_params(checkpoint=None)
    low, high = train.x.min(axis=0).tolist(), train.x.max(axis=0).tolist()
    place = str(data.resolve())
    about = models.About(
        names, outputs, low, high, place, digest, share, seed, drop_missing
    )  # fmt: skip
    models.save(out, model, about)
    checkpoint.unlink(missing_ok=True)
    with run.timed("judge"):
        run.metrics |= judged(model, train, test)
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


def fitted(model: "BNNLVRegressor", rows: "Rows", checkpoint: Path) -> list[str]:
    """Fit, and return what speaks against the result."""
    from twofold.estimators.training import InterruptedFitWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        model.fit(*rows)
    for one in caught:
        if issubclass(one.category, InterruptedFitWarning):
            raise StoppedError(
                f"stopped; {checkpoint} keeps what there is, and the same command goes on from it"
            )
    return [str(one.message) for one in caught if issubclass(one.category, UserWarning)]


def judged(model: "BNNLVRegressor", train: "Rows", test: "Rows | None") -> dict[str, float]:
    """How much of the uncertainty more data could remove, and scores on rows held out."""
    import numpy as np

    from twofold.baselines.linear import LinearGaussian

    rows = train if test is None else test
    variances = model.decompose(rows.x, by="variance")
    share = variances.epistemic.mean(axis=0) / variances.total.mean(axis=0)
    found = {"rows fitted": float(len(train.x)), "epistemic share of the variance": np.mean(share)}
    if test is None:
        return found
    linear = LinearGaussian.fit(*train)
    scored: dict[str, Any] = {"": model, "linear, ": linear}
    for name, one in scored.items():
        found[f"{name}held-out log-likelihood (nats)"] = np.mean(one.log_likelihood(*test))
        error = np.sqrt(np.mean(np.square(one.predict(test.x) - test.y), axis=0))
        found |= _errors(f"{name}held-out RMSE", np.atleast_1d(error))
    return {"rows held out": float(len(test.x))} | {k: float(v) for k, v in found.items()}


def _errors(label: str, errors: Any) -> dict[str, float]:
    if len(errors) == 1:
        return {label: float(errors[0])}
    return {f"{label}, output {index + 1}": float(one) for index, one in enumerate(errors)}


def _inputs(sheet: Any, outputs: list[str], inputs: str | None, ignore: str | None) -> list[str]:
    """The columns to predict from."""
    from twofold.commands.settings import words

    left_out = [*outputs, *words(ignore or "")]
    sheet.check(left_out)
    if inputs is None:
        names = [name for name in sheet.names if name not in left_out]
    else:
        names = [name for name in words(inputs) if name not in words(ignore or "")]
    both = sorted(set(names) & set(outputs))
    if not outputs or not names or both:
        raise CommandError(
            "expected at least one target and one input, none of them both, got "
            f"{', '.join(outputs) or 'no target'} and {', '.join(names) or 'no input'}"
        )
    return names
