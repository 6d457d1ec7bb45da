"""Plots as functions that draw on matplotlib axes."""

import numpy as np
from matplotlib.axes import Axes

from twofold.report import style
from twofold.uncertainty.decomposition import Decomposition


def predictive_bands(
    axes: Axes,
    grid: np.ndarray,
    mean: np.ndarray,
    variances: Decomposition,
    data: tuple[np.ndarray, np.ndarray],
) -> Axes:
    """Data, predictive mean, and two-deviation bands: aleatoric inside, total outside."""
    inner = 2.0 * np.sqrt(variances.aleatoric)
    outer = 2.0 * np.sqrt(variances.total)
    axes.fill_between(
        grid, mean - outer, mean + outer, color=style.EPISTEMIC, alpha=0.35, linewidth=0,
        label="± 2σ total (blue rim: epistemic)",
    )  # fmt: skip
    axes.fill_between(
        grid, mean - inner, mean + inner, color=style.ALEATORIC, alpha=0.6, linewidth=0,
        label="± 2σ aleatoric (noise)",
    )  # fmt: skip
    axes.scatter(*data, s=5, color=style.POINTS, alpha=0.6, linewidths=0, label="measurements")
    axes.plot(grid, mean, color=style.TOTAL, linewidth=1.2, label="predictive mean")
    axes.set(xlabel="x", ylabel="y", title="What the model predicts")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.3 * (high - low))
    axes.legend(loc="upper center", ncols=2)
    return axes


def entropy_curves(
    axes: Axes, grid: np.ndarray, entropies: Decomposition, truth: np.ndarray | None = None
) -> Axes:
    """Total and aleatoric entropy over x; the gap between them is the epistemic part."""
    axes.plot(grid, entropies.total, color=style.TOTAL, label="total H[y|x]")
    axes.plot(grid, entropies.aleatoric, color=style.ALEATORIC, label="aleatoric E[H[y|x,W]]")
    axes.fill_between(
        grid, entropies.aleatoric, entropies.total, color=style.EPISTEMIC, alpha=0.35, linewidth=0
    )
    if truth is not None:
        axes.plot(grid, truth, color=style.TRUTH, linestyle="--", label="true noise entropy")
    low, high = entropies.aleatoric.min(), entropies.total.max()
    axes.set_ylim(low - 0.6 * (high - low), high + 0.15 * (high - low))
    axes.set(xlabel="x", ylabel="entropy (nats)", title="The split (blue: epistemic)")
    axes.legend(loc="lower center", ncols=2)
    return axes


def epistemic_and_choices(
    axes: Axes,
    grid: np.ndarray,
    epistemic: np.ndarray,
    inputs: np.ndarray,
    choices: tuple[np.ndarray, np.ndarray],
) -> Axes:
    """Epistemic entropy over x, the density of the data beneath it, and the points to measure."""
    axes.plot(grid, epistemic, color=style.EPISTEMIC, label="epistemic I(y; W)")
    axes.plot(*choices, "v", color=style.CHOSEN, markersize=8, label="measure here next")
    axes.set(xlabel="x", ylabel="nats", title="Where to measure next")
    axes.set_ylim(0, 1.25 * max(epistemic.max(), 1e-3))
    counts = axes.twinx()
    counts.hist(inputs, bins=40, range=(grid[0], grid[-1]), color=style.DATA, alpha=0.35)
    counts.set_ylabel("measurements per bin")
    counts.spines["right"].set_visible(True)
    axes.set_zorder(counts.get_zorder() + 1)
    axes.patch.set_visible(False)
    axes.legend(loc="upper center", ncols=2)
    return axes
