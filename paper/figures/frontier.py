"""Figures 4 and 5 of the paper: true cost against model bias, and roll-outs beside the truth."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from twofold.report import style

CURVES = (style.EPISTEMIC, style.ALEATORIC, style.CHOSEN, "#CC79A7", "#56B4E9")


def frontier_axes(
    axes: Axes, curves: Mapping[str, Sequence[tuple[float, float, float, float]]]
) -> Axes:
    """Curves of (β, true cost, its standard error, model bias), each by its name; points grow with
    β. An estimate of no bias is drawn at the left edge."""
    roots = np.sqrt([max(point[3], 0.0) for points in curves.values() for point in points])
    edge = 0.8 * min(roots[roots > 0], default=1.0)
    for index, (name, points) in enumerate(curves.items()):
        beta, cost, error, bias = np.array(sorted(points)).T
        bias = np.maximum(np.sqrt(np.maximum(bias, 0.0)), edge)
        black = name.startswith("nearest")
        colour = "black" if black else CURVES[index % len(CURVES)]
        axes.errorbar(
            bias, cost, error, color=colour, label=name, marker="s" if black else "o",
            markersize=4, linewidth=1.2, elinewidth=0.8, linestyle=":" if black else "-",
        )  # fmt: skip
        sizes = np.linspace(12.0, 70.0, len(beta))
        axes.scatter(bias, cost, sizes, color=colour, marker="s" if black else "o", zorder=3)
        for x, y, b in zip(bias, cost, beta, strict=True):
            if black or index == 0:
                place = (5, 5) if black else (-5, -12)
                axes.annotate(f"{b:g}", (x, y), place, textcoords="offset points", fontsize=8)
    axes.set(xlabel="root of the model bias per step (units of cost)", xscale="log")
    axes.set(ylabel="true cost per step")
    axes.legend(title="numbers are β; larger points, larger β", fontsize=8)
    return axes


def score_axes(axes: Axes, models: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Axes:
    """What models said of policies against what came true, as ranks within each model."""
    for index, (name, (said, came)) in enumerate(models.items()):
        colour, marker = CURVES[index % len(CURVES)], "osD^v"[index % 5]
        axes.scatter(said, came, 14, color=colour, marker=marker, alpha=0.8, label=name)
    return axes


def rollout_axes(axes: Axes, true: np.ndarray, expected: np.ndarray, title: str) -> Axes:
    """Roll-outs ``[R, T]`` on the true system, their mean, and the model's mean ``[T]``."""
    steps = np.arange(1, true.shape[1] + 1)
    axes.plot(steps, true.T, color=style.DATA, linewidth=0.4, alpha=0.35)
    axes.plot([], [], color=style.DATA, linewidth=0.8, label=f"{len(true)} true roll-outs")
    axes.plot(steps, true.mean(axis=0), color=style.CHOSEN, linewidth=2.0, label="their mean")
    axes.plot(steps, expected, color=style.EPISTEMIC, linewidth=2.0, label="mean on the model")
    axes.set(title=title, xlabel="step")
    return axes


def frontier_figure(
    curves: Mapping[str, Sequence[tuple[float, float, float, float]]], title: str
) -> Figure:
    """Figure 4."""
    figure, axes = plt.subplots(figsize=(7.5, 5.0), layout="constrained")
    frontier_axes(axes, curves)
    axes.set(title=title)
    return figure


def score_figure(
    panels: Mapping[tuple[str, str], Mapping[str, tuple[np.ndarray, np.ndarray]]],
) -> Figure:
    """What models said against what came true: one panel for each pair of quantities."""
    figure, row = plt.subplots(
        1, len(panels), figsize=(4.3 * len(panels), 3.9), layout="constrained"
    )
    for axes, ((said, came), models) in zip(np.atleast_1d(row), panels.items(), strict=True):
        score_axes(axes, models)
        axes.set(xlabel=said, ylabel=came)
    np.atleast_1d(row)[0].legend()
    return figure


def rollout_figure(panels: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """Figure 5: one panel for each policy."""
    figure, row = plt.subplots(
        1, len(panels), figsize=(4.3 * len(panels), 3.8), sharey=True, layout="constrained"
    )
    for axes, (title, (true, expected)) in zip(np.atleast_1d(row), panels.items(), strict=True):
        rollout_axes(axes, true, expected, title)
    np.atleast_1d(row)[0].set(ylabel="cost")
    np.atleast_1d(row)[-1].legend()
    return figure
