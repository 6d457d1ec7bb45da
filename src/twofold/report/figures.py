"""The plotting style, colour-blind-safe (Okabe and Ito), and functions that plot a model's
predictions on matplotlib axes."""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import product
from typing import Any, cast

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import LayoutEngine
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox, ScaledTranslation

from twofold.uncertainty.decomposition import Decomposition, Parts

TOTAL, DATA, POINTS = "#000000", "#7f7f7f", "#404040"
EPISTEMIC, ALEATORIC, TRUTH, CHOSEN = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000")
SETTINGS: dict[Any, Any] = {
    "figure.dpi": 120, "font.size": 10, "axes.spines.top": False, "axes.spines.right": False,
    "axes.titlesize": 11, "axes.titlelocation": "left", "legend.frameon": False,
    "axes.titley": 1.0, "legend.fontsize": 9, "svg.hashsalt": "twofold",
}  # fmt: skip
MOST_VECTORS, MOST_INTERVALS, MOST_TICKS, MOST_BARS = 2000, 60, 100, 40
LONGEST_LABEL, LONGEST_NAME = 34, 22
SPOT = 5.0  # pixels around a point that labels keep free
BESIDE = 9  # points between a label and its place
BAND = "#56B4E9"
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
# Inches; one small panel per figure, so that its text is readable on a phone.
PANEL = 4.6, 3.4
# Margins of a panel, and the space for a title, a row of a legend and a letter of a tick label.
TOP, RIGHT, BOTTOM, FOOT, LEFT = 0.1, 0.12, 0.45, 0.05, 0.42
TITLE, LEGEND_ROW, LETTER, COLOUR_BAR, LEGEND_COLUMN = 0.2, 0.19, 0.085, 0.6, 1.75
MARKUP = re.compile(r"\\\w+|[${}^\\]")  # mathtext commands in tick labels


def style() -> AbstractContextManager:
    """Use the house style inside a ``with`` block."""
    return mpl.rc_context(SETTINGS)


def draw_panel(
    plot: Callable[..., Any], *arguments: Any, size: tuple[float, float] = PANEL,
    rug: np.ndarray | None = None, **labels: Any,
) -> Figure:  # fmt: skip
    """A figure with one panel: ``plot(axes, *arguments)``, then ``axes.set(**labels)``, and a
    ``rug`` of data values at the bottom."""
    with style():
        figure = Figure(figsize=size, layout=Margins())
        axes = figure.subplots()
        plot(axes, *arguments)
        axes.set(**labels)
        if rug is not None:
            plot_rug(axes, rug)
    return figure


