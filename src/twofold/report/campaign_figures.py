"""Figures of a campaign: the remaining uncertainty, the results, and where to measure next."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.ticker import LogFormatter, MaxNLocator

from twofold.active import expected_information
from twofold.active.choice import SMALL_SHARE
from twofold.campaign.inputs import Categorical, Input, Integer, Point
from twofold.campaign.space import Space
from twofold.estimators.regressor import BNNLVRegressor
from twofold.report import figures
from twofold.report.course import Course
from twofold.report.figures import fill_band, place_legend_below, shorten_label
from twofold.report.model_data import compute_quantiles

MOST_INPUTS, MOST_CELLS, WIDEST, NARROWEST, LINE, MOST_NUMBERED = 5, 1800, 30, 12, 60, 12
JITTER, PALE = 0.18, 0.4
ROOM = 0.03  # margin at either end of an axis, as a fraction of the range of its input
BOX = {"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 0.8}


class PlainLog(LogFormatter):
    """Tick labels of a logarithmic axis as decimal numbers instead of powers of ten."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:g}" if super().__call__(x, pos) else ""


class Map(NamedTuple):
    """Expected information of a measurement (nats, ``[H, W]``) over the values of a second and a
    first input; ``[1, W]`` for a single input."""

    first: np.ndarray
    second: np.ndarray
    nats: np.ndarray


def plot_remaining_share(axes: Axes, curve: Sequence[Mapping[str, float]]) -> Axes:
    """The curve of ``Campaign.status()``: the share of the variance that more data could remove."""
    counts = [row["measurements"] for row in curve]
    shares = [100.0 * row["epistemic_share"] for row in curve]
    stop = 100.0 * SMALL_SHARE
    fill_band(axes, counts, shares, 100.0, figures.ALEATORIC, 0.35, "noise")
    fill_band(axes, counts, shares, 0.0, figures.EPISTEMIC, 0.35)
    axes.plot(counts, shares, "o-", color=figures.EPISTEMIC, label="more data could remove")
    axes.axhline(stop, color=figures.CHOSEN, linestyle="--", label=f"stop below {stop:g} %")
    axes.set(title="Learning curve", ylabel="share of the variance (%)", ylim=(0, 100))
    _count_measurements(axes, counts, "measurements")
    return place_legend_below(axes)


def plot_remaining_nats(axes: Axes, curve: Sequence[Mapping[str, float]]) -> Axes:
    """The same curve in nats: the mean information of one more measurement."""
    counts = [row["measurements"] for row in curve]
    nats = [row["epistemic_nats"] for row in curve]
    axes.plot(counts, nats, "o-", color=figures.EPISTEMIC, clip_on=False)
    axes.set(ylabel="mean epistemic part (nats)", ylim=(min(0.0, axes.get_ylim()[0]), None))
    return _count_measurements(axes, counts, "measurements")


def plot_results(axes: Axes, values: np.ndarray, name: str) -> Axes:
    """Values of one output in the order of measurement, with the highest and lowest so far."""
    numbers = np.arange(1, len(values) + 1)
    look: Any = {"color": figures.DATA, "rasterized": len(values) > figures.MOST_VECTORS}
    axes.plot(numbers, values, "o", markersize=3, label="measured", **look)
    look = {"where": "post", "color": figures.TOTAL, "linewidth": 1.2}
    for extreme, what, line in ((np.fmax, "highest", "-"), (np.fmin, "lowest", "--")):
        axes.step(numbers, extreme.accumulate(values), line, label=f"{what} so far", **look)
    axes.set(ylabel=shorten_label(name), title="Results over time")
    _count_measurements(axes, numbers, "measurement")
    return place_legend_below(axes)


def find_positions(space: Space, points: Sequence[Point]) -> np.ndarray:
    """Points as numbers ``[N, D]``; categories by their index."""
    rows = [[_find_position(one, point[one.name]) for one in space.inputs] for point in points]
    return np.array(rows, float).reshape(len(points), len(space.inputs))


