"""Columns of a table as model inputs, and back: numbers unchanged, dates as days, categories
one-hot or, if ordered, as 0, 1, 2, …"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

import numpy as np

from twofold.core.naming import listed, nearest, shortened
from twofold.tables.dates import ORDERS
from twofold.tables.table import MISSING, Table, TableError, check_names, keep_finite

# A column with more distinct texts holds names or comments, not categories.
MOST_LEVELS = 30
MOST_DECIMALS = 6
DAY = 86_400.0
# "none" is a valid category.
NO_WORDS = MISSING - {"none", "-"}
AS_NUMBERS = "write it as numbers (dates as days since one of them)"
OUTSIDE = "outside_range"  # the column that names inputs outside their measured range


@dataclass(frozen=True)
class Column:
    """An input column: its ``kind`` (number, date, category or ordered), the ``levels`` of a
    category, the range of its values and the step between them, if known, and the order of day and
    month in dates like 03/04/2025."""

    name: str
    kind: str = "number"
    levels: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    step: float | None = None
    date_order: str | None = None

    @property
    def features(self) -> list[str]:
        """Names of the model inputs that encode the column."""
        if self.kind == "category":
            return [f"{self.name}={level}" for level in self.levels]
        return [self.name]

    def encode(self, table: Table) -> np.ndarray:
        """Encode the column as ``[N, features]``, NaN for missing values."""
        if self.kind == "number":
            return table.only_numbers(self.name)[:, None]
        if self.kind == "date":
            seconds, texts = table.dates(self.name, self.date_order)
            for row, text in texts.items():
                raise TableError(f"{self._place(table, row)} must be a date, got {text!r}")
            return seconds[:, None] / DAY
        labels = _labels(table, self.name, self.levels)
        codes = {level: index for index, level in enumerate(self.levels)}
        for row, label in enumerate(labels):
            if label and label not in codes:
                raise TableError(
                    f"{self._place(table, row)} is {shortened(label)!r}, which is not among the "
                    f"known words {listed(self.levels)}{nearest(label, self.levels)}; to include "
                    "it, fit again to rows that have it"
                )
        numbers = np.array([codes.get(label, np.nan) for label in labels])
        if self.kind == "ordered":
            return numbers[:, None]
        known = np.isfinite(numbers)
        return np.where(known[:, None], numbers[:, None] == np.arange(len(self.levels)), np.nan)

    def with_range(self, values: np.ndarray) -> "Column":
        if self.kind == "category":
            return self
        low, high = float(values.min()), float(values.max())
        return replace(self, low=low, high=high, step=find_step(values[:, 0]))

    @property
    def bounds(self) -> tuple[float, float]:
        """The measured range, infinite if unknown."""
        if self.low is None or self.high is None:
            return -np.inf, np.inf
        return self.low, self.high

    def outside(self, values: np.ndarray) -> np.ndarray:
        low, high = (0.0, 1.0) if self.kind == "category" else self.bounds
        beyond: np.ndarray = np.any((values < low) | (values > high), axis=1)
        return beyond

    def at_fractions(self, u: np.ndarray) -> np.ndarray:
        """Values ``[N, features]`` at fractions of the range, on the grid of the column."""
        if self.kind == "category":
            return np.eye(len(self.levels))[(u * len(self.levels)).astype(int)]
        low, high = self.bounds
        values = low + (high - low) * u
        if self.step is not None:
            values = low + self.step * np.round((values - low) / self.step)
        return np.clip(values, low, high)[:, None]

    def decode(self, values: np.ndarray) -> list[Any]:
        """The table cells for rows of features."""
        if self.kind == "category":
            return [self.levels[index] for index in values.argmax(axis=1)]
        if self.kind == "ordered":
            return [self.levels[round(value)] for value in values[:, 0]]
        if self.kind == "date":
            whole = all(
                one is not None and float(one).is_integer() for one in (self.step, self.low)
            )
            return [_to_date(value, whole) for value in values[:, 0]]
        width = self.bounds[1] - self.bounds[0]
        if not 0 < width < np.inf:
            return values[:, 0].tolist()
        finest = width if self.step is None else min(width, self.step)
        return np.round(values[:, 0], int(np.ceil(4 - np.log10(finest)))).tolist()

    def _place(self, table: Table, row: int) -> str:
        return f"{table.source}: {shortened(self.name)!r} in {table.unit} {table.rows[row]}"


def describe_columns(
    table: Table, names: Sequence[str], categories: Mapping[str, Sequence[str]] = {},
    date_order: str | None = None,
) -> list[Column]:  # fmt: skip
    """The kind of each input column. ``categories`` names columns to treat as categories, each with
    its ordered levels, or none to infer them; ``date_order`` resolves ambiguous dates."""
    check_names(table, [*names, *categories])
    return [_describe(table, name, categories, date_order) for name in names]


def encode(
    table: Table, columns: Sequence[Column], others: Sequence[str] = (), drop_missing: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Features of the columns followed by other numeric columns, and the indices of the rows used:
    all, or with ``drop_missing`` those without missing values."""
    check_names(table, [*(one.name for one in columns), *others])
    parts = [(one.name, one.encode(table)) for one in columns]
    parts += [(name, table.only_numbers(name, AS_NUMBERS)[:, None]) for name in others]
    return keep_finite(table, parts, drop_missing)


