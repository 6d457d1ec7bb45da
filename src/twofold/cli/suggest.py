"""``twofold suggest``: where to measure next, by a model and a table of candidates."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from twofold.cli.decompose import ModelFile
from twofold.cli.fit import DropMissing
from twofold.cli.run import Config, Run
from twofold.cli.terminal import AsJson, CommandError, check_place, show_records, show_table

if TYPE_CHECKING:
    from twofold.cli.models import About
    from twofold.estimators.regressor import BNNLVRegressor

# Of more candidates only those with the largest scores are compared with each other.
MOST_TOGETHER = 2_000
SPREAD = 1_024
# The number of columns that fit into a terminal.
WIDE = 6
NATS = "expected information (nats)"


def suggest(
    ctx: typer.Context,
    model: ModelFile,
    candidates: Annotated[
        Path | None, Argument(help="Table of candidates (default: the measured range).")
    ] = None,
    num: Annotated[int, Option("--num", "-n", help="Number of points.")] = 5,
    out: Annotated[Path | None, Option(help="Also write a *.csv or *.parquet file.")] = None,
    seed: Annotated[int, Option(help="Random seed.")] = 0,
    drop_missing: DropMissing = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Suggest the points whose measurements would together teach the model most.

    Without a table of candidates, points are spread evenly over the range of the model's inputs.
    To plan and record a whole series of measurements, see twofold campaign.

    Example: twofold suggest oven.twofold candidates.csv --num 5
    """
    from twofold.cli.models import load_model, name_columns, read_values
    from twofold.tables import read_table

    check_place(out, reads=[model, candidates, config])
    run = Run(ctx, seed)
    run.reads(model)
    regressor, about = load_model(model)
    names, outputs = name_columns(model, regressor, about)
    if candidates is None:
        pool = _spread_over_range(model, about, seed)
    else:
        run.reads(candidates)
        table = read_table(candidates)
        pool = table.take(read_values(table, names, drop_missing)[1]).to_lists()
    count = len(pool[names[0]])
    if not 1 <= num <= count:
        raise CommandError(f"--num must lie between 1 and {count} candidates, got {num}")
    with run.timed("choose"):
        columns = choose_rows(regressor, pool, names, outputs, num)
    run.metrics |= {f"{NATS}, point {i + 1}": v for i, v in enumerate(columns[NATS])}
    run.write_table(out, columns)
    if as_json:
        show_records(columns)
    else:
        _show(columns, f"Measure here next, of {count} candidates")


def choose_rows(
    model: "BNNLVRegressor", pool: dict[str, list[Any]], names: list[str], outputs: list[str],
    num: int,
) -> dict[str, list[Any]]:  # fmt: skip
    """The rows to measure, best first, with the split there."""
    import numpy as np

    from twofold.active import choose_batch, choose_best, expected_information
    from twofold.estimators.streaming import split_columns

    x = np.array([pool[name] for name in names], float).T
    scores = expected_information(model, x)
    near = choose_best(scores, min(len(x), max(MOST_TOGETHER, num)))
    means, variances = model.conditional_moments(x[near])
    places = near[choose_batch(scores[near], means, variances.mean(axis=0), num)]
    columns = {name: [column[i] for i in places] for name, column in pool.items()}
    split = split_columns(model, x[places], outputs, "variance")
    columns |= {name: column.tolist() for name, column in split.items()}
    return columns | {NATS: scores[places].tolist()}


def _spread_over_range(path: Path, about: "About | None", seed: int) -> dict[str, list[Any]]:
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
    return dict(zip(about.inputs, points.T.tolist(), strict=True))


def _show(columns: dict[str, list[Any]], title: str) -> None:
    """A row for each point, or, of few points with many columns, a column for each."""
    num = len(columns[NATS])
    cells = {
        name: [f"{value:.4g}" if isinstance(value, float) else str(value) for value in column]
        for name, column in columns.items()
    }
    if num > WIDE or len(cells) <= WIDE:
        show_table(list(cells), list(zip(*cells.values(), strict=True)), title)
    else:
        rows = [[name, *column] for name, column in cells.items()]
        show_table(["", *(f"point {index + 1}" for index in range(num))], rows, title)