def choose_anchor(course: Course) -> Point:
    """Where maps hold the other inputs: the best proposal, or the medians of measured points."""
    if course.next is not None:
        return course.next.point
    order = find_positions(course.space, course.points).argsort(axis=0, kind="stable")
    middle = order[round((len(order) - 1) / 2)]
    return {
        name: course.points[row][name] for name, row in zip(course.space.names, middle, strict=True)
    }


def compute_maps(
    model: BNNLVRegressor, space: Space, at: Point, pairs: Sequence[tuple[str, ...]]
) -> list[Map]:
    """A map for each pair of inputs, or a line; NaN where constraints are violated."""
    side = int(np.clip(np.sqrt(MOST_CELLS / len(pairs)), NARROWEST, WIDEST))
    side = LINE if len(space.inputs) == 1 else side
    grids = {one.name: _make_grid(one, side) for one in space.inputs}
    # The first input of a pair runs fastest.
    cells = [list(product(*(grids[name] for name in reversed(pair)))) for pair in pairs]
    points = [
        at | dict(zip(reversed(pair), cell, strict=True))
        for pair, own in zip(pairs, cells, strict=True)
        for cell in own
    ]
    nats = expected_information(model, space.encode(points))
    nats[~space.find_allowed(points)] = np.nan
    inputs = {one.name: one for one in space.inputs}
    axes = {n: np.array([_find_position(inputs[n], v) for v in grid]) for n, grid in grids.items()}
    pieces = np.split(nats, np.cumsum([len(own) for own in cells])[:-1])
    return [
        Map(axes[pair[0]], axes[pair[-1]], piece.reshape(-1, len(axes[pair[0]])))
        for pair, piece in zip(pairs, pieces, strict=True)
    ]


def compute_slices(model: BNNLVRegressor, space: Space, at: Point) -> dict[str, np.ndarray]:
    """Quantiles ``[G, O, Q]`` along the first inputs; NaN where constraints are violated."""
    grids = {one.name: _make_grid(one, LINE) for one in space.inputs[:MOST_INPUTS]}
    points = [at | {name: value} for name, grid in grids.items() for value in grid]
    quantiles = compute_quantiles(model, space.encode(points))
    quantiles[~space.find_allowed(points)] = np.nan
    ends = np.cumsum([len(grid) for grid in grids.values()])[:-1]
    return dict(zip(grids, np.split(quantiles, ends), strict=True))


def plot_slice(axes: Axes, course: Course, name: str, quantiles: np.ndarray, output: int) -> Axes:
    """Predicted quantiles ``[G, Q]`` along one input; with measurements if it is the only one."""
    column = course.space.names.index(name)
    one = course.space.inputs[column]
    grid = np.array([_find_position(one, value) for value in _make_grid(one, LINE)])
    x, alone = find_positions(course.space, course.points)[:, column], len(course.space.names) == 1
    if isinstance(one, Categorical):
        figures.plot_intervals(axes, grid, quantiles)
    else:
        figures.plot_quantile_bands(axes, grid, quantiles)
    if alone:
        look: Any = {"markersize": 3.5, "marker": "o", "color": figures.POINTS}
        look["rasterized"] = len(x) > figures.MOST_VECTORS
        places = np.stack([x, course.values[:, output]], axis=1)
        known = np.isfinite(places[:, 1])
        names = np.array(name_measured(course))[known].tolist()
        _plot_points(axes, places[known], np.ones(known.sum(), bool), "measured", names, **look)
    _set_scale(axes, one, "x")
    if not alone and not isinstance(one, Categorical) and len(x):
        figures.plot_rug(axes, x)
    axes.set(title="", ylabel=shorten_label(course.outputs[output]))
    return place_legend_below(axes)


