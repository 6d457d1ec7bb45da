"""Predictions along one input at a time, the others held where a row of the data has them."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from twofold.report import figures, page, style
from twofold.report.model_data import Found, Subject, entropies, found, shown
from twofold.uncertainty.decomposition import Parts

GRID = 50
BEYOND = 0.1
SIZE = (4.6, 3.4)
MOST_INPUTS, MOST_OUTPUTS, MOST_BLOCKS = 8, 8, 36


class Slice(NamedTuple):
    """Along a grid ``[G]`` of one input: moments and entropies ``[G, O]``."""

    grid: np.ndarray
    found: Found
    entropies: Parts

    @property
    def most_epistemic(self) -> np.ndarray:
        """Where the epistemic part is largest, for each output."""
        return self.grid[np.argmax(self.entropies.epistemic, axis=0)]


def grid_of(values: np.ndarray) -> np.ndarray:
    """The range of a column and a little beyond; whole numbers stay whole, and within it."""
    low, high = values.min(), values.max()
    if np.all(values == np.round(values)):
        return np.unique(np.round(np.linspace(low, high, GRID)))
    margin = BEYOND * (high - low)
    return np.linspace(low - margin, high + margin, GRID)


def anchors(about: Subject, here: Found) -> dict[str, int]:
    """Rows at which the other inputs are held: a typical one, and where least and most is known."""
    x = about.data.x
    scale = np.where(np.ptp(x, axis=0) > 0, np.std(x, axis=0), 1.0)
    distance = np.abs((x - np.median(x, axis=0)) / scale).sum(axis=1)
    share = (here.variances.epistemic / here.variances.total).mean(axis=1)
    rows = {
        "a typical row": int(np.argmin(distance)),
        "the row with most to learn": int(np.argmax(share)),
        "the row best known": int(np.argmin(share)),
    }
    return {f"{name} ({about.data.names[row]})": row for name, row in rows.items()}


def slices(about: Subject, columns: Sequence[int], rows: Sequence[int]) -> list[list[Slice]]:
    """For each column, a slice through each of the rows; all are computed together."""
    grids = [grid_of(about.data.x[:, column]) for column in columns]
    places = [
        _along(about.data.x[row], column, grid)
        for column, grid in zip(columns, grids, strict=True)
        for row in rows
    ]
    every = np.concatenate(places)
    here = found(about.model, every)
    nats = entropies(about.model, every, here.variances)
    cuts = np.cumsum([len(place) for place in places])[:-1]
    means = np.split(here.mean, cuts)
    variances, split = _cut(here.variances, cuts), _cut(nats, cuts)
    pieces = iter(zip(means, variances, split, strict=True))
    return [
        [Slice(grid, Found(mean, own), nats) for mean, own, nats in _take(pieces, len(rows))]
        for grid in grids
    ]


def bands(one: Slice, about: Subject, column: int, output: int, data: bool) -> Figure:
    """Predictive bands of one output along one input, with the data or where they lie."""
    x, y = about.data.x[:, column], about.data.y[:, output]
    variances = Parts(*(part[:, output] for part in one.found.variances))
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    measured = (x, y) if data else None
    figures.predictive_bands(axes, one.grid, one.found.mean[:, output], variances, measured)
    _finish(figure, one, about, column)
    axes.set(ylabel=figures.label(about.outputs[output]))
    return figure


def split(one: Slice, about: Subject, column: int, output: int) -> Figure:
    """Entropies of one output along one input."""
    figure = Figure(figsize=SIZE, layout="constrained")
    parts = Parts(*(part[:, output] for part in one.entropies))
    figures.entropy_curves(figure.subplots(), one.grid, parts)
    _finish(figure, one, about, column)
    return figure


def block(one: Slice, about: Subject, column: int, output: int, data: bool) -> str:
    """The two pictures of a slice, and where most can be learned along it."""
    name, answer = about.inputs[column], about.outputs[output]
    most = shown(one.most_epistemic[output])
    with style.style():
        drawn = page.pictures(
            page.picture(
                bands(one, about, column, output, data),
                f"Prediction of {answer} along {name} with bands of two deviations.",
                f"Ticks at the foot: where {name} was measured; beyond, the model extrapolates.",
            ),
            page.picture(
                split(one, about, column, output),
                f"Entropy of {answer} along {name}, split in two; most epistemic at {most}.",
                f"Along this line a measurement at {name} = {most} would teach most.",
            ),
        )
    return drawn


def _finish(figure: Figure, one: Slice, about: Subject, column: int) -> None:
    (axes,) = figure.axes
    axes.set_xlabel(figures.label(about.inputs[column]))
    axes.set_xlim(one.grid[0], one.grid[-1])
    if len(one.grid) <= 6:
        axes.set_xticks(one.grid)
    figures.rug(axes, about.data.x[:, column])


def _along(row: np.ndarray, column: int, grid: np.ndarray) -> np.ndarray:
    rows = np.repeat(row[None], len(grid), axis=0)
    rows[:, column] = grid
    return rows


def _cut(parts: Parts, cuts: np.ndarray) -> list[Parts]:
    return [Parts(*one) for one in zip(*(np.split(part, cuts) for part in parts), strict=True)]


def _take(pieces: Iterator[Any], num: int) -> list[Any]:
    return [next(pieces) for _ in range(num)]
