"""Figures for papers: each function draws on the given ``axes``, or on a new figure, and returns
the axes (``axes.figure.savefig("split.pdf")``). No global setting changes and no window opens.
Fitted models have the same functions as methods: ``model.plot_split(X)``."""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from twofold.estimators.comparison import draw_measurements, pick_rows
from twofold.plant.project import Project
from twofold.plant.recommendation import find_best
from twofold.report import calibration, figures, model_data, policy_figures
from twofold.report.figures import PANEL, plot_rug, shorten_label, style
from twofold.uncertainty import metrics
from twofold.uncertainty.decomposition import Parts

Feature = int | str


def plot_prediction(
    model: Any, X: Any, y: Any = None, *, feature: Feature = 0, output: int = 0,
    axes: Axes | None = None,
) -> Axes:  # fmt: skip
    """Median and 50 % and 90 % bands along one feature, with the others at their medians over the
    rows of X; with the measurements ``y`` if there is no other feature."""
    grid, places, column, name = _make_line(X, feature)
    quantiles = model_data.compute_quantiles(model, places)[:, output]
    measured = None if y is None else np.asarray(y, float).reshape(len(column), -1)[:, output]
    if measured is not None and places.shape[1] > 1:
        raise ValueError(
            f"y can be shown along a feature only if it is the only one, got {places.shape[1]} "
            "features; leave out y, or use plot_measured"
        )
    data = None if measured is None else (column, measured)
    return _draw(axes, name, column, figures.plot_quantile_bands, grid, quantiles, data)


def plot_split(
    model: Any, X: Any, *, feature: Feature = 0, output: int = 0, axes: Axes | None = None
) -> Axes:
    """Total and aleatoric entropy along one feature, with the others at their medians over the rows
    of X; the gap between them is the epistemic part."""
    grid, places, column, name = _make_line(X, feature)
    split = model.decompose(places).parts
    parts = Parts(*(part.reshape(len(grid), -1)[:, output] for part in split))
    return _draw(axes, name, column, figures.plot_entropies, grid, parts)


def plot_measured(model: Any, X: Any, y: Any, *, output: int = 0, axes: Axes | None = None) -> Axes:
    """Medians and 50 % and 90 % intervals against measured values, for at most 60 rows; pass rows
    that the model was not fitted to."""
    y = np.asarray(y, float).reshape(len(np.asarray(X)), -1)[:, output]
    rows = figures.spread_evenly(len(y), figures.MOST_INTERVALS)
    quantiles = model_data.compute_quantiles(model, _take(X, rows))[:, output]
    return _draw(axes, "", None, figures.plot_predicted, y[rows], quantiles)


def plot_calibration(
    model: Any, X: Any, y: Any, *, output: int = 0, axes: Axes | None = None
) -> Axes:
    """Observed against nominal coverage of central intervals; pass rows not used in the fit."""
    y = np.asarray(y, float).reshape(len(np.asarray(X)), -1)
    rows = pick_rows(len(y))
    x, y = _take(X, rows), y[rows]
    samples = draw_measurements(model, x, np.zeros_like(y))
    pit, crps = (score(samples, y)[:, output] for score in (metrics.pit, metrics.crps))
    densities = model.log_likelihood(x, y if model.y_ndim_ > 1 else y[:, 0])
    scores = calibration.Scores(pit, crps, densities)
    return _draw(axes, "", None, calibration.plot_coverage, {"model": scores})


def plot_frontier(project: Project, *, axes: Axes | None = None) -> Axes:
    """Expected cost against epistemic risk of a search's policies, and the logged cost."""
    best = project.trials[find_best(project.trials)]
    plot, arguments = policy_figures.plot_frontier, (project.trials, best, project.logged_cost)
    return _draw(axes, "", None, plot, *arguments)


def _draw(
    axes: Axes | None, name: str, column: np.ndarray | None, plot: Callable[..., Any], *given: Any
) -> Axes:
    """A plot in the house style, with a rug of the values of a column."""
    with style():
        if axes is None:
            axes = Figure(figsize=PANEL, layout="constrained").subplots()
        plot(axes, *given)
        if column is not None:
            axes.set(xlabel=shorten_label(name))
            plot_rug(axes, column)
    return axes


def _make_line(X: Any, feature: Feature) -> tuple[np.ndarray, Any, np.ndarray, str]:
    """A grid over a feature, rows along it, the values of the feature, and its name."""
    names = [str(name) for name in getattr(X, "columns", range(np.shape(X)[1]))]
    if str(feature) not in names and not isinstance(feature, int):
        raise ValueError(f"feature must be one of {', '.join(names)}, got {feature!r}")
    at = feature if isinstance(feature, int) else names.index(feature)
    x = np.asarray(X, float)
    grid = model_data.make_grid(x[:, at])
    places = np.repeat(np.median(x, axis=0, keepdims=True), len(grid), axis=0)
    places[:, at] = grid
    named = hasattr(X, "columns")
    line = type(X)(places, columns=X.columns) if named else places
    return grid, line, x[:, at], names[at] if named else f"feature {at}"


def _take(X: Any, rows: np.ndarray) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else np.asarray(X, float)[rows]