def plot_map(
    axes: Axes, course: Course, pair: tuple[str, str], known: Map | None,
    at: Point | None = None, most: float | None = None,
) -> Axes:  # fmt: skip
    """Measured points and open proposals over two inputs, on top of the epistemic part. ``at`` is
    the point at which the other inputs are held: points of other categories are pale. ``most`` is
    the upper end of the colour scale, which several maps can share."""
    columns = [course.space.names.index(name) for name in pair]
    inputs = [course.space.inputs[column] for column in columns]
    if known is not None:
        shown = _draw_map(axes, inputs, known, most)
        bar: Any = {"label": "epistemic part (nats)", "fraction": 0.06, "pad": 0.02, "aspect": 30}
        axes.figure.colorbar(shown, ax=axes, **bar)
    places = find_positions(course.space, course.points)[:, columns]
    for one, place in zip(inputs, places.T, strict=True):
        if isinstance(one, Categorical):  # jitter against overlap
            place += np.random.default_rng(0).uniform(-JITTER, JITTER, len(place))
    proposed = [proposal.point for proposal in course.proposals]
    words = list_hidden_words(course.space, pair)
    look: Any = {"markeredgecolor": figures.TOTAL, "markersize": 4.5, "markeredgewidth": 0.8}
    look |= {"rasterized": len(places) > figures.MOST_VECTORS, "marker": "o", "color": "white"}
    here, names = _find_alike(course.points, at, words), name_measured(course)
    _plot_points(axes, places, here, "measured", names, **look)
    spots = find_positions(course.space, proposed)[:, columns]
    _plot_proposals(axes, course, spots, _find_alike(proposed, at, words))
    for one, axis in zip(inputs, "xy", strict=True):
        _set_scale(axes, one, axis)
    place_legend_below(axes)
    _number_proposals(axes, course, spots)
    return axes


def plot_line(axes: Axes, course: Course, known: Map | None) -> Axes:
    """The equivalent of ``plot_map`` for a single input."""
    (one,) = course.space.inputs
    places = find_positions(course.space, [proposal.point for proposal in course.proposals])[:, 0]
    heights = np.zeros(len(places))
    if known is not None:
        look = "o-" if isinstance(one, Categorical) else "-"
        axes.plot(known.first, known.nats[0], look, color=figures.EPISTEMIC, label="epistemic part")
        heights = np.interp(places, known.first, known.nats[0])
        axes.set_ylabel("epistemic part (nats)")
    else:
        axes.set_yticks([])
    _set_scale(axes, one, "x")
    spots = np.stack([places, heights], axis=1)
    _plot_proposals(axes, course, spots, np.ones(len(places), bool))
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.0) - 0.08 * (high - low), high + 0.08 * (high - low))
    if course.points:
        figures.plot_rug(axes, find_positions(course.space, course.points)[:, 0])
        axes.plot([], [], "|", color=figures.POINTS, label="measured")
    place_legend_below(axes)
    _number_proposals(axes, course, spots)
    return axes


def list_hidden_words(space: Space, pair: tuple[str, ...]) -> list[str]:
    """Categorical inputs that a map of a pair does not show."""
    return [i.name for i in space.inputs if isinstance(i, Categorical) and i.name not in pair]


def _find_alike(points: Sequence[Point], at: Point | None, names: list[str]) -> np.ndarray:
    alike = [at is None or all(one[name] == at[name] for name in names) for one in points]
    return np.array(alike, bool)


def _draw_map(axes: Axes, inputs: list[Input], known: Map, most: float | None) -> ScalarMappable:
    """Draw the colours of a map; browsers interpolate them if both inputs are numeric."""
    look: Any = {"cmap": "cividis", "vmin": 0.0, "vmax": most}
    if any(isinstance(one, Categorical) for one in inputs):
        return axes.pcolormesh(*known, shading="nearest", rasterized=True, **look)
    # Values belong to cell centres; grids are even on the scale of their axis.
    low, high = ROOM / (1.0 + 2.0 * ROOM), (1.0 + ROOM) / (1.0 + 2.0 * ROOM)
    halves = [0.5 * (high - low) / max(1, cells - 1) for cells in known.nats.shape[::-1]]
    look["extent"] = [end for half in halves for end in (low - half, high + half)]
    look |= {"origin": "lower", "aspect": "auto", "interpolation": "none"}
    return axes.imshow(known.nats, transform=axes.transAxes, **look)


