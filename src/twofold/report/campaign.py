"""How a campaign went: what was left to learn after so many measurements, and what came out."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from twofold.active.stopping import SMALL_SHARE
from twofold.report import style
from twofold.report.figures import MOST_VECTORS, label, legend_below


def remaining_share(axes: Axes, curve: Sequence[Mapping[str, float]]) -> Axes:
    """The curve of ``Campaign.status()``: the part of the variance that more data could remove."""
    counts = [row["measurements"] for row in curve]
    shares = [100.0 * row["epistemic_share"] for row in curve]
    threshold = 100.0 * SMALL_SHARE
    axes.fill_between(
        counts, shares, 100.0, color=style.ALEATORIC, alpha=0.35, linewidth=0,
        label="noise: measuring again does not help",
    )  # fmt: skip
    axes.fill_between(counts, shares, 0.0, color=style.EPISTEMIC, alpha=0.35, linewidth=0)
    axes.plot(counts, shares, "o-", color=style.EPISTEMIC, label="more data could remove")
    axes.axhline(threshold, color=style.CHOSEN, linestyle="--", label=f"stop below {threshold:g} %")
    axes.set(
        xlabel="measurements",
        ylabel="share of the variance (%)",
        title="What is left to learn",
        ylim=(0, 100),
    )
    _whole_numbers(axes, counts)
    return legend_below(axes)


def over_measurements(
    axes: Axes, curve: Sequence[Mapping[str, float]], key: str, name: str, color: str
) -> Axes:
    """One number of each model of a course, over how many measurements it had."""
    counts = [row["measurements"] for row in curve]
    axes.plot(counts, [row[key] for row in curve], "o-", color=color)
    axes.set(xlabel="measurements", ylabel=label(name))
    _whole_numbers(axes, counts)
    return axes


def results(axes: Axes, values: np.ndarray, name: str) -> Axes:
    """Values of one output in the order they came, with the highest and lowest so far."""
    numbers = np.arange(1, len(values) + 1)
    axes.plot(
        numbers, values, "o", color=style.DATA, markersize=3, label="measured",
        rasterized=len(values) > MOST_VECTORS,
    )  # fmt: skip
    for extreme, what, line in ((np.fmax, "highest", "-"), (np.fmin, "lowest", "--")):
        axes.step(
            numbers, extreme.accumulate(values), line, where="post", color=style.TOTAL,
            linewidth=1.2, label=f"{what} so far",
        )  # fmt: skip
    axes.set(xlabel="measurement", ylabel=label(name), title="Results in the order they came")
    _whole_numbers(axes, list(numbers))
    return legend_below(axes, ncols=3)


def _whole_numbers(axes: Axes, counts: Sequence[float]) -> None:
    """Ticks at whole numbers of measurements, and room around a lone one."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7, min_n_ticks=1))
    if len(counts) == 1:
        axes.set_xlim(counts[0] - 1, counts[0] + 1)