def decode(columns: Sequence[Column], x: np.ndarray) -> dict[str, list[Any]]:
    return {one.name: one.decode(part) for one, part in split_features(columns, x)}


def split_features(columns: Sequence[Column], x: np.ndarray) -> list[tuple[Column, np.ndarray]]:
    ends = list(accumulate(len(one.features) for one in columns))
    return list(zip(columns, np.split(x, ends[:-1], axis=1), strict=True))


def spread(columns: Sequence[Column], num: int, seed: int) -> np.ndarray:
    """At most ``num`` distinct rows on the columns' grids, spread evenly (scrambled Sobol)."""
    from scipy.stats import qmc

    u = qmc.Sobol(len(columns), rng=np.random.default_rng(seed)).random(num)
    features = [one.at_fractions(fractions) for one, fractions in zip(columns, u.T, strict=True)]
    rows = np.hstack(features)
    return rows[np.sort(np.unique(rows, axis=0, return_index=True)[1])]


def name_outside(columns: Sequence[Column], x: np.ndarray) -> list[str]:
    """For each row, names of the columns outside their measured range."""
    outside = [(one.name, one.outside(part)) for one, part in split_features(columns, x)]
    return ["; ".join(name for name, rows in outside if rows[i]) for i in range(len(x))]


def find_step(values: np.ndarray) -> float | None:
    """The step between the values of a column: of an even grid, or of the last decimal."""
    step = rounding_steps(values[:, None])[0]
    if np.isfinite(step):
        return float(step)
    for decimals in range(MOST_DECIMALS + 1):
        if np.allclose(values, np.round(values, decimals), rtol=1e-12, atol=0.0):
            return float(10.0**-decimals)
    return None


def rounding_steps(y: np.ndarray) -> np.ndarray:
    """The step each column of y is rounded to: of values that repeat, on an even grid; else NaN."""
    steps = np.full(y.shape[1], np.nan)
    for i, column in enumerate(y.T):
        gaps = np.diff(np.unique(column))
        if gaps.size and len(gaps) + 1 <= len(column) / 2:
            multiples = gaps / gaps.min()
            if np.all(np.abs(multiples - np.round(multiples)) < 0.01):
                steps[i] = gaps.min()
    return steps


def _describe(
    table: Table, name: str, categories: Mapping[str, Sequence[str]], date_order: str | None
) -> Column:
    if categories.get(name):
        return Column(name, "ordered", tuple(categories[name]))
    values, texts = table.numbers(name)
    levels = tuple(sorted(set(_labels(table, name)) - {""}))
    if name in categories:
        return Column(name, "category", levels)
    dates = table.dates(name, date_order)
    if np.isfinite(dates.values).sum() > len(dates.texts):
        return _describe_dates(table, Column(name, "date"), dates.values)
    if not texts:
        return Column(name)
    if np.isfinite(values).any():
        table.only_numbers(name)
    if len(levels) <= MOST_LEVELS:
        return Column(name, "category", levels)
    raise TableError(
        f"{table.source}: column {shortened(name)!r} has {len(levels)} different texts, too many "
        "for a category; leave the column out"
    )


def _describe_dates(table: Table, column: Column, seconds: np.ndarray) -> Column:
    """Describe a column of dates, with the order of day and month if its values show it."""
    by_order = {order: table.dates(column.name, order).values for order in ORDERS}
    fits = [one for one in ORDERS if np.array_equal(by_order[one], seconds, equal_nan=True)]
    column = replace(column, date_order=fits[0] if len(fits) == 1 else None)
    column.encode(table)
    return column


def _labels(table: Table, name: str, levels: Sequence[str] = ()) -> list[str]:
    """The labels of a column, blank if missing; a marker that is one of the levels is a value."""
    missing = NO_WORDS - {level.casefold() for level in levels}
    return ["" if one.casefold() in missing else one for one in table.labels(name)]


def _to_date(days: float, whole: bool) -> str:
    """Days since 1970 as a date, with the time of day unless the days are ``whole``."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=round(days) if whole else days)
    return moment.date().isoformat() if whole else moment.strftime("%Y-%m-%d %H:%M")
