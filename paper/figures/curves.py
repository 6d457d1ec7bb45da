"""Curves with their errors, a panel for each problem."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from twofold.report.style import TRUTH


class Curve(NamedTuple):
    """Means and standard errors along x."""

    label: str
    x: np.ndarray
    mean: np.ndarray
    error: np.ndarray
    color: str
    line: str


def curves_figure(
    panels: Mapping[str, Sequence[Curve]],
    limits: Mapping[str, float | None],
    x_label: str,
    y_label: str,
) -> Figure:
    """One panel for each title; ``limits`` are what nobody can be better than, where known."""
    figure, axes = plt.subplots(
        1, len(panels), figsize=(4.4 * len(panels), 4.6), layout="constrained"
    )
    for axis, (title, curves) in zip(np.atleast_1d(axes), panels.items(), strict=True):
        _draw(axis, curves, limits.get(title))
        axis.set(title=title, xlabel=x_label)
    first = np.atleast_1d(axes)[0]
    first.set_ylabel(y_label)
    handles = {
        label: handle
        for axis in np.atleast_1d(axes)
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=3, handlelength=3
    )
    return figure


def _draw(axis: Axes, curves: Sequence[Curve], limit: float | None) -> None:
    for curve in curves:
        axis.plot(curve.x, curve.mean, curve.line, color=curve.color, label=curve.label)
        axis.fill_between(
            curve.x,
            curve.mean - curve.error,
            curve.mean + curve.error,
            color=curve.color,
            alpha=0.15,
            linewidth=0,
        )
    if limit is not None:
        axis.axhline(limit, color=TRUTH, linestyle=(0, (1, 1)), label="true process")
