"""Fit to tables, in memory or in blocks, and evaluate the fit."""

import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twofold.cli.models import About
from twofold.cli.rows import Rows, draw_streamed, read_all, split_rows
from twofold.cli.run import Run
from twofold.cli.terminal import CommandError, print_note
from twofold.tables import Table, TableFile
from twofold.tables.coding import split_features

if TYPE_CHECKING:
    from twofold.estimators.regressor import BNNLVRegressor

HELD_OUT = 0.1
# Scores of fewer rows are meaningless; with the larger number, the standard error is 1 % of the
# spread of the rows.
FEWEST_HELD_OUT, MOST_HELD_OUT = 5, 10_000
# Number of rows for mean entropies.
MOST_SPLIT = 1_000


class Result(NamedTuple):
    """Description of the table, training rows, held-out rows, number of training rows, warnings."""

    about: About
    train: Rows
    test: Rows | None
    rows: int
    doubts: list[str]


def fit_in_memory(
    model: "BNNLVRegressor", tables: Sequence[Table], about: About, run: Run
) -> Result:
    """Fit to tables that are in memory as a whole."""
    from twofold.inference.method import resolve_method

    y = read_all(tables, about).y
    _check_targets(tables[-1].source, y.reshape(len(y), -1), about.outputs)
    staged = resolve_method(model.inference).staged
    about = about._replace(held_out=_choose_share(about.held_out, len(y), staged))
    train, test = split_rows(tables, about)
    facts = train.facts | ({} if staged else {"groups": None})
    with run.timed("fit"):
        doubts = _fit_with_doubts(lambda: model.fit(train.x, train.y, **facts), model)
    measured = [one.with_range(values) for one, values in split_features(about.columns, train.x)]
    return Result(about._replace(columns=measured), train, test, len(train.x), doubts)


def fit_in_blocks(model: "BNNLVRegressor", table: TableFile, about: About, run: Run) -> Result:
    """Fit to a table of numbers that may be larger than memory."""
    from twofold.estimators.streaming import BLOCK_ROWS, check_streamed, fit_scratch, write_scratch

    if about.weight or about.errors or about.group:
        raise CommandError(
            f"{table.source} is read in blocks, which does not support --weight, --error or --group"
        )
    inputs, count, names = len(about.columns), table.count_rows(), [*about.inputs, *about.outputs]
    check_streamed(model, count)
    if count is None:
        count = sum(map(len, table.blocks(BLOCK_ROWS, about.inputs[:1])))
    share = HELD_OUT if about.held_out is None else about.held_out
    share = min(share, MOST_HELD_OUT / max(count, 1))
    aside: list[np.ndarray] = []

    def read_training_rows() -> Iterator[np.ndarray]:
        for block in table.blocks(BLOCK_ROWS, names):
            values, kept = block.values(names, about.drop_missing)
            held_out = draw_streamed(block.rows[kept], share, about.seed)
            aside.append(values[held_out])
            yield values[~held_out]

    with tempfile.TemporaryDirectory(prefix="twofold-") as folder:
        with run.timed("read"):
            scratch = write_scratch(Path(folder) / "rows", read_training_rows())
        ends = np.stack([scratch.running.low, scratch.running.high])
        _check_targets(table.source, ends[:, inputs:], about.outputs)
        with run.timed("fit"):
            doubts = _fit_with_doubts(
                lambda: fit_scratch(model, scratch, inputs, min(len(about.outputs), 2)), model
            )
        places = scratch.rows_of(0, about.seed)
        train = _to_rows(scratch.read(places), inputs, places)
    held_out = np.concatenate(aside)
    test = _to_rows(held_out, inputs, np.arange(len(held_out))) if len(held_out) else None
    columns = [
        replace(one, low=float(low), high=float(high))
        for one, low, high in zip(about.columns, *ends[:, :inputs], strict=True)
    ]
    about = about._replace(columns=columns, held_out=share)
    return Result(about, train, test, scratch.rows, doubts)


