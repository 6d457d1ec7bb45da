"""The content of a model's page: the model, its data, and its predictions."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from twofold.report.figures import LEVELS, shorten_label, spread_evenly
from twofold.tables.coding import Column, rounding_steps
from twofold.uncertainty.decomposition import Decomposition, Parts
from twofold.uncertainty.sensitivity import other_rows, total_effects

MOST_ROWS = 4000
GRID, BEYOND = 50, 0.1
MOST_SWAPPED, MOST_SWAPS, FEWEST_SWAPPED, MOST_REPEATS = 1000, 16_000, 100, 4
SEED = 0


class Table(NamedTuple):
    """Inputs ``[N, D]``, outputs ``[N, O]``, row names such as ``row 17``, and the known standard
    deviation of each measurement ``[N, O]``, zero if unknown."""

    x: np.ndarray
    y: np.ndarray
    names: np.ndarray
    error: np.ndarray


class Subject(NamedTuple):
    """A fitted model, its training rows and, if any, held-out rows; ``steps`` are the rounding
    steps of the outputs (NaN: not rounded); ``columns`` are the columns of the table, each of which
    may become several inputs."""

    model: Any
    data: Table
    held_out: Table | None
    inputs: list[str]
    outputs: list[str]
    rows: int
    steps: np.ndarray
    columns: list[Column]

    @property
    def features(self) -> list[list[int]]:
        """Indices of the model inputs that encode each column."""
        numbers = iter(range(len(self.inputs)))
        return [[next(numbers) for _ in one.features] for one in self.columns]

    @property
    def test(self) -> Table:
        """The rows on which the model is scored."""
        return self.data if self.held_out is None else self.held_out


def pick(parts: Parts, output: Any, rows: Any = slice(None)) -> Parts:
    """The parts of one output (or of a slice of outputs), at some rows."""
    return Parts(*(part[rows, output] for part in parts))


class Moments(NamedTuple):
    """Predictive means and variances at some rows, each ``[N, O]``, in units of y."""

    mean: np.ndarray
    variances: Parts


class Slice(NamedTuple):
    """Along a grid ``[G]`` of one input: quantiles ``[G, O, Q]`` and entropies ``[G, O]``."""

    column: int
    grid: np.ndarray
    quantiles: np.ndarray
    entropies: Parts

    @property
    def most_epistemic(self) -> np.ndarray:
        """Grid value with the largest epistemic part, for each output."""
        return self.grid[np.argmax(self.entropies.epistemic, axis=0)]


def make_subject(
    model: Any, X: Any, y: Any, inputs: Sequence[str], outputs: Sequence[str], held_out: Any,
    rows: Sequence[str] | None = None, columns: Sequence[Column] | None = None, y_error: Any = None,
) -> Subject:  # fmt: skip
    """Validate the content of a page; long tables are thinned evenly to what a page can show."""
    names, answers = list(inputs), list(outputs)
    for what, given in (("inputs", names), ("outputs", answers)):
        if len(set(given)) != len(given):
            raise ValueError(f"expected {what} with different names, got {', '.join(given)}")
    data = _make_table((X, y, y_error), names, answers, 2, rows)
    unseen = None if held_out is None else _make_table((*held_out, None), names, answers, 1)
    steps = rounding_steps(np.asarray(y, float).reshape(len(np.asarray(X)), -1))
    own = [Column(name).with_range(x[:, None]) for name, x in zip(names, data.x.T, strict=True)]
    columns = own if columns is None else list(columns)
    return Subject(model, data, unseen, names, answers, len(np.asarray(X)), steps, columns)


def compute_moments(model: Any, x: np.ndarray) -> Moments:
    """Predictive moments at rows ``[N, D]``."""
    means, variances = model.conditional_moments(x)
    epistemic, aleatoric = np.var(means, axis=0).T, np.mean(variances, axis=0).T
    return Moments(np.mean(means, axis=0).T, Parts(epistemic + aleatoric, epistemic, aleatoric))


def compute_quantiles(model: Any, x: np.ndarray) -> np.ndarray:
    """Quantiles of LEVELS at rows ``[N, D]``, ``[N, O, Q]``."""
    found: np.ndarray = model.predict(x, quantiles=LEVELS)
    return found.reshape(len(x), -1, len(LEVELS))


def compute_entropies(model: Any, x: np.ndarray, here: Moments | None = None) -> Parts:
    """Entropies ``[N, O]``, or, if any is unknown, those of Gaussians with the same variances.
    ``here`` holds the moments at these rows, if already computed."""
    split = model.decompose(x)
    parts = Parts(*(part.reshape(len(x), -1) for part in split.parts))
    if np.all(np.isfinite(parts.total)):
        return parts
    variances = (here or compute_moments(model, x)).variances
    total, _, aleatoric = (0.5 * np.log(2.0 * np.pi * np.e * part) for part in variances)
    return Parts(total, total - aleatoric, aleatoric)


def match_gaussians(mean: np.ndarray, entropies: Parts) -> Moments:
    """Means with the variances of Gaussians of the same entropies; unlike the variances themselves,
    they hardly depend on a few extreme draws of W."""
    unknown = Parts(*(np.full_like(part, np.nan) for part in entropies))
    widths = Decomposition("entropy", *entropies, unknown).equivalent_deviations()
    return Moments(mean, Parts(*(np.square(part) for part in widths.parts)))


def compute_effects(about: Subject, here: Moments) -> Parts:
    """Total effects of the columns ``[columns, O]`` on the mean (``total``) and on the standard
    deviation of each part; ``here`` holds the moments at the rows of the data."""
    columns, groups = len(about.columns), about.features
    most = min(MOST_SWAPPED, max(FEWEST_SWAPPED, MOST_SWAPS // columns))
    rows = spread_evenly(len(about.data.x), most)
    x = about.data.x[rows]

    def quantities(places: np.ndarray) -> np.ndarray:
        known = np.array_equal(places, x)
        moments = here if known else compute_moments(about.model, places)
        deviations = np.sqrt(moments.variances[1:])
        return np.hstack([moments.mean, *deviations])[rows if known else slice(None)]

    rng = np.random.default_rng(SEED)
    repeats = int(np.clip(MOST_SWAPS // (columns * len(x)), 1, MOST_REPEATS))
    effects = [
        total_effects(quantities, x, other_rows(rng, len(x)), groups) for _ in range(repeats)
    ]
    return Parts(*np.split(np.mean(effects, axis=0), 3, axis=1))


def rank_inputs(effects: Parts) -> np.ndarray:
    """Columns from the most to the least important, with equal weight for all parts."""
    every = np.hstack(effects)
    sums = every.sum(axis=0)
    return np.argsort(-(every / np.where(sums > 0.0, sums, 1.0)).mean(axis=1), kind="stable")


def make_grid(values: np.ndarray) -> np.ndarray:
    """A grid slightly beyond the range of a column, or, for whole numbers, integers within it."""
    low, high = values.min(), values.max()
    if np.all(values == np.round(values)):
        return np.unique(np.round(np.linspace(low, high, GRID)))
    margin = BEYOND * (high - low)
    return np.linspace(low - margin, high + margin, GRID)


def choose_anchors(about: Subject, here: Moments) -> dict[str, int]:
    """Rows at which the other inputs are held: a typical one, and the most epistemic one."""
    x = about.data.x
    scale = np.where(np.ptp(x, axis=0) > 0, np.std(x, axis=0), 1.0)
    distance = np.abs((x - np.median(x, axis=0)) / scale).sum(axis=1)
    share = (here.variances.epistemic / here.variances.total).mean(axis=1)
    names = "a typical row", "the row with the largest epistemic share"
    rows = int(np.argmin(distance)), int(np.argmax(share))
    pairs = zip(names, rows, strict=True)
    return {f"{name} ({about.data.names[row]})": row for name, row in pairs}


def compute_slices(
    about: Subject, columns: Sequence[int], rows: Sequence[int]
) -> dict[tuple[int, int], Slice]:
    """By column and row, the slice along that column through that row; one batch for all."""
    grids = {column: make_grid(about.data.x[:, column]) for column in columns}
    keys = [(column, row) for column in columns for row in rows]
    places = [np.repeat(about.data.x[[row]], len(grids[column]), axis=0) for column, row in keys]
    for place, (column, _) in zip(places, keys, strict=True):
        place[:, column] = grids[column]
    every = np.concatenate(places)
    nats = compute_entropies(about.model, every)
    quantiles = compute_quantiles(about.model, every)
    slices, start = {}, 0
    for column, row in keys:
        along = slice(start, start := start + len(grids[column]))
        parts = pick(nats, slice(None), along)
        slices[column, row] = Slice(column, grids[column], quantiles[along], parts)
    return slices


def _make_table(
    given: Sequence[Any], inputs: list[str], outputs: list[str], fewest: int,
    rows: Sequence[str] | None = None,
) -> Table:  # fmt: skip
    x, targets = (np.asarray(part, np.float64) for part in given[:2])
    targets = targets.reshape(len(targets), -1)
    error = np.asarray(np.zeros_like(targets) if given[2] is None else given[2], np.float64)
    expected = (len(x), len(inputs)), (len(x), len(outputs))
    if (x.shape, targets.shape) != expected or len(x) < fewest:
        named = ", ".join(shorten_label(name) for name in [*inputs, *outputs])
        raise ValueError(
            f"expected at least {fewest} rows of {len(inputs)} inputs and {len(outputs)} outputs "
            f"({named}), got X {x.shape} and y {targets.shape}; name every column"
        )
    if bad := np.count_nonzero(~np.isfinite(np.hstack([x, targets]))):
        raise ValueError(f"expected finite numbers, got {bad} NaN or infinite; drop these rows")
    kept = spread_evenly(len(x), MOST_ROWS)
    names = [f"row {number + 1}" for number in range(len(x))] if rows is None else list(rows)
    if len(names) != len(x):
        raise ValueError(f"expected one name for each of {len(x)} rows, got {len(names)}")
    return Table(x[kept], targets[kept], np.array(names)[kept], error.reshape(targets.shape)[kept])
