"""Figure 3 of the paper: what 7,500 random transitions of wet-chicken leave unknown, and where.

A model of the next state is fitted to random exploration and its uncertainty is split over all
positions of the canoe, without paddling. The paper finds the epistemic part largest in the top
right corner, near the waterfall on the fast side, although data are scarcest at the bottom right.
"""

from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from paper.figures.maps import four_maps
from paper.fits import fit_whole
from paper.records import Record
from twofold import BNNLVRegressor, Decomposition
from twofold.core.persistence import write_text
from twofold.envs.wet_chicken import random_transitions
from twofold.report.style import style

SEEDS = [0, 1, 2, 3, 4]
TRANSITIONS = 7500
CELLS = 25
SIZE = 5.0
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


def run(smoke: bool, work: Path, output: Path) -> Record:
    """Fit five seeds, record where the maxima lie, draw the first seed's maps."""
    seeds = SEEDS[:2] if smoke else SEEDS
    num, cells, epochs = (200, 3, 1) if smoke else (TRANSITIONS, CELLS, None)
    checkpoint = work / "wet_chicken_map.checkpoint"
    estimators = [
        BNNLVRegressor(inference="alpha", epochs=epochs, random_state=seed, checkpoint=checkpoint)
        for seed in seeds
    ]
    record = Record(
        "wet_chicken_map",
        {
            "transitions": num,
            "cells": cells,
            "estimator": BNNLVRegressor(inference="alpha").get_params(),
        },
        seeds,
    )
    data = [random_transitions(jax.random.key(seed), num) for seed in seeds]
    fit_whole(estimators, [inputs for inputs, _ in data], [targets for _, targets in data])
    checkpoint.unlink(missing_ok=True)
    maps = [look(e, inputs, cells) for e, (inputs, _) in zip(estimators, data, strict=True)]
    measure(maps, record)
    output.mkdir(parents=True, exist_ok=True)
    with style():
        four_maps(maps[0].states, maps[0].centres, maps[0].split).savefig(
            output / "figure_3.png", dpi=100
        )
    write_text(output / "figure_3.csv", csv(maps[0]))
    return record


def look(estimator: BNNLVRegressor, inputs: np.ndarray, cells: int) -> Map:
    """The joint split of the next state at every cell, with action (0, 0)."""
    edges = np.linspace(0.0, SIZE, cells + 1)
    centres = 0.5 * (edges[1:] + edges[:-1])
    y, x = np.meshgrid(centres, centres, indexing="ij")
    rows = np.stack([x.ravel(), y.ravel(), np.zeros(x.size), np.zeros(x.size)], axis=1)
    counts, _, _ = np.histogram2d(inputs[:, 1], inputs[:, 0], bins=[edges, edges])
    return Map(inputs[:, :2], centres, counts, estimator.decompose(rows, joint=True))


def measure(maps: list[Map], record: Record) -> None:
    """Where the maximum lies, and the mean of each part in each corner of the river."""
    places = [maximum(one, one.split.epistemic) for one in maps]
    record.add_mean("epistemic_maximum/x", [x for x, _ in places])
    record.add_mean("epistemic_maximum/y", [y for _, y in places])
    inside = sum(min(place) > 4.0 for place in places)
    record.add("epistemic_maximum/share_in_top_right", inside / len(places))
    for seed, (x, y) in enumerate(places):
        record.add(f"epistemic_maximum/x/seed_{seed}", x)
        record.add(f"epistemic_maximum/y/seed_{seed}", y)
    for corner, (right, top) in CORNERS.items():
        for part in ("epistemic", "aleatoric", "total"):
            values = [corner_mean(one, getattr(one.split, part), right, top) for one in maps]
            record.add_mean(f"{corner}/{part}", values)
        counts = [corner_mean(one, one.counts.ravel(), right, top) for one in maps]
        record.add_mean(f"{corner}/transitions_per_cell", counts)


def maximum(one: Map, values: np.ndarray) -> tuple[float, float]:
    """``(x, y)`` of the largest value."""
    row, column = np.unravel_index(np.argmax(values), one.counts.shape)
    return float(one.centres[column]), float(one.centres[row])


def corner_mean(one: Map, values: np.ndarray, right: bool, top: bool) -> float:
    """Mean over the fifth of each axis nearest to a corner."""
    fifth = SIZE / 5.0
    x_inside = one.centres > SIZE - fifth if right else one.centres < fifth
    y_inside = one.centres > SIZE - fifth if top else one.centres < fifth
    return float(values.reshape(one.counts.shape)[np.ix_(y_inside, x_inside)].mean())


def csv(one: Map) -> str:
    """The maps, one row for each cell."""
    lines = ["x,y,transitions,total,epistemic,aleatoric"]
    shape = one.counts.shape
    for index, counted in enumerate(one.counts.ravel()):
        row, column = np.unravel_index(index, shape)
        parts = (part[index] for part in one.split.parts)
        numbers = (one.centres[column], one.centres[row], counted, *parts)
        lines.append(",".join(f"{number:.6g}" for number in numbers))
    return "\n".join(lines) + "\n"
