"""``twofold fit``, ``decompose`` and ``suggest``: a model of some columns of a table, its
predictions for another with their uncertainty in two parts, and where to measure next."""

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from twofold.cli import models
from twofold.cli.run import Run, to_records
from twofold.cli.terminal import (
    TABLES,
    CommandError,
    add_quick,
    build_regressor,
    check_place,
    say,
    to_table,
)
from twofold.core.naming import listed

# Of more candidates only those with the largest scores are compared with each other.
MOST_TOGETHER = 2_000
SPREAD = 1_024
# The number of columns that fit into a terminal.
WIDE = 6
NATS = "expected information (nats)"

DropMissing = Annotated[bool, Option("--drop-missing", help="Drop rows with missing values.")]
Stream = Annotated[bool, Option("--stream", help="Read in blocks, as large tables are.")]
Quick = Annotated[
    bool, Option("--quick", help="Fit in seconds, without chains: inference=ensemble.")
]
Seed = Annotated[int, Option(help="Random seed.")]
ModelFile = Annotated[Path, Argument(help="Model file of twofold fit.")]


def fit(
    run: Run,
    data: Annotated[Path, Argument(help="CSV or Parquet file, or a folder of Parquet files.")],
    target: Annotated[str, Option(help="Column to predict; several: a,b")],
    out: Annotated[Path, Option(help="Model file to write.")],
    inputs: Annotated[
        str | None, Option(help="Input columns: a,b,c (default: all others).")
    ] = None,
    ignore: Annotated[str | None, Option(help="Columns to ignore: a,b")] = None,
    held_out: Annotated[
        float | None,
        Option(help="Share of rows to hold out (default: 0 if the fit scores itself, else 0.1)."),
    ] = None,
    drop_missing: DropMissing = False,
    quick: Quick = False,
    setting: Annotated[list[str] | None, Option(help="Model setting, such as chains=20")] = None,
    seed: Seed = 0,
    stream: Stream = False,
) -> None:
    """Fit a model to a table, and evaluate it on rows that did not train it.

    The default inference and --quick score themselves: every row is predicted by networks that were
    not trained on it (out of bag). After Ctrl-C or a crash, the same command resumes the fit.

    Example: twofold fit oven.csv --target yield --out oven.twofold
    """
    from twofold.estimators.regressor import BNNLVRegressor
    from twofold.estimators.streaming import STREAMED_NOTE, replace_default
    from twofold.estimators.training import remove_checkpoint
    from twofold.tables import open_table, read_table

    check_place(out, (), [data, run.config])
    if out.suffix.lower() in TABLES:
        raise CommandError(
            f"{out} has the ending of a table; name the model file {out.stem}.twofold, for example"
        )
    if (held_out is not None and not 0 <= held_out <= 0.9) or not 0 <= seed < 2**32:
        raise CommandError(
            f"expected --held-out of 0 to 0.9 and a seed below 2**32, got {held_out} and {seed}"
        )
    streamed = stream or models.is_large(data)
    table: Any = open_table(data) if streamed else read_table(data)
    source = str(data.resolve()), run.reads(data)
    outputs = models.find_columns(table, target)
    names = _find_inputs(table, outputs, inputs, ignore)
    checkpoint = out.with_name(out.name + ".checkpoint")
    base, texts = BNNLVRegressor(), add_quick(setting or [], quick)
    chosen = any(one.partition("=")[0].strip() == "inference" for one in texts)
    replaced = streamed and not chosen and replace_default(base)
    model = build_regressor(texts, base=base)
    model.set_params(random_state=seed, checkpoint=checkpoint)
    about = models.About(names, outputs, [], [], *source, held_out, seed, drop_missing, streamed)
    fit_table: Any = models.fit_in_blocks if streamed else models.fit_in_memory
    result: models.Result = fit_table(model, table, about, run)
    model.set_params(checkpoint=None)
    models.save_model(out, model, result.about)
    remove_checkpoint(checkpoint)
    with run.timed("judge"):
        run.metrics |= models.evaluate(model, result)
    record, doubts = run.write(out), [STREAMED_NOTE] * replaced + result.doubts
    table = to_table(["", "value"], [[name, f"{v:.4g}"] for name, v in run.metrics.items()])
    content = {"model": out, "record": record, "metrics": run.metrics, "doubts": doubts}
    run.show(content, table, f"wrote {out} and {record}")
    for doubt in [] if run.as_json else doubts:
        say(f"note: {doubt}")


