"""Figures of a folder of policies: the frontier, risks over the horizon, states and the data."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from twofold.plant.summary import MOST_BEYOND, recommended
from twofold.plant.trial import Trial
from twofold.report import style

Weights = tuple[float, float]
LINES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# In inches, around the axes of a panel: a layout that measures all text takes longer than drawing.
LEFT, RIGHT, BOTTOM = 0.75, 0.1, 0.5
# How much wider a scale for all policies may be than that of one, to be used for it too.
WIDEST = 4.0


class Point(NamedTuple):
    """A policy on the frontier; ``beyond`` says that it is mostly beyond the data."""

    beta: float
    gamma: float
    cost: float
    risk: float
    beyond: bool


class Limits(NamedTuple):
    """The least and the largest value of an axis."""

    low: float
    high: float

    @property
    def span(self) -> float:
        """From one to the other."""
        return self.high - self.low


def list_points(trials: Sequence[Trial]) -> list[Point]:
    """The policies on their frontier."""
    return [
        Point(*one.weights, one.cost, one.epistemic_risk, one.share_beyond > MOST_BEYOND)
        for one in trials
    ]


def draw_figures(trials: Sequence[Trial], logged_cost: float) -> dict[str, Figure]:
    """The figures of a search, by the names of their files."""
    best = trials[recommended(trials)]
    chosen = {one.weights: one for one in (trials[0], best, trials[-1])}.values()
    return {
        "frontier": draw_frontier(list_points(trials), best.weights, logged_cost),
        "risks": draw_risks(
            {one.weights: (one.expected, one.epistemic, one.aleatoric) for one in chosen},
            best.weights,
            logged_cost,
        ),
        "reach": draw_reach(
            {one.weights: (one.apart, one.beyond) for one in trials},
            trials[0].usual,
            trials[0].far,
        ),
    }


def draw_frontier(points: Sequence[Point], chosen: Weights, logged_cost: float) -> Figure:
    """Expected cost against epistemic risk: a curve for each γ, β written at its points."""
    figure = Figure(figsize=(7.5, 4.8), layout="constrained")
    axes = figure.subplots()
    plot_frontier(axes, points, chosen)
    axes.set(title=f"What the model expects, and how sure it is (logged steps: {logged_cost:.4g})")
    return figure


def plot_frontier(axes: Axes, points: Sequence[Point], chosen: Weights) -> dict[Weights, Line2D]:
    """The frontier; returns the marker of each policy."""
    markers = {}
    for index, gamma in enumerate(sorted({point.gamma for point in points})):
        curve = sorted(point for point in points if point.gamma == gamma)
        look: dict[str, Any] = {
            "color": _choose_colour(index),
            "marker": MARKERS[index % len(MARKERS)],
        }
        side: dict[str, Any] = {"ha": "right" if index % 2 else "left"}
        at = [one.risk for one in curve], [one.cost for one in curve]
        axes.plot(*at, color=look["color"], linewidth=1.4)
        axes.plot([], [], linewidth=1.4, label=f"γ = {gamma:g}", **look)
        for number, one in enumerate(curve):
            inside = "white" if one.beyond else look["color"]
            found = axes.plot(one.risk, one.cost, markerfacecolor=inside, zorder=3, **look)
            markers[one[:2]] = found[0]
            axes.annotate(
                f"β = {one.beta:g}", (one.risk, one.cost),
                (-7 if index % 2 else 7, 8 if number % 2 else -15),
                textcoords="offset points", fontsize=8, **side,
            )  # fmt: skip
    own = next(one for one in points if one[:2] == chosen)
    axes.scatter(
        own.risk, own.cost, s=170, facecolors="none", edgecolors=style.CHOSEN, linewidths=1.8,
        zorder=2.5, label="recommended",
    )  # fmt: skip
    if any(one.beyond for one in points):
        hollow: dict[str, Any] = {"marker": "o", "markerfacecolor": "white", "color": style.DATA}
        axes.plot([], [], linestyle="none", label="hollow: mostly beyond the data", **hollow)
    axes.set(xlabel="epistemic risk (deviation of the cost per step)")
    axes.set(ylabel="expected cost per step")
    axes.margins(x=0.12, y=0.15)
    axes.legend()
    return markers


def draw_risks(
    panels: Mapping[Weights, tuple[np.ndarray, np.ndarray, np.ndarray]],
    chosen: Weights,
    logged_cost: float,
) -> Figure:
    """For each policy the expected cost and both deviations over the horizon."""
    figure = Figure(figsize=(4.3 * len(panels), 4.2), layout="constrained")
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (weights, parts) in zip(row, panels.items(), strict=True):
        plot_cost_bands(axes, *parts)
        plot_logged_cost(axes, logged_cost)
        mark = ", recommended" if weights == chosen else ""
        axes.set(title=name_policy(weights) + mark, xlabel="step")
    row[0].set(ylabel="cost")
    figure.legend(*row[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def plot_cost_bands(
    axes: Axes, expected: np.ndarray, epistemic: np.ndarray, aleatoric: np.ndarray
) -> Axes:
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
    return axes


def plot_logged_cost(axes: Axes, logged_cost: float) -> Axes:
    """What a held-out step cost as it was run."""
    axes.axhline(logged_cost, color=style.DATA, linestyle="--", label="logged, held out")
    return axes


def plot_deviations(axes: Axes, epistemic: np.ndarray, aleatoric: np.ndarray) -> Axes:
    """Both risks over the horizon, as lines."""
    steps = np.arange(1, len(epistemic) + 1)
    axes.plot(steps, epistemic, color=style.EPISTEMIC, linewidth=1.8, label="epistemic")
    axes.plot(steps, aleatoric, color=style.ALEATORIC, linewidth=1.8, ls="--", label="aleatoric")
    axes.set(xlabel="step", ylabel="deviation of the cost", ylim=(0, None))
    return axes


def plot_rollouts(axes: Axes, sampled: np.ndarray, expected: np.ndarray) -> Axes:
    """Costs ``[R, T]`` of single roll-outs, and the expected ones ``[T]``."""
    steps = np.arange(1, len(expected) + 1)
    # One line with gaps, for a page with one element is smaller than one with thirty.
    gaps = np.full((len(sampled), 1), np.nan)
    each = np.tile(np.append(steps, steps[-1]).astype(float), len(sampled))
    axes.plot(
        each, np.hstack([sampled, gaps]).ravel(), color=style.POINTS, linewidth=0.7, alpha=0.45,
        label=f"{len(sampled)} roll-outs",
    )  # fmt: skip
    axes.plot(steps, expected, color=style.TOTAL, linewidth=2.0, label="expected cost")
    axes.set(xlabel="step", ylabel="cost")
    return axes


def plot_column(axes: Axes, quantiles: np.ndarray, logged: np.ndarray) -> Axes:
    """A column's quantiles ``[T, 5]`` over steps, in front of those of the log: the least, the same
    five, and the largest."""
    steps = np.arange(1, len(quantiles) + 1)
    least, low, _, middle, _, high, most = logged
    axes.axhspan(low, high, color=style.DATA, alpha=0.28, linewidth=0, label="log: 90 %")
    axes.axhline(middle, color=style.DATA, linewidth=1.0, linestyle="--", label="log: median")
    for edge, label in ((least, "log: all"), (most, None)):
        axes.axhline(edge, color=style.DATA, linewidth=1.0, linestyle=":", label=label)
    for first, last, alpha, label in ((0, 4, 0.3, "policy: 90 %"), (1, 3, 0.45, "policy: 50 %")):
        axes.fill_between(
            steps, quantiles[:, first], quantiles[:, last], color=style.CHOSEN, alpha=alpha,
            linewidth=0, label=label,
        )  # fmt: skip
    axes.plot(steps, quantiles[:, 2], color=style.CHOSEN, linewidth=1.6, label="policy: median")
    axes.set(xlabel="step")
    return axes


def draw_reach(
    curves: Mapping[Weights, tuple[np.ndarray, np.ndarray]], usual: float, far: float
) -> Figure:
    """Distances from the data over the horizon, and the share of states beyond them."""
    figure = Figure(figsize=(11.0, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    gammas = sorted({gamma for _, gamma in curves})
    betas = sorted({beta for beta, _ in curves})
    for (beta, gamma), (apart, beyond) in curves.items():
        look: dict[str, Any] = {
            "color": _choose_colour(betas.index(beta)),
            "linestyle": LINES[gammas.index(gamma) % len(LINES)],
            "label": name_policy((beta, gamma)),
        }
        _plot_steps(left, apart, **look)
        _plot_steps(right, 100.0 * beyond, **look)
    _label_distances(left, usual, far)
    _label_share_beyond(right)
    right.legend(ncols=1 + (len(curves) > 6))
    return figure


def plot_distances(axes: Axes, apart: np.ndarray, usual: float, far: float) -> Axes:
    """Distances from the data of one policy."""
    _plot_steps(axes, apart, color=style.CHOSEN, linewidth=1.8)
    _label_distances(axes, usual, far)
    return axes


def plot_share_beyond(axes: Axes, beyond: np.ndarray) -> Axes:
    """The share of one policy's states that are beyond the data."""
    _plot_steps(axes, 100.0 * beyond, color=style.CHOSEN, linewidth=1.8)
    _label_share_beyond(axes)
    return axes


