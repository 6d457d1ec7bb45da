"""Time and memory against the number of rows."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from twofold.report.figures import DATA, PALETTE, TOTAL


def draw_times(
    axes: Axes,
    rows: Sequence[int],
    seconds: Mapping[str, Sequence[float]],
    slopes: Mapping[str, float],
) -> Axes:
    """Seconds of each part of the work, with its slope on these axes in the legend."""
    for (name, values), colour in zip(seconds.items(), PALETTE, strict=False):
        axes.loglog(rows, values, "o-", color=colour, label=f"{name} (slope {slopes[name]:.2f})")
    axes.set(xlabel="rows", ylabel="seconds", title="Time")
    return _with_legend(axes)


def draw_memory(
    axes: Axes, rows: Sequence[int], peak: Sequence[float], would: Mapping[str, float]
) -> Axes:
    """Peak memory, and for comparison lines that grow by some bytes per row."""
    axes.loglog(rows, [value / 2**20 for value in peak], "o-", color=TOTAL, label="peak, measured")
    for (name, each), dashes in zip(would.items(), ("--", ":", "-."), strict=False):
        grown = [each * number / 2**20 for number in rows]
        axes.loglog(rows, grown, dashes, color=DATA, label=f"{name}: {each:g} bytes a row")
    axes.set(xlabel="rows", ylabel="MiB", title="Memory")
    return _with_legend(axes)


def _with_legend(axes: Axes) -> Axes:
    """A legend in the upper third, above the lines."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.5)
    axes.legend(loc="upper left")
    return axes
