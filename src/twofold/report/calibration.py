"""Scores of a predictive distribution beside baseline models, and its calibration."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from twofold.estimators.comparison import draw_measurements, pick_rows
from twofold.estimators.linear import LinearGaussian
from twofold.report import figures
from twofold.report.figures import fill_band, style
from twofold.report.model_data import Subject
from twofold.report.page import format_number
from twofold.uncertainty import metrics

COLOURS = (figures.EPISTEMIC, figures.CHOSEN, figures.TRUTH, figures.ALEATORIC, figures.TOTAL)
LINE_STYLES = ("-", "--", "-.", ":")
# Twenty combinations of colour and line style, distinguishable in print too.
LOOKS: list[Any] = [
    {"color": COLOURS[i % 5], "linestyle": LINE_STYLES[i % 4], "linewidth": 1.5} for i in range(20)
]
GRID = np.linspace(0.0, 1.0, 101)
INTERVAL = 0.9


class Accuracy(NamedTuple):
    """RMSE of each output ``[O]``, and the joint log-likelihood per row (nats)."""

    rmse: np.ndarray
    log_likelihood: float

    @property
    def cells(self) -> list[str]:
        return [f"{self.log_likelihood:.3f}".replace("nan", "—"), *map(format_number, self.rmse)]


class Scores(NamedTuple):
    """Scores of one output at N test points; ``unit`` is the unit of y, and so of its CRPS."""

    pit: np.ndarray
    crps: np.ndarray
    log_density: np.ndarray
    unit: str = ""

    @property
    def covered(self) -> float:
        """Share of points inside their 90 % interval."""
        return float(metrics.coverage(self.pit, np.array([INTERVAL]))[0])

    @property
    def calibration_errors(self) -> tuple[float, float]:
        """Mean coverage error, and the one expected by chance from a perfectly calibrated model."""
        chance = metrics.chance_calibration_error(self.pit.size)
        return float(metrics.calibration_error(self.pit)), float(chance)

    @property
    def summary(self) -> str:
        error, chance = (100 * error for error in self.calibration_errors)
        return (
            f"CRPS {np.mean(self.crps):.3g}{self.unit and ' ' + self.unit} · "
            f"log-likelihood {np.mean(self.log_density):.2f} nats · "
            f"coverage error {error:.1f} percentage points ({chance:.1f} by chance)"
        )

    @property
    def cells(self) -> list[str]:
        """Coverage, its error, the error expected by chance, and the CRPS, as text."""
        errors = (f"{100 * error:.1f}" for error in self.calibration_errors)
        return [f"{100 * self.covered:.1f} %", *errors, format_number(float(self.crps.mean()))]


def compute_log_densities(about: Subject) -> np.ndarray:
    """``log p(y | x)`` at each test row."""
    y = about.test.y[:, 0] if about.model.y_ndim_ == 1 else about.test.y
    return about.model.log_likelihood(about.test.x, y, about.test.error.reshape(y.shape))


def compare_models(about: Subject, mean: np.ndarray, densities: np.ndarray) -> dict[str, Accuracy]:
    """Accuracy of the model, from its means and log densities at test rows, and of baselines."""
    own = Accuracy(np.asarray(metrics.rmse(about.test.y, mean)), float(densities.mean()))
    linear = _score_baseline(about, len(about.inputs))
    return {"this model": own, "linear regression": linear, "constant": _score_baseline(about, 0)}


def compute_scores(about: Subject, densities: np.ndarray) -> dict[str, Scores]:
    """Scores of each output, at a sample of the test rows."""
    rows = pick_rows(len(about.test.x))
    x, y = about.test.x[rows], about.test.y[rows]
    samples = draw_measurements(about.model, x, about.test.error[rows])
    pit, crps = metrics.pit(samples, y), metrics.crps(samples, y)
    parts = zip(about.outputs, pit.T, crps.T, strict=True)
    return {name: Scores(pit, crps, densities[rows]) for name, pit, crps in parts}


def draw_calibration(scores: Mapping[str, Scores], bins: int = 20) -> Figure:
    """Coverage curves and PIT histograms, with the mean scores of each model in the legend.

    Grey bands contain 95 % of the results of a perfectly calibrated model, pointwise for each level
    or bin. All models need the same number of points, and PIT values from far more samples than
    ``bins``.
    """
    sizes = {name: score.pit.size for name, score in scores.items()}
    if not 1 <= len(sizes) <= len(LOOKS):
        raise ValueError(f"expected 1 to {len(LOOKS)} models, got {len(sizes)}; split the figure")
    if len(set(sizes.values())) > 1:
        raise ValueError(
            f"expected the same number of points for every model, got {sizes}; the bands depend on "
            "that number, so draw a figure for each"
        )
    with style():
        figure = Figure(figsize=(9, 4.4 + 0.2 * len(scores)), layout="constrained")
        left, right = figure.subplots(1, 2)
        plot_coverage(left, scores)
        plot_pit(right, scores, bins)
        handles, _ = left.get_legend_handles_labels()
        figure.legend(handles=handles, loc="outside lower center")
    return figure


def plot_coverage(axes: Axes, scores: Mapping[str, Scores]) -> Axes:
    """Observed against nominal coverage of central intervals; below the diagonal: overconfident."""
    low, high = metrics.share_band(GRID, next(iter(scores.values())).pit.size)
    label = "perfect calibration with pointwise 95 % band"
    fill_band(axes, 100 * GRID, 100 * low, 100 * high, figures.DATA, 0.3, label)
    axes.plot([0, 100], [0, 100], color=figures.DATA, linewidth=1)
    for (name, score), look in zip(scores.items(), LOOKS, strict=False):
        covered = 100 * metrics.coverage(score.pit, GRID)
        axes.plot(100 * GRID, covered, label=f"{name}: {score.summary}", **look)
    axes.set(
        xlabel="nominal coverage (%)", ylabel="points inside the interval (%)",
        title="Coverage (below the line: overconfident)", xlim=(0, 100), ylim=(0, 100),
    )  # fmt: skip
    axes.set_aspect("equal")
    return axes


def plot_pit(axes: Axes, scores: Mapping[str, Scores], bins: int = 20) -> Axes:
    """Where measurements fall in their predictive distributions; ideally uniform."""
    points = next(iter(scores.values())).pit.size
    low, high = metrics.share_band(np.array([1.0 / bins]), points)
    axes.axhspan(bins * low[0], bins * high[0], color=figures.DATA, alpha=0.3, linewidth=0)
    axes.axhline(1.0, color=figures.DATA, linewidth=1)
    for score, look in zip(scores.values(), LOOKS, strict=False):
        heights, edges = np.histogram(score.pit, bins, range=(0.0, 1.0), density=True)
        axes.stairs(heights, 100 * edges, baseline=None, **look)
    axes.set(
        xlabel="predictive probability below y (%)", ylabel="points per bin (1 = uniform)",
        title="PIT (U: overconfident, ∩: underconfident)", xlim=(0, 100),
    )  # fmt: skip
    axes.set_ylim(0.0, max(2.0, axes.get_ylim()[1]))
    return axes


def _score_baseline(about: Subject, columns: int) -> Accuracy:
    """A linear model of the first columns; without enough rows its noise is unknown."""
    x, y, test = about.data.x[:, :columns], about.data.y, about.test
    linear = LinearGaussian.fit(x, y)
    mean = linear.predict(test.x[:, :columns])
    known = len(x) > columns + 1
    nats = linear.log_likelihood(test.x[:, :columns], test.y).mean() if known else np.nan
    return Accuracy(np.asarray(metrics.rmse(test.y, mean)), float(nats))