def _label_distances(axes: Axes, usual: float, far: float) -> Axes:
    """Labels, and how far held-out states are."""
    for height, name in ((usual, "median"), (far, "99 %")):
        axes.axhline(height, color=style.DATA, linestyle=":", linewidth=1.0)
        axes.annotate(
            f"held out: {name}", (1.0, height), (0, 2), xycoords=("axes fraction", "data"),
            textcoords="offset points", ha="right", fontsize=8, color=style.POINTS,
        )  # fmt: skip
    axes.set(title="Distance to the nearest logged state (median)", xlabel="step", ylim=(0, None))
    axes.set(ylabel="deviations of what the policy sees")
    return axes


def _label_share_beyond(axes: Axes) -> Axes:
    """Labels, and the share of held-out states."""
    axes.axhline(1.0, color=style.DATA, linestyle=":", linewidth=1.0)
    axes.set(title="Visited states beyond the data", xlabel="step", ylim=(0, None))
    axes.set(ylabel="share beyond 99 % of held-out states (%)")
    return axes


def name_policy(weights: Weights) -> str:
    """A policy by its weights."""
    return f"β = {weights[0]:g}, γ = {weights[1]:g}"


def _plot_steps(axes: Axes, values: np.ndarray, **look: Any) -> None:
    axes.plot(np.arange(1, len(values) + 1), values, **look)