class Margins(LayoutEngine):
    """Margins for the labels, title, legend and colour bar of a panel, by rule: measuring text
    would take longer than drawing it. Powers of ten of the ticks move from the corner, where they
    would cover the title, to the axis labels."""

    _adjust_compatible = _colorbar_gridspec = True

    def execute(self, fig: Any) -> None:
        axes, (width, height) = fig.axes[0], fig.get_size_inches()
        formatter = axes.yaxis.get_major_formatter()
        ticks = [MARKUP.sub("", label) for label in formatter.format_ticks(axes.get_yticks())]
        minor = axes.yaxis.get_minor_formatter().format_ticks(list(axes.get_yticks(minor=True)))
        left = LEFT + LETTER * max(map(len, [*ticks, *minor]), default=0)
        right = RIGHT + COLOUR_BAR * (len(fig.axes) > 1)
        legend, top = axes.get_legend(), TOP + TITLE * bool(axes.get_title(loc="left"))
        rows = 0 if legend is None else -(-len(legend.get_texts()) // count_columns(axes))
        bottom = BOTTOM + LEGEND_ROW * rows + FOOT
        fig.subplots_adjust(left / width, bottom / height, 1 - right / width, 1 - top / height)
        for axis in (axis for one in fig.axes for axis in (one.xaxis, one.yaxis)):
            formatter = axis.get_major_formatter()
            formatter.format_ticks(list(axis.get_majorticklocs()))
            offset = formatter.get_offset()
            if offset and axis.offsetText.get_visible():
                sign = "" if offset[0] in "+-−" else "× "
                axis.set_label_text(f"{axis.get_label_text()} ({sign}{offset})")
                axis.offsetText.set_visible(False)


def add_tips(artist: Artist, tips: Sequence[str]) -> None:
    """Add a text for the page to show beside each point of a line of markers without gaps."""
    artist.set_gid(json.dumps(["tips", *tips]))


def shorten_label(name: str, longest: int = LONGEST_LABEL) -> str:
    """A name as a label: on one line, shortened, and never interpreted as mathtext."""
    line = " ".join(name.split()) or "(no name)"
    short = line if len(line) <= longest else line[: longest - 1] + "…"
    return short.replace("$", r"\$")


def shorten_labels(names: Sequence[str], longest: int = LONGEST_LABEL) -> list[str]:
    """``shorten_label`` of each name; labels that would be equal lose their common beginning."""
    short = [shorten_label(name, longest) for name in names]
    found = []
    for name, label in zip(names, short, strict=True):
        alike = [other for other, own in zip(names, short, strict=True) if own == label]
        differ = (
            at for at, letters in enumerate(zip(*alike, strict=False)) if len(set(letters)) > 1
        )
        start = max(0, next(differ, 0) - longest // 3)
        found.append(shorten_label(f"…{name[start:].lstrip()}", longest) if start else label)
    return found


def spread_evenly(rows: int, most: int) -> np.ndarray:
    """Indices of at most ``most`` rows, spread evenly."""
    return np.linspace(0, rows - 1, min(rows, most)).astype(int)


def count_columns(axes: Axes) -> int:
    """The number of legend columns that fit below the axes."""
    figure, place = cast(Figure, axes.figure), axes.get_subplotspec()
    panels = 1 if place is None else place.get_gridspec().ncols
    return max(1, int(figure.get_size_inches()[0] / panels / LEGEND_COLUMN))


def place_legend_below(axes: Axes) -> Axes:
    """Put the legend below the axis and its label."""
    below = ScaledTranslation(0.0, -BOTTOM, axes.figure.dpi_scale_trans)
    axes.legend(
        loc="upper center", ncols=count_columns(axes), bbox_to_anchor=(0.5, 0.0), borderaxespad=0.0,
        bbox_transform=axes.transAxes + below, columnspacing=1.2, handlelength=1.6,
    )  # fmt: skip
    return axes


def place_labels(
    axes: Axes, places: Any, texts: Sequence[str], beside: float = BESIDE, **look: Any
) -> None:
    """Write a text next to each place ``(x, y)``, at a distance of ``beside`` points, where it
    covers no other text, place or tick label, and if possible no line; texts without room are left
    out. Set the limits of the axes first."""
    figure: Any = axes.figure
    if engine := figure.get_layout_engine():
        engine.execute(figure)
    axes.autoscale_view()
    spots = axes.transData.transform(np.reshape(places, (-1, 2)))
    ticks = [*axes.get_xticklabels(), *axes.get_yticklabels()]
    taken = [text.get_window_extent() for text in [*axes.texts, *ticks]]
    taken += [other.bbox for other in figure.axes if other is not axes]
    taken += [Bbox.from_bounds(x - SPOT, y - SPOT, 2 * SPOT, 2 * SPOT) for x, y in spots]
    drawn = (line for line in axes.lines if line.get_linestyle() != "None")
    lines = [line.get_transform().transform_path(line.get_path()) for line in drawn]
    corners = ((1, 1), (1, -1), (-1, 1), (-1, -1))
    for place, text in zip(places, texts, strict=True):
        for avoided, (right, up) in product((lines, ()), corners):
            label = axes.annotate(
                text, place, (beside * right, beside * up), textcoords="offset points",
                ha="left" if right > 0 else "right", va="bottom" if up > 0 else "top",
                annotation_clip=False, **look,
            )  # fmt: skip
            # The font of the page may be wider.
            box = label.get_window_extent().expanded(1.25, 1.3)
            inside = all(figure.bbox.contains(*corner) for corner in box.get_points())
            crossed = any(line.intersects_bbox(box, filled=False) for line in avoided)
            if inside and not crossed and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            label.remove()


def fill_band(
    axes: Axes, x: Any, low: Any, high: Any, color: str, alpha: float, label: str | None = None
) -> None:
    axes.fill_between(x, low, high, color=color, alpha=alpha, linewidth=0, label=label)


def plot_predictive_bands(
    axes: Axes, grid: np.ndarray, mean: np.ndarray, variances: Decomposition | Parts,
    data: tuple[np.ndarray, np.ndarray] | None = None,
) -> Axes:  # fmt: skip
    """Predictive mean, bands of two standard deviations (inner: aleatoric, outer: total), data."""
    for variance, colour, alpha, label in (
        (variances.total, EPISTEMIC, 0.35, "± 2σ total (blue rim: epistemic)"),
        (variances.aleatoric, ALEATORIC, 0.6, "± 2σ aleatoric (noise)"),
    ):
        width = 2.0 * np.sqrt(variance)
        fill_band(axes, grid, mean - width, mean + width, colour, alpha, label)
    _scatter(axes, data)
    axes.plot(grid, mean, color=TOTAL, linewidth=1.2, label="predictive mean")
    axes.set(xlabel="x", ylabel="y", title="Prediction")
    return place_legend_below(axes)


def plot_quantile_bands(
    axes: Axes, grid: np.ndarray, quantiles: np.ndarray,
    data: tuple[np.ndarray, np.ndarray] | None = None,
) -> Axes:  # fmt: skip
    """The median and central intervals ``[G, Q]`` of LEVELS, for noise of any shape."""
    for low, high, alpha in ((0, -1, 0.25), (1, -2, 0.6)):
        label = f"{LEVELS[high] - LEVELS[low]:.0%} of the measurements"
        fill_band(axes, grid, quantiles[:, low], quantiles[:, high], BAND, alpha, label)
    _scatter(axes, data)
    axes.plot(grid, quantiles[:, 2], color=TOTAL, linewidth=1.2, label="median")
    axes.set(xlabel="x", ylabel="y", title="Prediction")
    return place_legend_below(axes)


def _scatter(axes: Axes, data: tuple[np.ndarray, np.ndarray] | None) -> None:
    if data is not None:
        look: Any = {"rasterized": len(data[0]) > MOST_VECTORS, "label": "measurements"}
        axes.scatter(*data, s=5, color=POINTS, alpha=0.6, linewidths=0, **look)


def plot_entropies(
    axes: Axes, grid: np.ndarray, entropies: Decomposition | Parts,
    truth: np.ndarray | None = None, next_points: np.ndarray | None = None,
) -> Axes:  # fmt: skip
    """Total and aleatoric entropy over x; the gap between them is the epistemic part. Given
    ``next_points``, the points to measure next are marked."""
    total, aleatoric = entropies.total, entropies.aleatoric
    fill_band(axes, grid, aleatoric, total, EPISTEMIC, 0.35, "epistemic I(y; W)")
    axes.plot(grid, total, color=TOTAL, label="total H[y|x]")
    axes.plot(grid, aleatoric, color=ALEATORIC, label="aleatoric E[H[y|x,W]]")
    if truth is not None:
        # The entropy of vanishing noise is unbounded below.
        low, high = axes.get_ylim()
        axes.plot(grid, truth, color=TRUTH, linestyle="--", label="true noise entropy")
        axes.set_ylim(low - 0.2 * (high - low), high)
    if next_points is not None:
        heights = np.interp(next_points, grid, total)
        look: Any = {"color": CHOSEN, "markersize": 8, "markeredgecolor": "white", "zorder": 6}
        axes.plot(next_points, heights, "v", label="measure here next", **look)
    axes.set(xlabel="x", ylabel="entropy (nats)", title="The split (blue: epistemic)")
    return place_legend_below(axes)


def plot_choices(
    axes: Axes, grid: np.ndarray, epistemic: np.ndarray, inputs: np.ndarray,
    choices: tuple[np.ndarray, np.ndarray],
) -> Axes:  # fmt: skip
    """Epistemic entropy over x, a histogram of the data, and the points to measure."""
    axes.plot(grid, epistemic, color=EPISTEMIC, label="epistemic I(y; W)")
    axes.plot(*choices, "v", color=CHOSEN, markersize=8, label="measure here next")
    axes.set(xlabel="x", ylabel="nats", title="Where to measure next")
    axes.set_ylim(0, 1.1 * max(epistemic.max(), 1e-3))
    counts = axes.twinx()
    counts.hist(inputs, bins=40, range=(grid[0], grid[-1]), color=DATA, alpha=0.35)
    counts.set_ylabel("measurements per bin")
    counts.spines["right"].set_visible(True)
    axes.set_zorder(counts.get_zorder() + 1)
    axes.patch.set_visible(False)
    return place_legend_below(axes)


def plot_rug(axes: Axes, values: np.ndarray) -> Axes:
    """Ticks at the bottom where there are data; elsewhere the model extrapolates."""
    levels = np.linspace(0.0, 1.0, min(len(values), MOST_TICKS))
    ticks = np.unique(np.quantile(values, levels, method="nearest"))
    low, high = axes.get_xlim()
    # One line with gaps: a marker for each would make the page twice as large.
    heights = np.tile([0.0, 0.035, np.nan], len(ticks))
    look: Any = {"color": POINTS, "linewidth": 0.8, "alpha": 0.6, "solid_capstyle": "butt"}
    axes.plot(np.repeat(ticks, 3), heights, transform=axes.get_xaxis_transform(), **look)
    axes.set_xlim(low, high)
    return axes


def count_values(values: np.ndarray) -> np.ndarray:
    """The counts of a small histogram, with one bar per integer if there are few."""
    whole = np.all(values == np.round(values)) and np.ptp(values) <= MOST_BARS
    bins = np.arange(values.min() - 0.5, values.max() + 1.0) if whole else MOST_BARS // 2
    return np.histogram(values, bins)[0]


def plot_intervals(axes: Axes, x: np.ndarray, quantiles: np.ndarray) -> Line2D:
    """Medians and central intervals ``[N, Q]`` of LEVELS at each x; returns the medians."""
    for low, high, width in ((0, -1, 1.2), (1, -2, 2.6)):
        ends = quantiles[:, low], quantiles[:, high]
        label = f"{LEVELS[high] - LEVELS[low]:.0%} interval"
        axes.vlines(x, *ends, BAND, linewidth=width, alpha=0.6, label=label)
    (points,) = axes.plot(x, quantiles[:, 2], "o", color=TOTAL, markersize=3.5, label="median")
    return points


def plot_predicted(
    axes: Axes, y: np.ndarray, quantiles: np.ndarray, tips: Sequence[str] = ()
) -> Axes:
    """Medians and intervals against measured values; a page shows ``tips`` beside the points."""
    points = plot_intervals(axes, y, quantiles)
    if tips:
        add_tips(points, tips)
    range_of_y = [y.min(), y.max()]
    axes.plot(range_of_y, range_of_y, color=CHOSEN, linewidth=1, label="predicted = measured")
    axes.set(xlabel="measured", ylabel="predicted", title="Predicted and measured")
    return place_legend_below(axes)


def plot_effects(axes: Axes, names: list[str], effects: Parts) -> Axes:
    """Total effects of each input, in percent: on the mean (``total``) and on each part."""
    places = np.arange(len(names))
    looks = (TOTAL, "mean"), (EPISTEMIC, "epistemic"), (ALEATORIC, "aleatoric")
    for i, (values, (color, label)) in enumerate(zip(effects, looks, strict=True)):
        at, widths = places + 0.27 * (i - 1), 100.0 * np.asarray(values)
        axes.barh(at, widths, height=0.25, color=color, label=label)
    axes.set_yticks(places, shorten_labels(names, LONGEST_NAME))
    axes.invert_yaxis()
    axes.set(xlabel="share of the variance (%)", xlim=(0, None), title="Importance of the inputs")
    return place_legend_below(axes)
