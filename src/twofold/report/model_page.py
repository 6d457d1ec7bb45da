"""The page of a fitted model: data, predictions, uncertainty and accuracy."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from twofold.active.suggestion import SPREAD, SUGGESTED, Suggestion, suggest_rows
from twofold.estimators.comparison import Comparison, compare_held_out
from twofold.estimators.linear import LinearGaussian
from twofold.estimators.storage import describe_problems
from twofold.inference.method import resolve_method
from twofold.report import calibration, figures, model_data
from twofold.report import page as pages
from twofold.report.calibration import Accuracy, Scores
from twofold.report.figures import shorten_label
from twofold.report.model_data import Moments, Slice, Subject, compute_moments, pick
from twofold.report.page import Chooser, Picture, Rows, format_number, make_picture
from twofold.tables.coding import Column, decode, spread
from twofold.uncertainty.decomposition import Parts

METHODS = {
    "langevin": "Langevin chains",
    "ensemble": "ensemble",
    "alpha": "mean field (α-divergence)",
    "nuts": "Markov chains (NUTS)",
    "hmc": "Markov chains (HMC)",
}
MOST_OUTPUTS, MOST_BLOCKS, MOST_BARS, MOST_REASONS = 8, 4, 12, 3
GAUSSIAN = "No sign that the noise is other than Gaussian, given the inputs."
NOT_GAUSSIAN = (
    "The noise is not Gaussian given the inputs: a latent input improved the prediction of rows "
    "that the networks were not trained on."
)
SCORES = [
    "output", f"inside the {calibration.INTERVAL:.0%} interval", "coverage error (points)",
    "by chance alone", "CRPS (units of the output)",
]  # fmt: skip


def write_model_page(
    path: str | Path, model: Any, X: Any, y: Any, *, inputs: Sequence[str], outputs: Sequence[str],
    held_out: tuple[Any, Any] | None = None, title: str = "A fitted model",
    rows: Sequence[str] | None = None, columns: Sequence[Column] | None = None, y_error: Any = None,
    verdict: str | None = None,
) -> Path:  # fmt: skip
    """Write the page of a fitted BNNLVRegressor, one self-contained HTML file.

    ``X`` ``[N, D]`` and ``y`` ``[N]`` or ``[N, O]`` are the training rows, ``inputs`` and
    ``outputs`` the names of their columns, ``rows`` the names of their rows in the user's table,
    such as ``line 17``. ``held_out`` holds X and y, or X, y and y_error, of other rows, on which
    the model is scored. ``columns`` describes the columns of the user's table, if some of them are
    encoded as several inputs or have a step; ``y_error`` is the known standard deviation of each
    measurement in y. ``verdict``, a sentence on the quality of the fit, replaces the comparison
    with a linear model.
    """
    check_is_fitted(model)
    about = model_data.make_subject(model, X, y, inputs, outputs, held_out, rows, columns, y_error)
    content = _describe_model(about) | ({"verdict": verdict} if verdict else {})
    return pages.write_page(path, "model.html", title, about=about, **content)


def find_doubts(model: Any) -> str | None:
    """Warnings about a fitted model, or None."""
    report = model.convergence_
    advice = describe_problems(model)
    if report is None or report.epochs == report.planned_epochs:
        return advice
    short = f"the fit was stopped after {report.epochs} of {report.planned_epochs} epochs"
    return "; ".join(filter(None, [short, advice]))


def compare_with_linear(
    about: Subject, densities: np.ndarray, scores: dict[str, Scores]
) -> Comparison | None:
    """Compare the model with a linear one on rows not used in its fit; None without such rows."""
    data, test = about.data, about.held_out
    if test is None:
        return about.model.comparison_
    crps = np.stack([one.crps for one in scores.values()], axis=1)
    linear = LinearGaussian.fit(data.x, data.y)
    return compare_held_out(linear, test.x, test.y, densities, crps)


def describe_noise(about: Subject) -> list[str]:
    """Whether the noise is Gaussian, if the fit selected that, and its lower bounds."""
    model, sentences = about.model, []
    if model.latent_dim == "auto" and resolve_method(model.inference).staged:
        sentences.append(NOT_GAUSSIAN if model.model_.latents else GAUSSIAN)
    floors = np.array(model.model_.noise_floor or [np.nan] * len(about.outputs))
    floors = floors * model.y_standardizer_.scale
    for name, step, floor in zip(about.outputs, about.steps, floors, strict=True):
        if np.isfinite(step) and np.isfinite(floor):
            sentences.append(
                f"{name} is rounded to steps of {format_number(step)}; its noise is at least "
                f"{format_number(floor)}."
            )
    return sentences


def _describe_model(about: Subject) -> dict[str, Any]:
    """The content of the template; each split and score is computed once."""
    moments = compute_moments(about.model, about.data.x)
    entropies = model_data.compute_entropies(about.model, about.data.x, moments)
    here = model_data.match_gaussians(moments.mean, entropies)
    test = moments if about.held_out is None else compute_moments(about.model, about.test.x)
    densities = calibration.compute_log_densities(about)
    accuracies = calibration.compare_models(about, test.mean, densities)
    scores = calibration.compute_scores(about, densities)
    effects = model_data.compute_effects(about, moments)
    order = model_data.rank_inputs(effects)
    numeric = [int(column) for column in order if about.columns[column].kind != "category"]
    inputs = [about.features[column][0] for column in numeric]
    moving = [column for column in inputs if np.ptp(about.data.x[:, column]) > 0]
    pool = spread(about.columns, SPREAD, 0)
    best = suggest_rows(about.model, pool, min(SUGGESTED, len(pool)))
    next_points = pool[best.rows]
    suggestions = _list_suggestions(about, next_points, best)
    # Names with both standard deviations at the first suggestion.
    first = suggestions[1][0][len(about.columns) + 1 :]
    reasons = list(zip(about.outputs, first[1::3], first[2::3], strict=False))[:MOST_REASONS]
    headings = ["", "log-likelihood (nats per row)", *(f"RMSE of {name}" for name in about.outputs)]
    return {
        **_describe_headline(about, here, compare_with_linear(about, densities, scores)),
        "doubts": find_doubts(about.model),
        "noise": describe_noise(about),
        "key_figures": _list_key_figures(about, here, accuracies["this model"]),
        "accuracies": (headings, [[name, *one.cells] for name, one in accuracies.items()]),
        "slices": _slice(about, here, moving, next_points) if moving else None,
        "moving": len(moving),
        "never": sum(not np.ptp(about.data.x[:, column]) for column in inputs),
        "drives": _by_output("drives", about, _show_effects, effects, order[:MOST_BARS]),
        "largest_effect": max(part.max() for part in effects),
        "suggestions": suggestions,
        "reasons": reasons,
        "predicted_pictures": _by_output("predicted", about, _show_predicted),
        "calibration": _by_output("calibration", about, _show_calibration, scores),
        "scores": (SCORES, [[name, *one.cells] for name, one in scores.items()]),
        "columns": _list_columns(about),
        "most_bars": MOST_BARS,
        "most_rows": model_data.MOST_ROWS,
    }


def _describe_headline(
    about: Subject, here: Moments, comparison: Comparison | None
) -> dict[str, Any]:
    """The number and sentence of the headline: the change of the error against a linear regression,
    on rows that the model was not trained on, if known; and the epistemic share."""
    share = float((here.variances.epistemic / here.variances.total).mean())
    found = {"lead": ("", ""), "verdict": None, "useful": False, "share": f"{share:.0%}"}
    if comparison is None:
        return found
    rows = "held-out" if about.held_out else "out-of-bag"
    words = f"error (CRPS) against a linear regression, on {rows} rows"
    useful = comparison.verdict == "better"
    lead = pages.format_change(-comparison.crps_gain), words
    return found | {"lead": lead, "verdict": comparison.sentence, "useful": useful}


def _by_output(name: str, about: Subject, show: Callable[..., Any], *arguments: Any) -> Chooser:
    """Choose among ``show(about, number, name, *arguments)`` for each output."""
    every = enumerate(about.outputs)
    blocks = {(output,): show(about, i, output, *arguments) for i, output in every}
    return Chooser(name, {"output": about.outputs}, blocks)


def _list_key_figures(about: Subject, here: Moments, own: Accuracy) -> dict[str, str]:
    noise = np.sqrt(here.variances.aleatoric.mean(axis=0))
    share = (here.variances.epistemic / here.variances.total).mean(axis=0)
    kind = "held-out" if about.held_out else "training"
    numbers = {
        "training rows": f"{about.rows:,}",
        "held-out rows": f"{len(about.held_out.x):,}" if about.held_out else "none",
        "inputs and outputs": f"{len(about.inputs)} and {len(about.outputs)}",
        "inference": METHODS[resolve_method(about.model.inference).name],
    }
    found = about.model.out_of_bag_
    if about.held_out is not None or found is None:
        numbers[f"log-likelihood, {kind} rows"] = f"{own.log_likelihood:.3f} nats"
    if found is not None:
        score = f"{found.score:.3f} ± {found.standard_error:.3f} nats"
        numbers["log-likelihood, out-of-bag rows"] = score
    for i, name in enumerate(about.outputs[:MOST_OUTPUTS]):
        numbers |= {
            f"error (RMSE) of {name}": format_number(own.rmse[i]),
            f"noise (σ) of {name}": format_number(noise[i]),
            f"epistemic share of the variance of {name}": f"{share[i]:.0%}",
        }
    return numbers


def _show_effects(
    about: Subject, i: int, output: str, effects: Parts, bars: np.ndarray
) -> list[Picture]:
    """Total effects of the most important inputs."""
    names, parts = [about.columns[column].name for column in bars], pick(effects, i, bars)
    every = zip(names, *parts, strict=True)
    shares = [
        f"{name}: mean {a:.0%}, epistemic {b:.0%}, aleatoric {c:.0%}" for name, a, b, c in every
    ]
    words = f"Total effects of the inputs on {output}. {'; '.join(shares)}."
    size = 4.6, 1.2 + 0.36 * len(names)
    return [make_picture(words, "", figures.plot_effects, names, parts, size=size, title="")]


def _show_predicted(about: Subject, i: int, output: str) -> list[Picture]:
    """Predicted and measured values at the test rows."""
    shown = figures.spread_evenly(len(about.test.x), figures.MOST_INTERVALS)
    quantiles = model_data.compute_quantiles(about.model, about.test.x[shown])
    panel = figures.plot_predicted, about.test.y[shown, i], quantiles[:, i]
    words = f"Predicted against measured {output} with intervals of 50 % and 90 %."
    rows = "held-out rows" if about.held_out else "training rows"
    caption = f"On {rows}, at most {figures.MOST_INTERVALS} of them. "
    caption += "About 9 of 10 thin bars should cross the line, and half of the thick bars."
    columns, table = [*about.inputs, *about.outputs], np.hstack([about.test.x, about.test.y])[shown]
    rows_shown = [zip(columns, map(format_number, row), strict=True) for row in table]
    tips = ["\n".join(f"{name}: {value}" for name, value in row) for row in rows_shown]
    labels: Any = {"xlabel": shorten_label(f"{output}, measured"), "title": ""}
    return [make_picture(words, caption, *panel, tips, wide=True, **labels)]


def _show_calibration(
    about: Subject, i: int, output: str, scores: dict[str, Scores]
) -> list[Picture]:
    own = {output: scores[output]}
    bins = int(np.clip(scores[output].pit.size // 10, 4, 20))
    covered = f"Share of measurements of {output} inside intervals of each nominal coverage."
    held = "Within the grey band, coverage is as expected."
    places = f"Where measurements of {output} fall within their predictive distributions."
    chance = "Bars within the grey band are consistent with a calibrated model."
    return [
        make_picture(covered, held, calibration.plot_coverage, own),
        make_picture(places, chance, calibration.plot_pit, own, bins),
    ]


def _slice(about: Subject, here: Moments, moving: list[int], next_points: np.ndarray) -> Chooser:
    """Slices along the most important inputs; along a single one with the next points."""
    rows = {"": 0} if len(about.inputs) == 1 else model_data.choose_anchors(about, here)
    outputs = about.outputs[:MOST_OUTPUTS]
    room = max(2, MOST_BLOCKS // (len(rows) * len(outputs)))
    inputs = {about.inputs[column]: column for column in moving[:room]}
    every = model_data.compute_slices(about, list(inputs.values()), list(rows.values()))
    blocks = {
        (name, where, output): _show_slice(about, every[column, row], name, i, next_points)
        for name, column in inputs.items()
        for where, row in rows.items()
        for i, output in enumerate(outputs)
    }
    selects = {"input": list(inputs), "other inputs at": list(rows), "output": outputs}
    return Chooser("slices", selects, blocks)


def _show_slice(
    about: Subject, along: Slice, name: str, i: int, next_points: np.ndarray
) -> list[Picture]:
    """Predictions along one input; with measurements and next points if there is no other."""
    grid, output, alone = along.grid, about.outputs[i], len(about.inputs) == 1
    x, y = about.data.x[:, along.column], about.data.y[:, i]
    labels: Any = {"xlabel": shorten_label(name), "xlim": (grid[0], grid[-1]), "rug": x}
    labels |= {"xticks": grid} if len(grid) <= 6 else {}
    data = (x, y) if alone else None
    bands = figures.plot_quantile_bands, grid, along.quantiles[:, i], data
    predicted = f"Prediction of {output} along {name} with bands of 50 % and 90 %."
    ticks = f"Ticks on the axis: measured values of {name}; beyond them, the model extrapolates."
    most = format_number(along.most_epistemic[i])
    split = f"Entropy of {output} along {name}, split in two; most epistemic at {most}."
    best = f"Along this line the epistemic part is largest at {name} = {most}."
    marked = next_points[:, along.column] if alone else None
    entropies = figures.plot_entropies, grid, pick(along.entropies, i), None, marked
    return [
        make_picture(predicted, ticks, *bands, wide=alone, ylabel=shorten_label(output), **labels),
        make_picture(split, best, *entropies, wide=alone, **labels),
    ]


def _list_suggestions(about: Subject, x: np.ndarray, best: Suggestion) -> Rows:
    """Where to measure next within the measured ranges, as ``twofold suggest`` proposes it."""
    cells = decode(about.columns, x)
    headings = [*cells, "expected information (nats)"]
    for name in about.outputs[:MOST_OUTPUTS]:
        headings += [f"{name}, predicted", "epistemic sd", "aleatoric sd"]
    deviations = best.deviations["epistemic"], best.deviations["aleatoric"]
    every = np.stack([best.mean, *deviations], axis=2)[:, :MOST_OUTPUTS]
    values = np.hstack([best.nats[:, None], every.reshape(len(every), -1)])
    rows = zip(*cells.values(), values, strict=True)
    return headings, [
        [one if isinstance(one, str) else format_number(one) for one in [*inputs, *numbers]]
        for *inputs, numbers in rows
    ]


def _list_columns(about: Subject) -> list[list[str]]:
    """Name, kind, range, number of distinct values and histogram of each column."""
    kinds = ["input"] * len(about.inputs) + ["output"] * len(about.outputs)
    values = [*about.data.x.T, *about.data.y.T]
    return [
        [
            name, kind, *map(format_number, [*np.quantile(v, [0.0, 0.5, 1.0]), len(np.unique(v))]),
            pages.draw_bars(figures.count_values(v), f"Histogram of {name}"),
        ]
        for name, kind, v in zip(about.inputs + about.outputs, kinds, values, strict=True)
    ]  # fmt: skip