def evaluate(model: "BNNLVRegressor", result: Result) -> tuple[dict[str, float], str]:
    """The epistemic share of the variance, the out-of-bag score, and scores on held-out rows,
    compared with a linear model; and the verdict as a sentence."""
    from twofold.active.choice import epistemic_share, split_by_entropy
    from twofold.estimators.comparison import compare_held_out, compute_crps
    from twofold.estimators.linear import LinearGaussian

    train, test = result.train, result.test
    x = (train if test is None else test).x
    split = split_by_entropy(model, x[:: -(-len(x) // MOST_SPLIT)])
    share = epistemic_share(split.epistemic).mean()
    scores = {"rows fitted": result.rows, "epistemic share of the variance": max(0.0, share)}
    comparison = None
    if model.out_of_bag_ is not None:
        score, error, _ = model.out_of_bag_
        scores |= {"out-of-bag log-likelihood (nats)": score, "its standard error": error}
    if test is not None:
        scores = {"rows held out": len(test.x)} | scores
        linear = LinearGaussian.fit(train.x, train.y, train.weight)
        density = model.log_likelihood(test.x, test.y, test.error)
        both = ("", model, density), ("linear, ", linear, linear.log_likelihood(test.x, test.y))
        for name, one, densities in both:
            scores[f"{name}held-out log-likelihood (nats)"] = np.mean(densities)
            error = np.sqrt(np.mean(np.square(one.predict(test.x) - test.y), axis=0))
            errors = zip(result.about.outputs, np.atleast_1d(error), strict=True)
            scores |= {f"{name}held-out RMSE of {output}": value for output, value in errors}
        crps = compute_crps(model, test.x, test.y, test.error)
        comparison = compare_held_out(linear, test.x, test.y, density, crps)
    elif model.comparison_ is not None:
        comparison = model.comparison_
        linear_score = model.out_of_bag_.score - comparison.gain
        scores["linear, cross-validated log-likelihood (nats)"] = linear_score
    verdict = "" if comparison is None else comparison.sentence
    return {name: float(value) for name, value in scores.items()}, verdict


def _to_rows(values: np.ndarray, inputs: int, places: np.ndarray) -> Rows:
    targets = values[:, inputs:]
    return Rows(values[:, :inputs], targets[:, 0] if targets.shape[1] == 1 else targets, places)


def _check_targets(source: str, targets: np.ndarray, outputs: list[str]) -> None:
    """Refuse constant targets and tables with too few rows."""
    if len(targets) < 2:
        raise CommandError(f"{source} needs at least 2 rows, better 50 or more; got {len(targets)}")
    for name, y in zip(outputs, targets.T, strict=True):
        if y.min() == y.max():
            raise CommandError(f"{source}: {name!r} is {y[0]:g} in every row: nothing to learn")


def _fit_with_doubts(fit: Callable[[], Any], model: "BNNLVRegressor") -> list[str]:
    """Fit, and return the warnings about the result."""
    from twofold.estimators.training import whole_fits

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with whole_fits(f"progress is kept in {model.checkpoint}; run the same command to resume"):
            fit()
    ignored = DeprecationWarning, FutureWarning
    return [str(one.message) for one in caught if not issubclass(one.category, ignored)]


def _choose_share(held_out: float | None, rows: int, scores_itself: bool) -> float:
    """The share to hold out of a table in memory; by default 0 for a fit scored out of bag."""
    if held_out is None and scores_itself:
        return 0.0
    share = HELD_OUT if held_out is None else held_out
    count = round(share * rows)
    if not share or count >= FEWEST_HELD_OUT:
        return share
    if held_out is not None:
        raise CommandError(
            f"{share:g} of {rows} rows are {count}, too few to evaluate a model; hold out a larger "
            "share, or none with --held-out 0"
        )
    print_note(f"{rows} rows are too few to hold some out, so the fit is not evaluated")
    return 0.0
