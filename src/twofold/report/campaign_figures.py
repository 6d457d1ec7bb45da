"""Figures of a campaign: what is left to learn, what was measured, and maps of where to go on."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib.patheffects as effects
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from twofold.active import expected_information
from twofold.active.choice import SMALL_SHARE
from twofold.campaign.space import Categorical, Input, Integer, Point, Space
from twofold.estimators.regressor import BNNLVRegressor
from twofold.report import figures
from twofold.report.course import Course
from twofold.report.figures import fill_band, place_legend_below, plot_rug, shorten_label

MOST_CELLS, WIDEST, NARROWEST, MOST_NUMBERED = 8000, 30, 12, 30
JITTER, PALE = 0.18, 0.4
STROKE = [effects.withStroke(linewidth=2.2, foreground="white")]


class Map(NamedTuple):
    """What a measurement would teach (nats, ``[H, W]``) over values of a second and a first input;
    of one input alone ``[1, W]``."""

    first: np.ndarray
    second: np.ndarray
    nats: np.ndarray


def plot_remaining_share(axes: Axes, curve: Sequence[Mapping[str, float]]) -> Axes:
    """The curve of ``Campaign.status()``: the part of the variance that more data could remove."""
    counts = [row["measurements"] for row in curve]
    shares = [100.0 * row["epistemic_share"] for row in curve]
    threshold = 100.0 * SMALL_SHARE
    noise = "noise: measuring again does not help"
    fill_band(axes, counts, shares, 100.0, figures.ALEATORIC, 0.35, noise)
    fill_band(axes, counts, shares, 0.0, figures.EPISTEMIC, 0.35)
    axes.plot(counts, shares, "o-", color=figures.EPISTEMIC, label="more data could remove")
    axes.axhline(
        threshold, color=figures.CHOSEN, linestyle="--", label=f"stop below {threshold:g} %"
    )
    axes.set(title="What is left to learn", xlabel="measurements", ylim=(0, 100))
    axes.set(ylabel="share of the variance (%)")
    _use_whole_ticks(axes, counts)
    return place_legend_below(axes)


def plot_curve(
    axes: Axes, curve: Sequence[Mapping[str, float]], key: str, name: str, color: str
) -> Axes:
    """One number of each model of a course, over how many measurements it had."""
    counts = [row["measurements"] for row in curve]
    axes.plot(counts, [row[key] for row in curve], "o-", color=color)
    axes.set(xlabel="measurements", ylabel=shorten_label(name))
    _use_whole_ticks(axes, counts)
    return axes


def plot_results(axes: Axes, values: np.ndarray, name: str) -> Axes:
    """Values of one output in the order they came, with the highest and lowest so far."""
    numbers = np.arange(1, len(values) + 1)
    look: Any = {"color": figures.DATA, "rasterized": len(values) > figures.MOST_VECTORS}
    axes.plot(numbers, values, "o", markersize=3, label="measured", **look)
    look = {"where": "post", "color": figures.TOTAL, "linewidth": 1.2}
    for extreme, what, line in ((np.fmax, "highest", "-"), (np.fmin, "lowest", "--")):
        axes.step(numbers, extreme.accumulate(values), line, label=f"{what} so far", **look)
    axes.set(xlabel="measurement", ylabel=shorten_label(name))
    axes.set(title="Results in the order they came")
    _use_whole_ticks(axes, list(numbers))
    return place_legend_below(axes, ncols=3)


def find_positions(space: Space, points: list[Point]) -> np.ndarray:
    """Points as numbers ``[N, D]``, words by their place in the list of choices."""
    rows = [[_to_position(one, point[one.name]) for one in space.inputs] for point in points]
    return np.array(rows, float).reshape(len(points), len(space.inputs))


def choose_anchor(course: Course) -> Point:
    """Where the inputs that a map does not show are held: at the first open proposal, else at the
    medians of what was measured."""
    if course.proposals:
        return course.proposals[0].point
    middle = np.quantile(find_positions(course.space, course.points), 0.5, axis=0, method="nearest")
    return {one.name: _to_value(one, v) for one, v in zip(course.space.inputs, middle, strict=True)}


def compute_maps(
    model: BNNLVRegressor, space: Space, at: Point, pairs: list[tuple[str, ...]]
) -> list[Map]:
    """A map for each pair of inputs (or a line for a single one), the others held at a point."""
    side = int(np.clip(np.sqrt(MOST_CELLS / len(pairs)), NARROWEST, WIDEST))
    inputs = {one.name: one for one in space.inputs}
    grids = [[_make_grid(inputs[name], side) for name in pair] for pair in pairs]
    points = [
        at | dict(zip(pair, values, strict=True))
        for pair, grid in zip(pairs, grids, strict=True)
        for values in _list_cells([inputs[name] for name in pair], grid)
    ]
    nats = expected_information(model, space.encode(points))
    cuts = np.cumsum([np.prod([len(one) for one in grid]) for grid in grids])[:-1].astype(int)
    return [
        Map(grid[0], grid[-1], piece.reshape(-1, len(grid[0])))
        for grid, piece in zip(grids, np.split(nats, cuts), strict=True)
    ]


def plot_map(
    axes: Axes, course: Course, pair: tuple[str, str], known: Map | None,
    at: Point | None = None, most: float | None = None,
) -> Axes:  # fmt: skip
    """Measured points and open proposals over two inputs, and behind them what is to be learned.

    ``at`` is where the map holds the other inputs: points with another word there are drawn pale.
    ``most`` is the end of the colours, so that several maps can share them.
    """
    columns = [course.space.names.index(name) for name in pair]
    inputs = [course.space.inputs[column] for column in columns]
    if known is not None:
        look: Any = {"cmap": "cividis", "shading": "nearest", "rasterized": True}
        shown = axes.pcolormesh(*known, vmin=0.0, vmax=most, **look)
        axes.figure.colorbar(shown, ax=axes, label="epistemic part (nats)")
    places = np.stack([_find_places(course.points, one) for one in inputs])
    hidden, many = list_hidden_words(course.space, pair), len(course.points) > figures.MOST_VECTORS
    here = np.array([_agrees(point, at, hidden) for point in course.points], bool)
    for which, alpha, name in ((~here, PALE, None), (here, 1.0, "measured")):
        axes.plot(
            *places[:, which], "o", color="white", markeredgecolor=figures.TOTAL, markersize=4.5,
            markeredgewidth=0.8, alpha=alpha, label=name, rasterized=many,
        )  # fmt: skip
    proposed = find_positions(course.space, [proposal.point for proposal in course.proposals])
    pale = [not _agrees(proposal.point, at, hidden) for proposal in course.proposals]
    _plot_proposals(axes, course, proposed[:, columns], pale)
    for one, axis in zip(inputs, "xy", strict=True):
        _set_scale(axes, one, axis)
    return place_legend_below(axes)


def plot_line(axes: Axes, course: Course, known: Map | None) -> Axes:
    """The same for a campaign with one input: what is to be learned along it."""
    (one,) = course.space.inputs
    heights = np.zeros(len(course.proposals))
    places = find_positions(course.space, [proposal.point for proposal in course.proposals])[:, 0]
    if known is not None:
        look = "o-" if isinstance(one, Categorical) else "-"
        axes.plot(known.first, known.nats[0], look, color=figures.EPISTEMIC, label="epistemic part")
        heights = np.interp(places, known.first, known.nats[0])
        axes.set_ylabel("epistemic part (nats)")
    else:
        axes.set_yticks([])
    _set_scale(axes, one, "x")
    _plot_proposals(axes, course, np.stack([places, heights], axis=1), [False] * len(places))
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.0) - 0.08 * (high - low), high + 0.08 * (high - low))
    if course.points:
        plot_rug(axes, find_positions(course.space, course.points)[:, 0])
        axes.plot([], [], "|", color=figures.POINTS, label="measured")
    return place_legend_below(axes, ncols=3)


def list_hidden_words(space: Space, pair: tuple[str, ...]) -> list[str]:
    """Inputs with words for values that a map of a pair does not show."""
    return [i.name for i in space.inputs if isinstance(i, Categorical) and i.name not in pair]


def _agrees(point: Point, at: Point | None, names: list[str]) -> bool:
    return at is None or all(point[name] == at[name] for name in names)


def _plot_proposals(axes: Axes, course: Course, places: np.ndarray, pale: list[bool]) -> None:
    """Proposals with their numbers, at ``places [P, 2]``."""
    name: str | None = "proposed, with its number"
    for i, (proposal, (x, y)) in enumerate(zip(course.proposals, places, strict=True)):
        alpha = PALE if pale[i] else 1.0
        axes.plot(
            x, y, "^", color=figures.CHOSEN, markersize=8, markeredgecolor="white", alpha=alpha,
            clip_on=False, label=None if pale[i] else name, zorder=6,
        )  # fmt: skip
        name = name if pale[i] else None
        if i < MOST_NUMBERED:
            axes.annotate(
                str(proposal.number), (x, y), xytext=(5, 3), textcoords="offset points",
                fontsize=9, fontweight="bold", path_effects=STROKE, alpha=max(alpha, 0.6),
                zorder=5, annotation_clip=False,
            )  # fmt: skip


def _set_scale(axes: Axes, one: Input, axis: str) -> None:
    """Range, ticks and name of an input on one of the axes."""
    if isinstance(one, Categorical):
        bounds = -0.5, len(one.choices) - 0.5
        axis_of = axes.xaxis if axis == "x" else axes.yaxis
        axis_of.set_ticks(range(len(one.choices)), [shorten_label(word) for word in one.choices])
    else:
        room = 0.03 * (one.high - one.low)
        bounds = one.low - room, one.high + room
    axes.set(**{f"{axis}lim": bounds, f"{axis}label": shorten_label(one.name)})


def _find_places(points: list[Point], one: Input) -> np.ndarray:
    """Where points lie along an input; those of one word a little apart, so that all are seen."""
    place = np.array([_to_position(one, point[one.name]) for point in points])
    if not isinstance(one, Categorical):
        return place
    return place + np.random.default_rng(0).uniform(-JITTER, JITTER, len(place))


def _make_grid(one: Input, side: int) -> np.ndarray:
    if isinstance(one, Categorical):
        return np.arange(len(one.choices), dtype=float)
    grid = np.linspace(one.low, one.high, side)
    return np.unique(np.round(grid)) if isinstance(one, Integer) else grid


def _list_cells(inputs: list[Input], grids: list[np.ndarray]) -> list[tuple]:
    """Values at the cells, the first input running fastest."""
    mesh = np.meshgrid(*grids)
    columns = [[_to_value(i, v) for v in m.ravel()] for i, m in zip(inputs, mesh, strict=True)]
    return list(zip(*columns, strict=True))


def _to_position(one: Input, value: float | int | str) -> float:
    return float(one.choices.index(str(value)) if isinstance(one, Categorical) else value)


def _to_value(one: Input, position: float) -> float | int | str:
    if isinstance(one, Categorical):
        return one.choices[round(position)]
    return round(position) if isinstance(one, Integer) else float(position)


def _use_whole_ticks(axes: Axes, counts: Sequence[float]) -> None:
    """Ticks at whole numbers of measurements, and room around a lone one."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7, min_n_ticks=1))
    if len(counts) == 1:
        axes.set_xlim(counts[0] - 1, counts[0] + 1)
