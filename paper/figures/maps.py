"""The four panels of the paper's Figure 3: data and the split over a plane."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from twofold.report import style
from twofold.uncertainty.decomposition import Decomposition


def four_maps(states: np.ndarray, centres: np.ndarray, split: Decomposition) -> Figure:
    """Visited states, then total, aleatoric and epistemic entropy of the next state."""
    figure = Figure(figsize=(13, 3.6), layout="constrained")
    axes = figure.subplots(1, 4, sharex=True, sharey=True)
    axes[0].scatter(*states.T, s=2, color=style.POINTS, alpha=0.4, linewidths=0, rasterized=True)
    axes[0].set_title(f"(a) {len(states):,} visited states")
    panel(figure, axes[1], centres, split.total, "(b) total  H[s'|s]")
    panel(figure, axes[2], centres, split.aleatoric, "(c) aleatoric  E[H[s'|s,W]]")
    panel(figure, axes[3], centres, split.epistemic, "(d) epistemic  I(s'; W)")
    for one in axes:
        one.set(xlabel="x (across the river)", aspect="equal")
    axes[0].set_ylabel("y (waterfall at the top)")
    return figure


def panel(figure: Figure, axes: Axes, centres: np.ndarray, values: np.ndarray, title: str) -> Axes:
    """One map with its own colours."""
    size = len(centres)
    shown = axes.pcolormesh(
        centres, centres, values.reshape(size, size), cmap="cividis", shading="nearest",
        rasterized=True,
    )  # fmt: skip
    figure.colorbar(shown, ax=axes, label="nats", shrink=0.85)
    axes.set_title(title)
    return axes
