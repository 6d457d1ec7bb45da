"""Figure 3 of the paper: uncertainty over the wet-chicken river after 7,500 random transitions.

A model of the next state is fitted to random exploration and its uncertainty is split over all
positions of the canoe, without paddling. The paper finds the epistemic part largest in the top
right corner, near the waterfall on the fast side, although data are scarcest at the bottom right.
"""

from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper.fits import fit_seeds
from paper.markdown import markdown, mean_and_error, metrics
from paper.records import Context, Record
from paper.transitions import random_transitions
from twofold import BNNLVRegressor, Decomposition
from twofold.core.persistence import write_text
from twofold.estimators.storage import plain_settings
from twofold.report import figures

SEEDS = [0, 1, 2, 3, 4]
TRANSITIONS = 7500
CELLS = 25
SIZE = 5.0
PARTS = ("total", "aleatoric", "epistemic")
CORNERS = {
    "top_right": (True, True),
    "bottom_right": (True, False),
    "top_left": (False, True),
    "bottom_left": (False, False),
}


class Map(NamedTuple):
    """One seed's data and the split at the cells' centres, ``[y, x]``."""

    states: np.ndarray
    centres: np.ndarray
    counts: np.ndarray
    split: Decomposition


def map_wet_chicken(context: Context) -> Record:
    """Fit five seeds, record where the maxima lie, draw the first seed's maps."""
    seeds = SEEDS[:2] if context.smoke else SEEDS
    num, cells, epochs = (200, 3, 1) if context.smoke else (TRANSITIONS, CELLS, None)
    settings = {
        "transitions": num,
        "cells": cells,
        "estimator": plain_settings(BNNLVRegressor(inference="alpha")),
    }
    record = Record("wet_chicken_map", settings, seeds)
    data = [random_transitions(jax.random.key(seed), num) for seed in seeds]
    checkpoint = context.work / "figure_3.checkpoint"
    models = fit_seeds({"inference": "alpha", "epochs": epochs}, seeds, data, checkpoint)
    checkpoint.unlink(missing_ok=True)
    maps = [
        split_river(model, inputs, cells) for model, (inputs, _) in zip(models, data, strict=True)
    ]
    measure(maps, record)
    with figures.style():
        figure = draw_maps(maps[0].states, maps[0].centres, maps[0].split)
        figure.savefig(context.output / "figure_3.png", dpi=100)
    write_text(context.output / "figure_3.csv", format_csv(maps[0]))
    return record


def split_river(estimator: BNNLVRegressor, inputs: np.ndarray, cells: int) -> Map:
    """The joint split of the next state at every cell, with action (0, 0)."""
    edges = np.linspace(0.0, SIZE, cells + 1)
    centres = 0.5 * (edges[1:] + edges[:-1])
    y, x = np.meshgrid(centres, centres, indexing="ij")
    rows = np.stack([x.ravel(), y.ravel(), np.zeros(x.size), np.zeros(x.size)], axis=1)
    counts, _, _ = np.histogram2d(inputs[:, 1], inputs[:, 0], bins=[edges, edges])
    return Map(inputs[:, :2], centres, counts, estimator.decompose(rows, joint=True))


def measure(maps: list[Map], record: Record) -> None:
    """Location of the maximum, and the mean of each part in each corner of the river."""
    places = [find_maximum(one, one.split.epistemic) for one in maps]
    record.add_mean("epistemic_maximum/x", [x for x, _ in places])
    record.add_mean("epistemic_maximum/y", [y for _, y in places])
    inside = sum(min(place) > 4.0 for place in places)
    record.add("epistemic_maximum/share_in_top_right", inside / len(places))
    for seed, (x, y) in enumerate(places):
        record.add(f"epistemic_maximum/x/seed_{seed}", x)
        record.add(f"epistemic_maximum/y/seed_{seed}", y)
    for corner, (right, top) in CORNERS.items():
        for part in PARTS:
            values = [mean_over_corner(one, getattr(one.split, part), right, top) for one in maps]
            record.add_mean(f"{corner}/{part}", values)
        counts = [mean_over_corner(one, one.counts.ravel(), right, top) for one in maps]
        record.add_mean(f"{corner}/transitions_per_cell", counts)


def find_maximum(one: Map, values: np.ndarray) -> tuple[float, float]:
    """``(x, y)`` of the largest value."""
    row, column = np.unravel_index(np.argmax(values), one.counts.shape)
    return float(one.centres[column]), float(one.centres[row])


def mean_over_corner(one: Map, values: np.ndarray, right: bool, top: bool) -> float:
    """Mean over the fifth of each axis nearest to a corner."""
    fifth = SIZE / 5.0
    x_inside = one.centres > SIZE - fifth if right else one.centres < fifth
    y_inside = one.centres > SIZE - fifth if top else one.centres < fifth
    return float(values.reshape(one.counts.shape)[np.ix_(y_inside, x_inside)].mean())


def format_csv(one: Map) -> str:
    """The maps as CSV, one row per cell."""
    lines = ["x,y,transitions,total,epistemic,aleatoric"]
    shape = one.counts.shape
    for index, counted in enumerate(one.counts.ravel()):
        row, column = np.unravel_index(index, shape)
        parts = (part[index] for part in one.split.parts)
        numbers = (one.centres[column], one.centres[row], counted, *parts)
        lines.append(",".join(f"{number:.6g}" for number in numbers))
    return "\n".join(lines) + "\n"


def draw_maps(states: np.ndarray, centres: np.ndarray, split: Decomposition) -> Figure:
    """Visited states, then total, aleatoric and epistemic entropy of the next state."""
    figure = Figure(figsize=(13, 3.6), layout="constrained")
    axes = figure.subplots(1, 4, sharex=True, sharey=True)
    axes[0].scatter(*states.T, s=2, color=figures.POINTS, alpha=0.4, linewidths=0, rasterized=True)
    axes[0].set_title(f"(a) {len(states):,} visited states")
    _draw_map(figure, axes[1], centres, split.total, "(b) total  H[s'|s]")
    _draw_map(figure, axes[2], centres, split.aleatoric, "(c) aleatoric  E[H[s'|s,W]]")
    _draw_map(figure, axes[3], centres, split.epistemic, "(d) epistemic  I(s'; W)")
    for one in axes:
        one.set(xlabel="x (across the river)", aspect="equal")
    axes[0].set_ylabel("y (waterfall at the top)")
    return figure


def _draw_map(
    figure: Figure, axes: Axes, centres: np.ndarray, values: np.ndarray, title: str
) -> Axes:
    """One map with its own colour scale."""
    size = len(centres)
    shown = axes.pcolormesh(
        centres, centres, values.reshape(size, size), cmap="cividis", shading="nearest",
        rasterized=True,
    )  # fmt: skip
    figure.colorbar(shown, ax=axes, label="nats", shrink=0.85)
    axes.set_title(title)


def tabulate_corners(results: Path) -> str:
    """Means over the corners of the river."""
    values = metrics("wet_chicken_map", results)
    rows = [
        [
            corner.replace("_", " "),
            mean_and_error(values, f"{corner}/transitions_per_cell", 1),
            *(mean_and_error(values, f"{corner}/{part}") for part in PARTS),
        ]
        for corner in CORNERS
    ]
    return markdown(["corner", "transitions per cell", *PARTS], rows)
