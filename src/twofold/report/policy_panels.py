"""Pictures of one policy for its page: costs and risks over time, states against the data."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from twofold.plant.trial import Trial
from twofold.report import policies as figures
from twofold.report.page import picture, pictures

PANEL, SMALL = (4.0, 3.1), (4.0, 2.5)
# In inches, around the axes: a layout that measures all text takes longer than the drawing.
LEFT, RIGHT, BOTTOM = 0.75, 0.1, 0.5
LEGEND, TITLE, NOTHING = 0.45, 0.3, 0.1
# How much wider a scale for all policies may be than that of one, to be used for it too.
WIDEST = 4.0


class Limits(NamedTuple):
    """The least and the largest value of an axis."""

    low: float
    high: float

    @property
    def span(self) -> float:
        """From one to the other."""
        return self.high - self.low


def cost_limits(trials: Sequence[Trial]) -> list[Limits | None]:
    """For each policy the scale of its costs: one for all, so that they can be compared, unless it
    would make a policy's own too small to be read."""
    own = [_own_limits(trial) for trial in trials]
    known = [one for one in own if np.isfinite(one.span)]
    if not known:
        return [None] * len(trials)
    common = Limits(min(one.low for one in known), max(one.high for one in known))
    return [common if common.span <= WIDEST * one.span else None for one in own]


def _own_limits(trial: Trial) -> Limits:
    around = 2.0 * np.hypot(trial.epistemic, trial.aleatoric)
    ends = [trial.expected - around, trial.expected + around, trial.rollouts.ravel()]
    values = np.concatenate(ends)
    values = values[np.isfinite(values)]
    if not len(values):
        return Limits(np.nan, np.nan)
    margin = 0.04 * float(np.ptp(values))
    return Limits(float(values.min()) - margin, float(values.max()) + margin)


def cost_pictures(trial: Trial, logged_cost: float, limits: Limits | None) -> str:
    """Roll-outs, the expected cost with both parts of its uncertainty, and both risks alone."""

    def rollouts(axes: Axes) -> None:
        figures.rollouts(axes, trial.rollouts, trial.expected)
        _finish_costs(axes, logged_cost, limits)

    def bands(axes: Axes) -> None:
        figures.bands(axes, trial.expected, trial.epistemic, trial.aleatoric)
        axes.set(xlabel="step", ylabel="cost")
        _finish_costs(axes, logged_cost, limits)

    def deviations(axes: Axes) -> None:
        figures.deviations(axes, trial.epistemic, trial.aleatoric)
        _legend_above(axes)

    of_it = f"of the policy with {figures.named(trial.weights)}"
    parts = [
        panel(
            bands, f"Expected cost over the steps {of_it}, with bands of both risks",
            "What to expect: the mean, what noise adds to it, and what ignorance adds to both.",
        ),
        panel(
            deviations, f"Epistemic and aleatoric risk over the steps {of_it}",
            "Its risks over time. More data would lower the epistemic one only.",
        ),
    ]  # fmt: skip
    if len(trial.rollouts):
        shown = panel(
            rollouts, f"Costs of {len(trial.rollouts)} sample roll-outs {of_it}",
            "Possible futures: each line has one draw of the model and noise of its own.",
        )  # fmt: skip
        parts.insert(0, shown)
    return pictures(*parts)


def distance_pictures(trial: Trial) -> str:
    """How far it leaves the data."""

    def distances(axes: Axes) -> None:
        figures.distances(axes, trial.apart, trial.usual, trial.far)
        axes.set(title="", ylabel="median distance (deviations)")

    def share_beyond(axes: Axes) -> None:
        figures.share_beyond(axes, trial.beyond)
        axes.set(title="", ylabel="share beyond the data (%)")

    of_it = f"of the policy with {figures.named(trial.weights)}"
    return pictures(
        panel(
            distances, f"Median distance to the nearest logged state over the steps {of_it}",
            "Distance to the nearest logged state, in what the policy sees.", NOTHING,
        ),
        panel(
            share_beyond, f"Share of states beyond the data over the steps {of_it}",
            "States farther from the data than 99 % of held-out ones (dotted: those have 1 %).",
            NOTHING,
        ),
    )  # fmt: skip


def column_pictures(trial: Trial, names: Sequence[str]) -> str:
    """What it visits of each column, in front of what the log has."""
    parts = []
    for name in names:
        axes = _axes(SMALL, TITLE)
        figures.column(axes, trial.visited[name], trial.logged[name])
        axes.set_title(name.replace("$", r"\$"))
        middle = trial.visited[name][-1, 2]
        words = (
            f"{name}: its median after the last step is {middle:.4g}; nine in ten logged values "
            f"lie between {trial.logged[name][1]:.4g} and {trial.logged[name][5]:.4g}"
        )
        parts.append(picture(_figure(axes), words))
    return pictures(*parts)


def panel(draw: Callable[[Axes], None], description: str, caption: str, top: float = LEGEND) -> str:
    """One drawing as a picture, with room above it."""
    axes = _axes(PANEL, top)
    draw(axes)
    return picture(_figure(axes), description, caption)


def _axes(size: tuple[float, float], top: float) -> Axes:
    width, height = size
    axes = Figure(figsize=size).add_axes(
        (
            LEFT / width,
            BOTTOM / height,
            1.0 - (LEFT + RIGHT) / width,
            1.0 - (BOTTOM + top) / height,
        )
    )
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    return axes


def _figure(axes: Axes) -> Figure:
    found = axes.get_figure(root=True)
    assert found is not None
    return found


def _finish_costs(axes: Axes, logged_cost: float, limits: Limits | None) -> None:
    figures.add_logged_cost(axes, logged_cost)
    if limits is not None:
        axes.set_ylim(*limits)
    _legend_above(axes)


def _legend_above(axes: Axes) -> None:
    """Where it hides nothing."""
    axes.legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, borderaxespad=0.2, columnspacing=0.8
    )
