"""Figures of a folder of policies: the frontier, risks over the horizon, states and the data."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import twofold.report.figures as figures
from twofold.plant.forecast import Trial
from twofold.plant.quality import MOST_BEYOND, find_best
from twofold.report.figures import draw_panel, fill_band

LINES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
ALONE = {"color": figures.CHOSEN, "linewidth": 1.8}
PANEL, SMALL = (4.0, 3.1), (4.0, 2.5)
# How much wider a scale for all policies may be than that of one, to be used for it too.
WIDEST = 4.0


def draw_figures(trials: Sequence[Trial], logged_cost: float) -> dict[str, Figure]:
    """The figures of a search, by the names of their files."""
    best = trials[find_best(trials)]
    some = list({one.risk_weights: one for one in (trials[0], best, trials[-1])}.values())
    title = f"What the model expects, and how sure it is (logged steps: {logged_cost:.4g})"
    return {
        "frontier": draw_panel(
            plot_frontier, trials, best, logged_cost, size=(7.5, 4.8), title=title
        ),
        "risks": draw_risks(some, best, logged_cost),
        "reach": draw_reach(trials),
    }


def plot_frontier(
    axes: Axes, trials: Sequence[Trial], best: Trial, logged_cost: float
) -> dict[Any, Line2D]:
    """Expected cost against epistemic risk: a curve for each γ, β written at its points, hollow
    where a policy is mostly beyond the data; returns the marker of each policy by its weights."""
    markers = {}
    for index, gamma in enumerate(_list_weights(trials, 1)):
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
    figures.place_labels(
        axes, places, [f"β = {one.epistemic_weight:g}" for one in finite], fontsize=8
    )
    axes.legend()
    return markers


def _mark_controller(axes: Axes, cost: float) -> None:
    """What a logged step cost, as a line, or at the edge if that would squeeze the policies."""
    low, high = axes.get_ylim()
    span = high - low
    if low - span <= cost <= high + span:
        axes.axhline(cost, color=figures.POINTS, linestyle="--", linewidth=1.4)
        axes.set_ylim(min(low, cost - 0.1 * span), max(high, cost + 0.12 * span))
        words, height, at = f"present controller: {cost:.4g}", cost, "data"
    else:
        far, height = ("above", 1.0) if cost > high else ("below", 0.0)
        words, at = f"present controller: {cost:.4g}, far {far} this scale", "axes fraction"
    axes.annotate(
        words, (0.99, height), (0, 4), xycoords=("axes fraction", at), textcoords="offset points",
        ha="right", fontsize=9, color=figures.POINTS,
    )  # fmt: skip


def draw_risks(trials: Sequence[Trial], best: Trial, logged_cost: float) -> Figure:
    """For each policy the expected cost and both deviations over the horizon."""
    figure = Figure(figsize=(4.3 * len(trials), 4.2), layout="constrained")
    row = figure.subplots(1, len(trials), sharey=True, squeeze=False)[0]
    for axes, trial in zip(row, trials, strict=True):
        plot_cost_bands(axes, trial, logged_cost)
        mark = ", best found" if trial is best else ""
        axes.set(title=name_policy(trial) + mark, ylabel="")
    row[0].set(ylabel="cost")
    figure.legend(*row[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def plot_cost_bands(axes: Axes, trial: Trial, logged_cost: float) -> None:
    """Two deviations of noise around the expected cost, and beside them two of ignorance."""
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


def plot_rollouts(axes: Axes, trial: Trial, logged_cost: float) -> None:
    """Costs of single roll-outs, and the expected ones."""
    steps, number = _number_steps(trial), len(trial.rollouts)
    # One line with gaps, for a page with one element is smaller than one with thirty.
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


def draw_reach(trials: Sequence[Trial]) -> Figure:
    """Distances from the data over the horizon, and the share of states beyond them."""
    figure = Figure(figsize=(11.0, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    looks = []
    for one in trials:
        beta, gamma = (_list_weights(trials, i).index(w) for i, w in enumerate(one.risk_weights))
        colour = figures.PALETTE[beta % len(figures.PALETTE)]
        line = LINES[gamma % len(LINES)]
        looks.append({"color": colour, "linestyle": line, "label": name_policy(one)})
    plot_distances(left, *trials, looks=looks)
    plot_share_beyond(right, *trials, looks=looks)
    right.legend(ncols=1 + (len(trials) > 6))
    return figure


def plot_distances(axes: Axes, *trials: Trial, looks: Sequence[Any] = (ALONE,)) -> None:
    """Distances from the data, and how far held-out states are."""
    for trial, look in zip(trials, looks, strict=True):
        axes.plot(_number_steps(trial), trial.apart, **look)
    for height, name in ((trials[0].usual, "median"), (trials[0].far, "99 %")):
        axes.axhline(height, color=figures.DATA, linestyle=":", linewidth=1.0)
        axes.annotate(
            f"held out: {name}", (1.0, height), (0, 2), xycoords=("axes fraction", "data"),
            textcoords="offset points", ha="right", fontsize=8, color=figures.POINTS,
        )  # fmt: skip
    axes.set(title="Distance to the nearest logged state (median)", xlabel="step", ylim=(0, None))
    axes.set(ylabel="deviations of what the policy sees")


def plot_share_beyond(axes: Axes, *trials: Trial, looks: Sequence[Any] = (ALONE,)) -> None:
    """The share of states that are beyond the data, and that of held-out states."""
    for trial, look in zip(trials, looks, strict=True):
        axes.plot(_number_steps(trial), 100.0 * trial.beyond, **look)
    axes.axhline(1.0, color=figures.DATA, linestyle=":", linewidth=1.0)
    axes.set(title="Visited states beyond the data", xlabel="step", ylim=(0, None))
    axes.set(ylabel="share beyond 99 % of held-out states (%)")


def name_policy(trial: Trial) -> str:
    """A policy by its weights."""
    return "β = {:g}, γ = {:g}".format(*trial.risk_weights)


def choose_limits(trials: Sequence[Trial]) -> list[tuple[float, float] | None]:
    """For each policy the scale of its costs: one for all, so that they can be compared, unless it
    would make a policy's own too small to be read."""
    own = np.array([_find_limits(trial) for trial in trials])
    if np.isnan(own).all():
        return [None] * len(trials)
    low, high = float(np.nanmin(own[:, 0])), float(np.nanmax(own[:, 1]))
    spans = own[:, 1] - own[:, 0]
    return [(low, high) if high - low <= WIDEST * span else None for span in spans]


def _compare_costs(axes: Axes, logged_cost: float) -> None:
    """Labels, and what a held-out step cost as it was run."""
    axes.axhline(logged_cost, color=figures.DATA, linestyle="--", label="logged, held out")
    axes.set(xlabel="step", ylabel="cost")


def _number_steps(trial: Trial) -> np.ndarray:
    return np.arange(1, len(trial.expected) + 1)


def _list_weights(trials: Sequence[Trial], part: int) -> list[float]:
    return sorted({one.risk_weights[part] for one in trials})


def _find_limits(trial: Trial) -> tuple[float, float]:
    around = 2.0 * np.hypot(trial.epistemic, trial.aleatoric)
    values = np.hstack([trial.expected - around, trial.expected + around, trial.rollouts.ravel()])
    values = values[np.isfinite(values)]
    if not len(values):
        return np.nan, np.nan
    margin = 0.04 * float(np.ptp(values) or abs(values[0]) or 1.0)
    return float(values.min()) - margin, float(values.max()) + margin
