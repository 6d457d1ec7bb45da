"""Methods as points: what they cost against how well they do, a panel for each measure."""

from collections.abc import Mapping
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from twofold.report.style import PALETTE

MARKERS = ("o", "s", "^", "D", "v", "P", "X")


class Tradeoff(NamedTuple):
    """Cost and quality of one method on each problem."""

    costs: Mapping[str, float]
    qualities: Mapping[str, float]


def tradeoff_figure(
    entries: Mapping[str, Mapping[str, Tradeoff]], measures: Mapping[str, str], cost: str
) -> Figure:
    """Small points are problems, the large one their mean; lower left is better."""
    figure, axes = plt.subplots(1, len(measures), figsize=(11, 4.2), layout="constrained")
    for axis, (measure, label) in zip(np.atleast_1d(axes), measures.items(), strict=True):
        for i, (method, found) in enumerate(entries.items()):
            costs, qualities = (np.array(list(part.values())) for part in found[measure])
            look = {"color": PALETTE[i % len(PALETTE)], "marker": MARKERS[i % len(MARKERS)]}
            axis.scatter(costs, qualities, s=14, alpha=0.5, linewidths=0, **look)
            centre = np.exp(np.log(costs).mean()), qualities.mean()
            axis.scatter(*centre, s=90, edgecolors="white", label=method, zorder=3, **look)
        axis.set(xscale="log", yscale="log", xlabel=cost, ylabel=label)
    figure.legend(
        *np.atleast_1d(axes)[0].get_legend_handles_labels(), loc="outside lower center", ncols=4
    )
    return figure
