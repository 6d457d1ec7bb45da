"""The six panels of the paper's Figures 1 and 2, for any split over one input."""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from twofold.report import style
from twofold.uncertainty.decomposition import Decomposition


class Toy(NamedTuple):
    """A one-dimensional data set, a split over a grid, draws of y there, and the truth."""

    data: tuple[np.ndarray, np.ndarray]
    grid: np.ndarray
    split: Decomposition
    samples: np.ndarray
    true_entropy: np.ndarray


def six_panels(toy: Toy, title: str) -> Figure:
    """Data, density of x, predictive draws; total, aleatoric and epistemic entropy."""
    figure = Figure(figsize=(11, 6.2), layout="constrained")
    axes = figure.subplots(2, 3, sharex=True)
    figure.suptitle(title)
    data(axes[0, 0], toy)
    density(axes[0, 1], toy)
    predictive(axes[0, 2], toy)
    curve(axes[1, 0], toy, "total", "(d) total  H[y|x]", style.TOTAL)
    curve(axes[1, 1], toy, "aleatoric", "(e) aleatoric  E[H[y|x,W]]", style.ALEATORIC)
    add_truth(axes[1, 1], toy)
    curve(axes[1, 2], toy, "epistemic", "(f) epistemic  I(y; W)", style.EPISTEMIC)
    axes[1, 2].set_ylim(bottom=min(0.0, float(np.nanmin(toy.split.epistemic))))
    low = min(axes[0, 0].get_ylim()[0], axes[0, 2].get_ylim()[0])
    high = max(axes[0, 0].get_ylim()[1], axes[0, 2].get_ylim()[1])
    for panel in (axes[0, 0], axes[0, 2]):
        panel.set_ylim(low, high)
    for panel in axes[1]:
        panel.set_xlabel("x")
    axes[0, 0].set_xlim(toy.grid[0], toy.grid[-1])
    return figure


def add_truth(axes: Axes, toy: Toy) -> Axes:
    """The true entropy, as far as it stays near the fitted one: noise can vanish, entropy then
    falls without bound."""
    axes.plot(toy.grid, toy.true_entropy, "--", color=style.TRUTH, label="true process")
    low = np.nanmin(toy.split.aleatoric) - 1.0
    axes.set_ylim(bottom=max(low, axes.get_ylim()[0]))
    axes.legend()
    return axes


def data(axes: Axes, toy: Toy) -> Axes:
    """The measurements."""
    axes.scatter(*toy.data, s=5, color=style.POINTS, alpha=0.6, linewidths=0, rasterized=True)
    axes.set(ylabel="y", title=f"(a) {len(toy.data[0])} measurements")
    return axes


def density(axes: Axes, toy: Toy) -> Axes:
    """How often each input was measured."""
    bounds = toy.grid[0], toy.grid[-1]
    axes.hist(toy.data[0], bins=40, range=bounds, density=True, color=style.DATA)
    axes.set(ylabel="density", title="(b) density of x in the data")
    return axes


def predictive(axes: Axes, toy: Toy) -> Axes:
    """Draws of y over the grid."""
    x = np.broadcast_to(toy.grid, toy.samples.shape)
    axes.scatter(x, toy.samples, s=3, color=style.CHOSEN, alpha=0.35, linewidths=0, rasterized=True)
    axes.set(ylabel="y", title="(c) draws from p(y|x)")
    return axes


def curve(axes: Axes, toy: Toy, part: str, title: str, color: str) -> Axes:
    """One part over x, with two Monte Carlo errors to each side."""
    values = getattr(toy.split, part)
    error = 2.0 * getattr(toy.split.standard_errors, part)
    axes.fill_between(toy.grid, values - error, values + error, color=color, alpha=0.2, linewidth=0)
    axes.plot(toy.grid, values, color=color)
    axes.set(ylabel="nats", title=title)
    return axes
