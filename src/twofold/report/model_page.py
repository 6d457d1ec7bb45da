"""The page of a fitted model: its data, what it predicts, what it does not know, and how right."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from twofold.estimators.linear import cross_validate_linear
from twofold.estimators.storage import find_worries
from twofold.inference.method import resolve_method
from twofold.report import calibration, figures, model_data
from twofold.report.calibration import Accuracy, Scores
from twofold.report.figures import DATA, TOTAL, shorten_label
from twofold.report.model_data import (
    MOST_ROWS,
    Moments,
    Slice,
    Subject,
    compute_moments,
    compute_widths,
    pick,
)
from twofold.report.page import Chooser, Picture, Rows, format_number, make_picture, write_page
from twofold.uncertainty.decomposition import Parts

METHODS = {
    "langevin": "microcanonical Langevin chains",
    "ensemble": "ensemble",
    "alpha": "mean field (α-divergence)",
    "nuts": "Markov chains (NUTS)",
    "hmc": "Markov chains (HMC)",
}
MOST_INPUTS, MOST_OUTPUTS, MOST_BLOCKS, MOST_BARS = 8, 8, 36, 12
LEAST_KNOWN = 10
GAUSSIAN = "Nothing in the held-out rows says that the noise is not Gaussian, given the inputs."
NOT_GAUSSIAN = (
    "The noise is not Gaussian given the inputs: a latent input improved held-out predictions."
)
SCORES = [
    "output", f"inside the {calibration.INTERVAL:.0%} interval", "coverage error (points)",
    "by chance alone", "CRPS (units of the output)",
]  # fmt: skip


def write_model_page(
    path: str | Path, model: Any, X: Any, y: Any, *, inputs: Sequence[str], outputs: Sequence[str],
    held_out: tuple[Any, Any] | None = None, title: str = "A fitted model",
    rows: Sequence[str] | None = None,
) -> Path:  # fmt: skip
    """Write the page of a fitted model, one HTML file that needs nothing else.

    Parameters
    ----------
    path : the file to write
    model : fitted BNNLVRegressor
    X, y : the rows it was fitted to, ``[N, D]`` and ``[N]`` or ``[N, O]``
    inputs, outputs : names of the columns
    held_out : X and y of rows it was not fitted to, by which it is judged
    title : of the page
    rows : what the rows of X are called in the user's table, such as ``line 17``
    """
    check_is_fitted(model)
    about = model_data.make_subject(model, X, y, inputs, outputs, held_out, rows)
    return write_page(path, "model.html", title, about=about, **_collect(about))


def find_doubts(model: Any) -> str | None:
    """Why a fitted model is not to be trusted yet, if there is a reason."""
    report = model.convergence_
    advice = find_worries(model)
    if report is None or report.epochs == report.planned_epochs:
        return advice
    short = f"the fit was stopped after {report.epochs} of {report.planned_epochs} epochs"
    return "; ".join(filter(None, [short, advice]))


def describe_out_of_bag(about: Subject) -> str | None:
    """How well networks predict rows that they were not trained on, beside a linear model."""
    found = about.model.out_of_bag_
    if found is None:
        return None
    linear = cross_validate_linear(about.data.x, about.data.y)
    beside = "" if linear is None else f"; a linear model scores {linear:.3f} (cross-validation)"
    return (
        "Predicted by networks that were not trained on them, the rows have a log-likelihood of "
        f"{found.score:.3f} ± {found.standard_error:.3f} nats each{beside}."
    )


def describe_noise(about: Subject) -> list[str]:
    """Whether the noise is Gaussian, where the fit has chosen, and where it is kept from zero."""
    model, said = about.model, []
    if model.latent_dim == "auto" and resolve_method(model.inference).staged:
        said.append(NOT_GAUSSIAN if model.model_.latents else GAUSSIAN)
    floors = np.array(model.model_.noise_floor or [np.nan] * len(about.outputs))
    floors = floors * model.y_standardizer_.scale
    for name, step, floor in zip(about.outputs, about.steps, floors, strict=True):
        if np.isfinite(step) and np.isfinite(floor):
            said.append(
                f"{name} is rounded to steps of {format_number(step)}; its noise is never taken to "
                f"be smaller than {format_number(floor)}."
            )
    return said


def _collect(about: Subject) -> dict[str, Any]:
    """What the template shows; every split and score is computed once."""
    moments = compute_moments(about.model, about.data.x)
    here = test = compute_widths(about.model, about.data.x, moments)
    if about.held_out is not None:
        of_test = compute_moments(about.model, about.test.x)
        test = compute_widths(about.model, about.test.x, of_test)
    densities = calibration.compute_log_densities(about)
    accuracies = calibration.compare_models(about, test, densities)
    scores = calibration.compute_scores(about, densities)
    effects = model_data.compute_effects(about, moments)
    order = model_data.rank_inputs(effects)
    moving = [int(column) for column in order if np.ptp(about.data.x[:, column]) > 0]
    headings = ["", "log-likelihood (nats per row)", *(f"RMSE of {name}" for name in about.outputs)]
    return {
        "doubts": find_doubts(about.model),
        "out_of_bag": describe_out_of_bag(about),
        "noise": describe_noise(about),
        "key_figures": _list_key_figures(about, here, accuracies["this model"]),
        "accuracies": (headings, [[name, *one.cells] for name, one in accuracies.items()]),
        "slices": _slice(about, here, moving) if moving else None,
        "moving": len(moving),
        "drives": _by_output("drives", about, _show_effects, effects, order[:MOST_BARS]),
        "largest_effect": max(part.max() for part in effects),
        "least_known": _list_least_known(about, here, order),
        "predicted_pictures": _by_output("predicted", about, _show_predicted, test),
        "calibration": _by_output("calibration", about, _show_calibration, scores),
        "scores": (SCORES, [[name, *one.cells] for name, one in scores.items()]),
        "columns": _list_columns(about),
        "histograms": _show_histograms(about, order),
        "most_bars": MOST_BARS,
        "most_rows": MOST_ROWS,
    }


def _by_output(name: str, about: Subject, show: Callable[..., Any], *arguments: Any) -> Chooser:
    """``show(about, number, name, *arguments)`` of each output."""
    every = enumerate(about.outputs)
    blocks = {(output,): show(about, i, output, *arguments) for i, output in every}
    return Chooser(name, {"output": about.outputs}, blocks)


def _list_key_figures(about: Subject, here: Moments, own: Accuracy) -> dict[str, str]:
    noise = np.sqrt(here.variances.aleatoric.mean(axis=0))
    share = (here.variances.epistemic / here.variances.total).mean(axis=0)
    kind = "held-out" if about.held_out else "fitted"
    numbers = {
        "rows fitted to": f"{about.rows:,}",
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
) -> tuple[Picture, list[list[str]]]:
    """Total effects of the inputs that drive most, drawn and in percent."""
    names, parts = [about.inputs[column] for column in bars], pick(effects, i, bars)
    words, size = f"Total effects of the inputs on {output}.", (4.6, 1.4 + 0.38 * len(names))
    rows = zip(names, *parts, strict=True)
    cells = [[name, *(f"{100 * part:.0f} %" for part in own)] for name, *own in rows]
    return make_picture(words, "", figures.plot_effects, names, parts, size=size), cells


def _show_predicted(about: Subject, i: int, output: str, test: Moments) -> list[Picture]:
    """Predicted and measured values, at the rows that scores are computed from."""
    panel = figures.plot_predicted, about.test.y[:, i], test.mean[:, i], pick(test.variances, i)
    words = f"Predicted against measured {output} with intervals of two deviations."
    rows = "held-out rows" if about.held_out else "rows it was fitted to"
    caption = f"On {rows}, at most {figures.MOST_INTERVALS} of them. "
    caption += "About 19 of 20 bars should reach the line."
    return [make_picture(words, caption, *panel, xlabel=shorten_label(f"{output}, measured"))]


def _show_calibration(
    about: Subject, i: int, output: str, scores: dict[str, Scores]
) -> list[Picture]:
    own = {output: scores[output]}
    bins = int(np.clip(scores[output].pit.size // 10, 4, 20))
    covered = f"Share of measurements of {output} inside intervals of each nominal coverage."
    held = "Inside the grey band, the intervals hold as many measurements as they should."
    places = f"Where measurements of {output} fall within their predictive distributions."
    chance = "Bars inside the grey band are what a right model would show by chance."
    return [
        make_picture(covered, held, calibration.plot_coverage, own),
        make_picture(places, chance, calibration.plot_pit, own, bins),
    ]


def _slice(about: Subject, here: Moments, moving: list[int]) -> Chooser:
    """Lines along the inputs that drive most, through a few rows, for each output."""
    rows = {"": 0} if len(about.inputs) == 1 else model_data.choose_anchors(about, here)
    outputs = about.outputs[:MOST_OUTPUTS]
    room = max(2, MOST_BLOCKS // (len(rows) * len(outputs)))
    inputs = {about.inputs[column]: column for column in moving[: min(MOST_INPUTS, room)]}
    every = model_data.compute_slices(about, list(inputs.values()), list(rows.values()))
    blocks = {
        (name, where, output): _show_slice(about, every[column, row], name, i)
        for name, column in inputs.items()
        for where, row in rows.items()
        for i, output in enumerate(outputs)
    }
    selects = {"input": list(inputs), "other inputs at": list(rows), "output": outputs}
    return Chooser("slices", selects, blocks)


def _show_slice(about: Subject, along: Slice, name: str, i: int) -> list[Picture]:
    """What is predicted of one output along one input; with the measurements where there is no
    other input."""
    grid, (mean, variances), output = along.grid, along.moments, about.outputs[i]
    x, y = about.data.x[:, along.column], about.data.y[:, i]
    labels: Any = {"xlabel": shorten_label(name), "xlim": (grid[0], grid[-1]), "rug": x}
    labels |= {"xticks": grid} if len(grid) <= 6 else {}
    data = (x, y) if len(about.inputs) == 1 else None
    bands = figures.plot_predictive_bands, grid, mean[:, i], pick(variances, i), data
    predicted = f"Prediction of {output} along {name} with bands of two deviations."
    ticks = f"Ticks at the foot: where {name} was measured; beyond, the model extrapolates."
    most = format_number(along.most_epistemic[i])
    split = f"Entropy of {output} along {name}, split in two; most epistemic at {most}."
    best = f"Along this line a measurement at {name} = {most} would teach most."
    entropies = figures.plot_entropies, grid, pick(along.entropies, i)
    return [
        make_picture(predicted, ticks, *bands, ylabel=shorten_label(output), **labels),
        make_picture(split, best, *entropies, **labels),
    ]


def _list_least_known(about: Subject, here: Moments, order: np.ndarray) -> Rows:
    """The rows of the data where the epistemic part is widest."""
    data, columns = about.data, order[:MOST_INPUTS]
    share = (here.variances.epistemic / np.var(data.y, axis=0).clip(1e-300)).mean(axis=1)
    headings = ["", *(about.inputs[c] for c in columns)]
    for name in about.outputs[:MOST_OUTPUTS]:
        headings += [f"{name}, measured", "predicted", "epistemic σ", "aleatoric σ"]
    every = np.stack([data.y, here.mean, *here.deviations()[1:]], axis=2)[:, :MOST_OUTPUTS]
    values = np.hstack([data.x[:, columns], every.reshape(len(every), -1)])
    rows = np.argsort(-share, kind="stable")[:LEAST_KNOWN]
    return headings, [[data.names[row], *map(format_number, values[row])] for row in rows]


def _list_columns(about: Subject) -> list[list[str]]:
    """Name, kind, range and number of different values of each column."""
    kinds = ["input"] * len(about.inputs) + ["output"] * len(about.outputs)
    values = [*about.data.x.T, *about.data.y.T]
    return [
        [name, kind, *map(format_number, [*np.quantile(v, [0.0, 0.5, 1.0]), len(np.unique(v))])]
        for name, kind, v in zip(about.inputs + about.outputs, kinds, values, strict=True)
    ]


def _show_histograms(about: Subject, order: np.ndarray) -> list[Picture]:
    """Of the outputs, then of the inputs that drive most."""
    x, y = about.data.x, about.data.y
    columns = [(y[:, i], name, TOTAL) for i, name in enumerate(about.outputs[:MOST_OUTPUTS])]
    columns += [(x[:, c], about.inputs[c], DATA) for c in sorted(order[:MOST_INPUTS])]
    look: Any = {"size": (3.4, 2.2)}
    return [
        make_picture(f"Histogram of {column[1]}.", "", figures.plot_histogram, *column, **look)
        for column in columns
    ]