def _choose_colour(index: int) -> str:
    return style.PALETTE[index % len(style.PALETTE)]


def choose_limits(trials: Sequence[Trial]) -> list[Limits | None]:
    """For each policy the scale of its costs: one for all, so that they can be compared, unless it
    would make a policy's own too small to be read."""
    own = [_find_limits(trial) for trial in trials]
    known = [one for one in own if np.isfinite(one.span)]
    if not known:
        return [None] * len(trials)
    common = Limits(min(one.low for one in known), max(one.high for one in known))
    return [common if common.span <= WIDEST * one.span else None for one in own]


def draw_small_panel(
    plot: Callable[..., Any], *arguments: Any, size: tuple[float, float], top: float, **labels: Any
) -> Figure:
    """``plot(axes, *arguments)``, with ``top`` inches of room above the axes."""
    width, height = size
    spare = LEFT + RIGHT, BOTTOM + top
    figure = Figure(figsize=size)
    axes = figure.add_axes(
        (LEFT / width, BOTTOM / height, 1.0 - spare[0] / width, 1.0 - spare[1] / height)
    )
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    plot(axes, *arguments)
    axes.set(**labels)
    return figure


def place_legend_above(axes: Axes) -> Axes:
    """A legend where it hides nothing."""
    axes.legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, borderaxespad=0.2, columnspacing=0.8
    )
    return axes


def _find_limits(trial: Trial) -> Limits:
    around = 2.0 * np.hypot(trial.epistemic, trial.aleatoric)
    ends = [trial.expected - around, trial.expected + around, trial.rollouts.ravel()]
    values = np.concatenate(ends)
    values = values[np.isfinite(values)]
    if not len(values):
        return Limits(np.nan, np.nan)
    margin = 0.04 * float(np.ptp(values))
    return Limits(float(values.min()) - margin, float(values.max()) + margin)
