"""Figures of a policy search: the frontier, risks over the horizon, visited states and the data."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

import twofold.report.figures as figures
from twofold.plant.forecast import Trial
from twofold.plant.recommendation import MOST_BEYOND
from twofold.report.figures import fill_band, place_legend_below

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
ALONE: Any = {"color": figures.CHOSEN, "linewidth": 1.8}
PANEL, SMALL = (4.0, 3.4), (4.0, 2.5)
# A common cost scale is used for policies whose own scale is at most this factor narrower.
WIDEST = 4.0
BESIDE_RING = 11  # distance in points of a label from a policy, which may have a ring around it


def plot_frontier(
    axes: Axes, trials: Sequence[Trial], best: Trial, logged_cost: float
) -> dict[Any, Line2D]:
    """Expected cost against epistemic risk: a curve for each γ with points labelled by β, hollow
    if a policy is mostly beyond the data; returns the marker of each policy by its weights."""
    markers = {}
    for index, gamma in enumerate(sorted({one.risk_weights[1] for one in trials})):
        curve = [one for one in trials if one.risk_weights[1] == gamma]
        curve.sort(key=lambda one: one.risk_weights)
        colour = figures.PALETTE[index % len(figures.PALETTE)]
        look: Any = {"color": colour, "marker": MARKERS[index % len(MARKERS)]}
        at = [one.epistemic_risk for one in curve], [one.cost for one in curve]
        axes.plot(*at, color=colour, linewidth=1.4)
        axes.plot([], [], linewidth=1.4, label=f"γ = {gamma:g}", **look)
        for one in curve:
            place = one.epistemic_risk, one.cost
            inside = "white" if one.share_beyond > MOST_BEYOND else colour
            (marker,) = axes.plot(*place, markerfacecolor=inside, zorder=3, **look)
            markers[one.risk_weights] = marker
    axes.scatter(
        best.epistemic_risk, best.cost, s=170, facecolors="none", edgecolors=figures.CHOSEN,
        linewidths=1.8, zorder=2.5, label="best found",
    )  # fmt: skip
    if any(one.share_beyond > MOST_BEYOND for one in trials):
        hollow: Any = {"marker": "o", "markerfacecolor": "white", "color": figures.DATA}
        axes.plot([], [], linestyle="none", label="hollow: mostly beyond the data", **hollow)
    label = "epistemic risk (deviation of the cost per step)"
    axes.set(xlabel=label, ylabel="expected cost per step")
    axes.margins(x=0.12, y=0.15)
    _mark_controller(axes, logged_cost)
    finite = [one for one in trials if np.isfinite([one.cost, one.epistemic_risk]).all()]
    places = [(one.epistemic_risk, one.cost) for one in finite]
    texts = [f"β = {one.epistemic_weight:g}" for one in finite]
    figures.place_labels(axes, places, texts, BESIDE_RING, fontsize=9)
    place_legend_below(axes)
    return markers


def _mark_controller(axes: Axes, cost: float) -> None:
    """The mean logged cost, as a line, at the edge of the axes if it is far from all policies."""
    low, high = axes.get_ylim()
    span, words = high - low, f"present controller: {cost:.4g}"
    at, up, where = cost, 1, axes.get_yaxis_transform()
    if low - span <= cost <= high + span:
        axes.set_ylim(min(low, cost - 0.1 * span), max(high, cost + 0.12 * span))
    else:
        above, where = cost > high, axes.transAxes
        at, up, arrow = (1.0, -1, "↑") if above else (0.0, 1, "↓")
        words = f"{arrow} {words}, beyond this scale"
    axes.plot([0, 1], [at, at], "--", color=figures.POINTS, linewidth=1.4, transform=where)
    axes.annotate(
        words, (0.99, at), (0, 4 * up), xycoords=where, ha="right", color=figures.POINTS,
        va="bottom" if up > 0 else "top", textcoords="offset points", fontweight="bold",
    )  # fmt: skip


def plot_cost_bands(axes: Axes, trial: Trial, logged_cost: float) -> None:
    """The expected cost with bands of two standard deviations: aleatoric inside, total outside."""
    steps, expected = _number_steps(trial), trial.expected
    inner, outer = 2.0 * trial.aleatoric, 2.0 * np.hypot(trial.epistemic, trial.aleatoric)
    for low, high, colour, label in (
        (-outer, -inner, figures.EPISTEMIC, "to ± 2σ total: epistemic"),
        (inner, outer, figures.EPISTEMIC, None),
        (-inner, inner, figures.ALEATORIC, "± 2σ aleatoric"),
    ):
        fill_band(axes, steps, expected + low, expected + high, colour, 0.45, label)
    axes.plot(steps, expected, color=figures.TOTAL, linewidth=1.4, label="expected cost")
    _compare_costs(axes, logged_cost)


def plot_deviations(axes: Axes, trial: Trial) -> None:
    """Both risks over the horizon, as lines."""
    look: Any = {"linewidth": 1.8}
    steps = _number_steps(trial)
    axes.plot(steps, trial.epistemic, color=figures.EPISTEMIC, label="epistemic", **look)
    axes.plot(steps, trial.aleatoric, color=figures.ALEATORIC, ls="--", label="aleatoric", **look)
    axes.set(xlabel="step", ylabel="deviation of the cost", ylim=(0, None))
    place_legend_below(axes)


def plot_rollouts(axes: Axes, trial: Trial, logged_cost: float) -> None:
    """Costs of single roll-outs, and the expected ones."""
    steps, number = _number_steps(trial), len(trial.rollouts)
    # One line with gaps, because one element makes a smaller page than thirty.
    costs = np.hstack([trial.rollouts, np.full((number, 1), np.nan)]).ravel()
    each = np.tile(np.append(steps, steps[-1]).astype(float), number)
    label = f"{number} roll-outs"
    axes.plot(each, costs, color=figures.POINTS, linewidth=0.7, alpha=0.45, label=label)
    axes.plot(steps, trial.expected, color=figures.TOTAL, linewidth=2.0, label="expected cost")
    _compare_costs(axes, logged_cost)


def plot_column(axes: Axes, trial: Trial, name: str) -> None:
    """A column's quantiles over steps, in front of those of the log."""
    quantiles, steps = trial.visited[name], _number_steps(trial)
    least, low, _, middle, _, high, most = trial.logged[name]
    axes.axhspan(low, high, color=figures.DATA, alpha=0.28, linewidth=0, label="log: 90 %")
    axes.axhline(middle, color=figures.DATA, linewidth=1.0, linestyle="--", label="log: median")
    for edge, label in ((least, "log: all"), (most, None)):
        axes.axhline(edge, color=figures.DATA, linewidth=1.0, linestyle=":", label=label)
    for first, last, alpha, label in ((0, 4, 0.3, "policy: 90 %"), (1, 3, 0.45, "policy: 50 %")):
        ends = quantiles[:, first], quantiles[:, last]
        fill_band(axes, steps, *ends, figures.CHOSEN, alpha, label)
    axes.plot(steps, quantiles[:, 2], color=figures.CHOSEN, linewidth=1.6, label="policy: median")
    axes.set(xlabel="step", title=name.replace("$", r"\$"))