def name_measured(course: Course) -> list[str]:
    """Names of the measurements in the tips of the page."""
    return [f"m{number}" for number in course.numbers or range(1, len(course.points) + 1)]


def name_proposed(course: Course) -> list[str]:
    """Names of the open proposals in the tips of the page."""
    return [f"p{proposal.number}" for proposal in course.proposals]


def _plot_points(
    axes: Axes, places: np.ndarray, near: np.ndarray, label: str, names: list[str], **look: Any
) -> None:
    """Draw points at ``places [P, 2]`` with the names of their tips, those not ``near`` pale."""
    for which, alpha in ((near, 1.0), (~near, PALE)):
        if not which.any():
            continue
        words = label if alpha == 1.0 else None
        (line,) = axes.plot(*places[which].T, linestyle="none", alpha=alpha, label=words, **look)
        if not look.get("rasterized"):
            figures.add_tips(line, [name for name, own in zip(names, which, strict=True) if own])


def _plot_proposals(axes: Axes, course: Course, places: np.ndarray, near: np.ndarray) -> None:
    look: Any = {"marker": "^", "color": figures.CHOSEN, "markersize": 8, "clip_on": False}
    look |= {"markeredgecolor": "white", "zorder": 6}
    _plot_points(axes, places, near, "proposed (numbered)", name_proposed(course), **look)


def _number_proposals(axes: Axes, course: Course, places: np.ndarray) -> None:
    """Write the numbers of the first proposals where there is room; set the limits first."""
    texts = [str(proposal.number) for proposal in course.proposals][:MOST_NUMBERED]
    look: Any = {"fontsize": 9, "fontweight": "bold", "bbox": BOX, "zorder": 5}
    figures.place_labels(axes, places[:MOST_NUMBERED], texts, **look)


def _set_scale(axes: Axes, one: Input, axis: str) -> None:
    """Set the range, ticks and label of an axis (``"x"`` or ``"y"``) for an input."""
    axis_of = axes.xaxis if axis == "x" else axes.yaxis
    if isinstance(one, Categorical):
        bounds = -0.5, len(one.choices) - 0.5
        axis_of.set_ticks(range(len(one.choices)), figures.shorten_labels(one.choices))
    elif getattr(one, "log", False):
        bounds = one.low * (one.low / one.high) ** ROOM, one.high * (one.high / one.low) ** ROOM
        axes.set(**{f"{axis}scale": "log"})
        axis_of.set_major_formatter(PlainLog())
        axis_of.set_minor_formatter(PlainLog())
    else:
        room = ROOM * (one.high - one.low)
        bounds = one.low - room, one.high + room
    axes.set(**{f"{axis}lim": bounds, f"{axis}label": shorten_label(one.name)})


def _make_grid(one: Input, side: int) -> Sequence[float | int | str]:
    if isinstance(one, Categorical):
        return one.choices
    grid = (np.geomspace if getattr(one, "log", False) else np.linspace)(one.low, one.high, side)
    grid = np.unique(np.round(grid)).astype(int) if isinstance(one, Integer) else grid
    return grid.tolist()


def _find_position(one: Input, value: float | int | str) -> float:
    return float(one.choices.index(str(value)) if isinstance(one, Categorical) else value)


def _count_measurements(axes: Axes, counts: Sequence[float] | np.ndarray, label: str) -> Axes:
    """Put ticks at whole numbers of measurements, and margins around a single one."""
    axes.set_xlabel(label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7, min_n_ticks=1))
    if len(counts) == 1:
        axes.set_xlim(counts[0] - 1, counts[0] + 1)
    return axes