def decompose(
    run: Run,
    model: ModelFile,
    data: Annotated[Path, Argument(help="CSV or Parquet file with the model's inputs.")],
    by: Annotated[
        Literal["entropy", "variance"],
        Option(help="Entropies in nats, or standard deviations in units of the target."),
    ] = "entropy",
    out: Annotated[Path | None, Option(help="*.csv or *.parquet file (default: stdout).")] = None,
    drop_missing: DropMissing = False,
    stream: Stream = False,
) -> None:
    """Predict the rows of a table, and split the uncertainty of each prediction in two.

    The result has the columns of the table, the predicted mean, and the total, epistemic and
    aleatoric uncertainty.

    Example: twofold decompose oven.twofold new.csv --by variance --out split.csv
    """
    from twofold.estimators.streaming import decompose_table, split_columns
    from twofold.tables import open_table

    check_place(out, reads=[model, data, run.config])
    opened = models.open_model(model, run)
    if stream or models.is_large(data):
        if out is None or run.as_json:
            raise CommandError(
                f"{data} is read in blocks: write the result to a file with --out, without --json"
            )
        # Refuses a pipe before its bytes are read, which would wait for its other end.
        open_table(data)
        run.reads(data)
        columns = {"inputs": opened.inputs, "outputs": opened.outputs}
        with run.timed("decompose"), models.name_options():
            written = decompose_table(
                opened.model, data, out, by, **columns, drop_missing=drop_missing
            )
        run.metrics |= {f"mean {name}": mean for name, mean in written.means.items()}
        say(f"wrote {out}: {written.rows} rows; record: {run.write(out)}")
        return
    result, values = models.read_inputs(data, opened.inputs, drop_missing, run)
    with run.timed("decompose"):
        parts = split_columns(opened.model, values, opened.outputs, by)
    result |= {name: column.tolist() for name, column in parts.items()}
    run.metrics |= {f"mean {name}": float(column.mean()) for name, column in parts.items()}
    run.write_table(out, result)
    run.show_columns(out, result)


def suggest(
    run: Run,
    model: ModelFile,
    candidates: Annotated[
        Path | None, Argument(help="Table of candidates (default: the measured range).")
    ] = None,
    num: Annotated[int, Option("--num", "-n", help="Number of points.")] = 5,
    out: Annotated[Path | None, Option(help="Also write a *.csv or *.parquet file.")] = None,
    seed: Seed = 0,
    drop_missing: DropMissing = False,
) -> None:
    """Suggest the points whose measurements would together teach the model most.

    Without a table of candidates, points are spread evenly over the range of the model's inputs.
    To plan and record a whole series of measurements, see twofold campaign.

    Example: twofold suggest oven.twofold candidates.csv --num 5
    """
    check_place(out, reads=[model, candidates, run.config])
    opened = models.open_model(model, run)
    if candidates is None:
        pool, x = _spread_over_range(model, opened.about, seed)
    else:
        pool, x = models.read_inputs(candidates, opened.inputs, drop_missing, run)
    if not 1 <= num <= len(x):
        raise CommandError(f"--num must lie between 1 and {len(x)} candidates, got {num}")
    with run.timed("choose"):
        columns = _choose_rows(opened, pool, x, num)
    run.metrics |= {f"{NATS}, point {i + 1}": v for i, v in enumerate(columns[NATS])}
    run.write_table(out, columns)
    cells = {
        name: [f"{value:.4g}" if isinstance(value, float) else str(value) for value in column]
        for name, column in columns.items()
    }
    title = f"Measure here next, of {len(x)} candidates"
    if num > WIDE or len(cells) <= WIDE:
        shown = to_table(list(cells), list(zip(*cells.values(), strict=True)), title)
    else:  # a column for each point
        rows = [[name, *column] for name, column in cells.items()]
        shown = to_table(["", *(f"point {index + 1}" for index in range(num))], rows, title)
    run.show(to_records(columns), shown)


def _choose_rows(
    opened: models.Opened, pool: dict[str, list[Any]], x: Any, num: int
) -> dict[str, list[Any]]:
    """The rows to measure, best first, with the prediction and widths of its parts there."""
    from twofold.active import choose_batch, choose_best, expected_information
    from twofold.active.choice import split_by_entropy

    scores = expected_information(opened.model, x)
    near = choose_best(scores, min(len(x), max(MOST_TOGETHER, num)))
    means, variances = opened.model.conditional_moments(x[near])
    places = near[choose_batch(scores[near], means, variances.mean(axis=0), num)]
    columns = {name: [column[i] for i in places] for name, column in pool.items()}
    widths = split_by_entropy(opened.model, x[places]).equivalent_deviations().parts._asdict()
    found = {"mean": opened.model.predict(x[places]).reshape(num, -1)}
    found |= {f"{part} sd": values for part, values in widths.items()}
    for i, name in enumerate(opened.outputs):
        columns |= {f"{name} {kind}": values[:, i].tolist() for kind, values in found.items()}
    return columns | {NATS: scores[places].tolist()}


def _spread_over_range(
    path: Path, about: models.About | None, seed: int
) -> tuple[dict[str, list[Any]], Any]:
    """Points of a scrambled Sobol sequence over the measured range."""
    import numpy as np
    from scipy.stats import qmc

    if about is None:
        raise CommandError(
            f"{path} does not store the range of its inputs; give a table of candidates"
        )
    unit = qmc.Sobol(len(about.inputs), rng=np.random.default_rng(seed)).random(SPREAD)
    low, high = np.array(about.low), np.array(about.high)
    points = low + (high - low) * unit
    return dict(zip(about.inputs, points.T.tolist(), strict=True)), points


def _find_inputs(
    table: Any, outputs: list[str], inputs: str | None, ignore: str | None
) -> list[str]:
    """The input columns: those that are named, or all others."""
    ignored = models.find_columns(table, ignore or "")
    names = models.find_columns(table, inputs) if inputs is not None else table.names
    excluded = ignored if inputs is not None else [*outputs, *ignored]
    names = [name for name in names if name not in excluded]
    if not outputs or not names or len({*names, *outputs}) < len(names) + len(outputs):
        raise CommandError(
            "expected at least one target and one input, and no column twice, got "
            f"{listed(outputs) or 'no target'} and {listed(names) or 'no input'}"
        )
    return names