def plot_distances(axes: Axes, trial: Trial) -> None:
    """Distances from the data, and how far held-out states are."""
    axes.plot(_number_steps(trial), trial.apart, **ALONE)
    for height, name in ((trial.usual, "median"), (trial.far, "99 %")):
        axes.axhline(height, color=figures.DATA, linestyle=":", linewidth=1.0)
        axes.annotate(
            f"held out: {name}", (1.0, height), (0, 2), xycoords=("axes fraction", "data"),
            textcoords="offset points", ha="right", fontsize=8, color=figures.POINTS,
        )  # fmt: skip
    axes.set(xlabel="step", ylabel="median distance (deviations)", ylim=(0, None))


def plot_share_beyond(axes: Axes, trial: Trial) -> None:
    """The share of states beyond the data, and that of held-out states."""
    axes.plot(_number_steps(trial), 100.0 * trial.beyond, **ALONE)
    axes.axhline(1.0, color=figures.DATA, linestyle=":", linewidth=1.0)
    axes.set(xlabel="step", ylabel="share beyond the data (%)", ylim=(0, None))


def name_policy(trial: Trial) -> str:
    return "β = {:g}, γ = {:g}".format(*trial.risk_weights)


def choose_limits(trials: Sequence[Trial]) -> list[tuple[float, float] | None]:
    """The cost scale of each policy: a common one, unless its curve would be too flat."""
    own = np.array([_find_limits(trial) for trial in trials])
    if np.isnan(own).all():
        return [None] * len(trials)
    low, high = float(np.nanmin(own[:, 0])), float(np.nanmax(own[:, 1]))
    spans = own[:, 1] - own[:, 0]
    return [(low, high) if high - low <= WIDEST * span else None for span in spans]


def _compare_costs(axes: Axes, logged_cost: float) -> None:
    """Labels, and the logged cost of held-out steps."""
    axes.axhline(logged_cost, color=figures.DATA, linestyle="--", label="logged, held out")
    axes.set(xlabel="step", ylabel="cost")
    place_legend_below(axes)


def _number_steps(trial: Trial) -> np.ndarray:
    return np.arange(1, len(trial.expected) + 1)


def _find_limits(trial: Trial) -> tuple[float, float]:
    around = 2.0 * np.hypot(trial.epistemic, trial.aleatoric)
    values = np.hstack([trial.expected - around, trial.expected + around])
    values = values[np.isfinite(values)]
    if not len(values):
        return np.nan, np.nan
    margin = 0.04 * float(np.ptp(values) or abs(values[0]) or 1.0)
    return float(values.min()) - margin, float(values.max()) + margin
