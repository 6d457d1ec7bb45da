"""Figures of a folder of policies: the frontier, risks over the horizon, distance from the data."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from twofold.report import style

Weights = tuple[float, float]
LINES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


class Point(NamedTuple):
    """A policy on the frontier; ``beyond`` says that it is mostly beyond the data."""

    beta: float
    gamma: float
    cost: float
    risk: float
    beyond: bool


def frontier_figure(points: Sequence[Point], chosen: Weights, logged_cost: float) -> Figure:
    """Expected cost against epistemic risk: a curve for each γ, β written at its points."""
    figure = Figure(figsize=(7.5, 4.8), layout="constrained")
    axes = figure.subplots()
    for index, gamma in enumerate(sorted({point.gamma for point in points})):
        curve = sorted(point for point in points if point.gamma == gamma)
        colour, marker = _colour(index), MARKERS[index % len(MARKERS)]
        at = [one.risk for one in curve], [one.cost for one in curve]
        axes.plot(*at, color=colour, marker=marker, linewidth=1.4, label=f"γ = {gamma:g}")
        for number, one in enumerate(curve):
            if one.beyond:
                axes.plot(one.risk, one.cost, color=colour, marker=marker, markerfacecolor="white")
            axes.annotate(
                f"β = {one.beta:g}", (one.risk, one.cost), (6, 7 if number % 2 else -14),
                textcoords="offset points", fontsize=8,
            )  # fmt: skip
    own = next(one for one in points if one[:2] == chosen)
    axes.scatter(
        own.risk, own.cost, s=170, facecolors="none", edgecolors=style.CHOSEN, linewidths=1.8,
        zorder=3, label="recommended",
    )  # fmt: skip
    if any(one.beyond for one in points):
        hollow: dict[str, Any] = {"marker": "o", "markerfacecolor": "white", "color": style.DATA}
        axes.plot([], [], linestyle="none", label="hollow: mostly beyond the data", **hollow)
    axes.set(xlabel="epistemic risk (deviation of the cost per step)")
    axes.set(ylabel="expected cost per step")
    axes.set(title=f"What the model expects, and how sure it is (logged steps: {logged_cost:.4g})")
    axes.margins(x=0.12, y=0.15)
    axes.legend()
    return figure


def risks_figure(
    panels: Mapping[Weights, tuple[np.ndarray, np.ndarray, np.ndarray]],
    chosen: Weights,
    logged_cost: float,
) -> Figure:
    """For each policy the expected cost and both deviations over the horizon."""
    figure = Figure(figsize=(4.3 * len(panels), 4.2), layout="constrained")
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (weights, (expected, epistemic, aleatoric)) in zip(row, panels.items(), strict=True):
        bands(axes, expected, epistemic, aleatoric)
        axes.axhline(logged_cost, color=style.DATA, linestyle="--", label="logged, held out")
        mark = ", recommended" if weights == chosen else ""
        axes.set(title=named(weights) + mark, xlabel="step")
    row[0].set(ylabel="cost")
    figure.legend(*row[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def bands(axes: Axes, expected: np.ndarray, epistemic: np.ndarray, aleatoric: np.ndarray) -> None:
    """Two deviations of noise around the expected cost, and beside them two of ignorance."""
    steps = np.arange(1, len(expected) + 1)
    inner, outer = 2.0 * aleatoric, 2.0 * np.hypot(epistemic, aleatoric)
    label: str | None = "to ± 2σ total: epistemic"
    for one, other in ((-outer, -inner), (inner, outer)):
        axes.fill_between(
            steps, expected + one, expected + other, color=style.EPISTEMIC, alpha=0.45,
            linewidth=0, label=label,
        )  # fmt: skip
        label = None
    axes.fill_between(
        steps, expected - inner, expected + inner, color=style.ALEATORIC, alpha=0.45, linewidth=0,
        label="± 2σ aleatoric",
    )  # fmt: skip
    axes.plot(steps, expected, color=style.TOTAL, linewidth=1.4, label="expected cost")


def reach_figure(
    curves: Mapping[Weights, tuple[np.ndarray, np.ndarray]], usual: float, far: float
) -> Figure:
    """Distances from the data over the horizon, and the share of states beyond them."""
    figure = Figure(figsize=(11.0, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    gammas = sorted({gamma for _, gamma in curves})
    betas = sorted({beta for beta, _ in curves})
    for (beta, gamma), (apart, beyond) in curves.items():
        steps = np.arange(1, len(apart) + 1)
        look: dict[str, Any] = {
            "color": _colour(betas.index(beta)),
            "linestyle": LINES[gammas.index(gamma) % len(LINES)],
            "label": named((beta, gamma)),
        }
        left.plot(steps, apart, **look)
        right.plot(steps, 100.0 * beyond, **look)
    for height, name in ((usual, "median"), (far, "99 %")):
        left.axhline(height, color=style.DATA, linestyle=":", linewidth=1.0)
        left.annotate(
            f"held out: {name}", (1.0, height), (0, 2), xycoords=("axes fraction", "data"),
            textcoords="offset points", ha="right", fontsize=8, color=style.POINTS,
        )  # fmt: skip
    right.axhline(1.0, color=style.DATA, linestyle=":", linewidth=1.0)
    left.set(title="Distance to the nearest logged state (median)", xlabel="step", ylim=(0, None))
    left.set(ylabel="deviations of what the policy sees")
    right.set(title="Visited states beyond the data", xlabel="step", ylim=(0, None))
    right.set(ylabel="share beyond 99 % of held-out states (%)")
    right.legend(ncols=1 + (len(curves) > 6))
    return figure


def named(weights: Weights) -> str:
    """A policy by its weights."""
    return f"β = {weights[0]:g}, γ = {weights[1]:g}"


def _colour(index: int) -> str:
    return style.PALETTE[index % len(style.PALETTE)]
