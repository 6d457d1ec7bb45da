"""``Table``: named columns over an Arrow table; cells as numbers, times and labels."""

import csv
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from twofold.core.naming import listed, nearest, shortened
from twofold.tables.arrow import pa, pc
from twofold.tables.dates import AmbiguousDatesError, read_dates, to_timestamps

MOST_QUOTED = 300  # characters kept of another library's message
MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "-"})
NO_NUMBERS = "leave the column out, or write it as numbers"
ROUNDING = 1e-7  # relative rounding error of a number stored in single precision
# Limits of the integer types that loggers store, and of numbers too large to be measurements.
LIMITS, HUGE = frozenset({-32768, 32767, 65535, -2147483648, 2147483647}), 1e30
# A sentinel is farther from all other values than their range, and than this fraction of itself.
FAR = 0.1


class TableError(ValueError):
    """A table cannot be read or written, or lacks a requested column."""


class Numbers(NamedTuple):
    """A column of numbers, NaN for missing values, and texts found instead, by row."""

    values: np.ndarray
    texts: dict[int, str]


@dataclass(frozen=True, eq=False)
class Table:
    """A table, or a block of rows of a larger one; ``unit`` is the name of a row in the ``source``
    ("line" for a CSV file), ``rows`` holds the row numbers, ``decimal`` is the decimal mark."""

    source: str
    unit: str
    data: Any  # a pyarrow.Table
    rows: np.ndarray
    decimal: str = "."

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def names(self) -> list[str]:
        return [name for name in self.data.column_names if name.strip()]

    def take(self, index: np.ndarray) -> "Table":
        if len(index) == len(self) and np.array_equal(index, np.arange(len(self))):
            return self
        return replace(self, data=self.data.take(index), rows=self.rows[index])

    def places(self, index: np.ndarray) -> list[str]:
        """Locations of rows in the source: ``line 17``."""
        return [f"{self.unit} {number}" for number in self.rows[index]]

    def numbers(self, name: str, missing: Collection[str | float] = ()) -> Numbers:
        """A column as numbers; ``missing`` lists further markers: words, or numbers in any form."""
        column = self._convert(_numbers, name, missing, self.decimal)
        for marker in missing:
            with suppress(ValueError):
                mark = parse_number(str(marker), self.decimal if isinstance(marker, str) else ".")
                column.values[np.isclose(column.values, mark, rtol=ROUNDING, atol=0.0)] = np.nan
        return column

    def times(
        self, name: str, missing: Collection[str | float] = (), date_order: str | None = None
    ) -> Numbers:
        """A column of numbers, or of dates as seconds since the first one; ``date_order`` as for
        ``dates``. Only words in ``missing`` are used, because any number is a valid time."""
        dates = self.dates(name, date_order, missing)
        numbers = self._convert(_numbers, name, missing, self.decimal)
        known = np.isfinite(dates.values)
        # Among numbers, a date counts as text.
        if known.sum() <= np.isfinite(numbers.values).sum():
            return numbers
        return Numbers(dates.values - dates.values[known][0], dates.texts)

    def dates(
        self, name: str, date_order: str | None = None, missing: Collection[str | float] = ()
    ) -> Numbers:
        """A column of dates (seconds since 1970) or durations (seconds), and the texts that are not
        dates. ``date_order`` resolves ambiguous dates like 03/04/2025."""
        try:
            return self._convert(_dates, name, missing, self.decimal, date_order)
        except AmbiguousDatesError as error:
            raise TableError(f"{self.source}: column {shortened(name)!r}: {error}") from None

    def labels(self, name: str) -> list[str]:
        """A column of labels, blank for missing values; 1 and 1.0 are the same label."""
        return self._convert(_labels, name, self.decimal)

    def texts(self, name: str) -> list[str]:
        """A column as texts, stripped, blank for missing values."""
        return self._convert(lambda column: [_text(cell) for cell in column.to_pylist()], name)

    def values(
        self, names: Sequence[str], drop_missing: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Columns as numbers ``[N, C]``, and the indices of their rows: all rows, or with
        ``drop_missing`` those with a finite number in every column."""
        check_names(self, names)
        columns = [(name, self.only_numbers(name)[:, None]) for name in names]
        return keep_finite(self, columns, drop_missing)

    def to_lists(self) -> dict[str, list[Any]]:
        """All columns, numeric ones as numbers, others unchanged."""
        lists = {}
        for name in self.data.column_names:
            values, texts = self.numbers(name)
            lists[name] = self.data[name].to_pylist() if texts else values.tolist()
        return lists

    def _convert(self, convert: Callable[..., Any], name: str, *options: Any) -> Any:
        with parsing_errors(self.source, "CSV file" if self.unit == "line" else "Parquet file"):
            return convert(self.data[name], *options)

    def only_numbers(self, name: str, remedy: str = NO_NUMBERS) -> np.ndarray:
        """A column of numbers ``[N]``, NaN for missing values; texts are refused."""
        values, texts = self.numbers(name)
        for row, text in texts.items():
            rows = f"{len(texts)} rows have" if len(texts) > 1 else "1 row has"
            raise TableError(
                f"{self.source}: column {shortened(name)!r} must be numbers, but {rows} text, "
                f"first {shortened(text)!r} in {self.unit} {self.rows[row]}; {remedy}"
            )
        return values


def keep_finite(
    table: Table, columns: Sequence[tuple[str, np.ndarray]], drop_missing: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Stack columns of numbers, each ``[N, …]``, and return the indices of the rows: all of them,
    or with ``drop_missing`` those with a finite number in every column."""
    values = np.hstack([np.zeros((len(table), 0)), *(array for _, array in columns)])
    bad = ~np.isfinite(values).all(axis=1)
    if bad.any() and not drop_missing:
        missing = {name: (~np.isfinite(array).all(axis=1)).sum() for name, array in columns}
        parts = listed(f"{shortened(name)!r} {count}" for name, count in missing.items() if count)
        raise TableError(
            f"{table.source}: {bad.sum()} of {len(table)} rows have no finite number in a column "
            f"({parts}), the first of them {table.unit} {table.rows[bad.argmax()]}; fill them in, "
            "or leave such rows out with drop_missing=True"
        )
    kept = np.flatnonzero(~bad)
    return values[kept], kept


def check_names(table: Any, names: Sequence[str]) -> None:
    """Refuse names that are not columns of a table or file."""
    for name in names:
        if name not in table.names:
            raise TableError(
                f"{table.source} has no column {shortened(repr(name))}; its columns are "
                f"{listed(table.names)}{nearest(name, table.names)}"
            )


def check_roles(inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Refuse a model without inputs or outputs, and a column that is named twice."""
    if not outputs or not inputs or len({*inputs, *outputs}) < len(inputs) + len(outputs):
        raise TableError(
            "expected at least one target and one input, and no column twice, got "
            f"{listed(outputs) or 'no target'} and {listed(inputs) or 'no input'}"
        )


def check_headings(source: Any, headings: list[str]) -> None:
    twice = sorted({one for one in headings if headings.count(one) > 1 and one})
    if twice:
        raise TableError(f"{source} has duplicate column names: {listed(map(repr, twice))}")


def join_tables(tables: Sequence[Table]) -> Table:
    rows = np.concatenate([table.rows for table in tables])
    return replace(tables[0], data=pa.concat_tables([one.data for one in tables]), rows=rows)


def list_of_names(what: str, given: Any) -> list[str]:
    """A list of column names; a single string, which is a list of letters too, is refused."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TableError(f"{what} must be a list of column names, got {shortened(repr(given))}")
    return list(given)


@contextmanager
def parsing_errors(source: Any, kind: str) -> Iterator[None]:
    """Convert any parsing error into a ``TableError`` with the source's name."""
    # Arrow and csv also have their own exception classes.
    wrong = (OSError, ValueError, TypeError, KeyError, ArithmeticError, MemoryError, csv.Error)
    try:
        yield
    except (TableError, AmbiguousDatesError):
        raise
    except (*wrong, pa.ArrowException) as error:
        reason = shortened(" ".join(str(error).split()), MOST_QUOTED)
        raise TableError(f"{source} cannot be read as a {kind}: {reason}") from error


@contextmanager
def disk_errors(path: Path, action: str) -> Iterator[None]:
    """Convert disk errors into a ``TableError`` with the file or missing folder."""
    try:
        yield
    except OSError as error:
        why: Any = error.strerror or error
        if not path.parent.is_dir():
            why = f"there is no folder {path.parent}"
        raise TableError(f"{path} cannot be {action}: {why}") from error


def _dates(
    column: Any, missing: Collection[str | float], decimal: str, date_order: str | None
) -> Numbers:
    column = to_timestamps(column)
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        unit = pa.duration("ns") if pa.types.is_duration(kind) else pa.timestamp("ns")
        dates = column.cast(unit, safe=False).to_numpy(zero_copy_only=False)
        return Numbers(np.where(np.isnat(dates), np.nan, dates.astype(float) / 1e9), {})
    texts = _numbers(column, missing, decimal).texts
    seconds, rows = np.full(len(column), np.nan), list(texts)
    seconds[rows] = read_dates(list(texts.values()), date_order)
    return Numbers(seconds, {row: texts[row] for row in rows if np.isnan(seconds[row])})


def _labels(column: Any, decimal: str) -> list[str]:
    array = column.combine_chunks()
    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    coded = array.dictionary_encode(null_encoding="encode")  # each label once
    whole = re.compile(rf"\A(-?\d+)\{decimal}0+\Z")

    def label(cell: Any) -> str:
        if isinstance(cell, float):
            return str(int(cell)) if cell.is_integer() else repr(cell)
        return whole.sub(r"\1", _text(cell))

    names = list(map(label, coded.dictionary.to_pylist()))
    return np.array(names, object)[coded.indices.to_numpy()].tolist()


def parse_number(text: str, decimal: str = ".") -> float:
    """Parse a number; 1.234 with a decimal comma and Python's 1_234 are refused."""
    if "_" in text or (decimal != "." and "." in text):
        raise ValueError(text)
    return float(text.replace(decimal, "."))


def _numbers(column: Any, missing: Collection[str | float], decimal: str) -> Numbers:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    primitive = pa.types.is_primitive(kind) and not pa.types.is_temporal(kind)
    if primitive or pa.types.is_decimal(kind):
        return Numbers(_floats(column), {})
    texts = _texts(column)
    mark = re.escape(decimal)
    plain = pc.match_substring_regex(texts, rf"^-?(\d+{mark}?\d*|{mark}\d+)([eE][+-]?\d+)?$")
    plain = pc.fill_null(plain, False)
    numerals = pc.if_else(plain, texts, None)
    values = _floats(numerals if decimal == "." else pc.replace_substring(numerals, decimal, "."))
    others = np.flatnonzero(~plain.to_numpy(zero_copy_only=False))
    words = MISSING | {str(marker).strip().casefold() for marker in missing}
    left = {}
    for index, text in zip(others.tolist(), texts.take(pa.array(others)).to_pylist(), strict=True):
        try:
            values[index] = parse_number(text or "", decimal)
        except ValueError:
            if text and text.casefold() not in words:
                left[index] = text
    return Numbers(values, left)


def _floats(column: Any) -> np.ndarray:
    return np.array(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), float)


def _texts(column: Any) -> Any:
    """A column as one array of stripped texts."""
    array = column.combine_chunks()
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        array = pa.array([None if cell is None else str(cell) for cell in array.to_pylist()])
    return pc.utf8_trim_whitespace(array.cast(pa.large_string()))


def _text(cell: Any) -> str:
    return "" if cell is None or cell != cell else str(cell).strip()


def sentinels(values: np.ndarray) -> list[float]:
    """Extreme values that look like markers for missing ones, such as -999 among temperatures."""
    distinct = np.unique(values[np.isfinite(values)])
    low = next((value for value in distinct if not _likely(value)), None)
    if low is None:
        return []
    high = next(value for value in reversed(distinct) if not _likely(value))
    with np.errstate(over="ignore"):
        beyond = np.maximum(low - distinct, distinct - high)
        return distinct[beyond > np.maximum(high - low, FAR * np.abs(distinct))].tolist()


def _likely(value: float) -> bool:
    """Whether a number has only nines, in single or double precision, or is a type's limit."""
    written = (f"{abs(value):.{digits}g}".split("e")[0].replace(".", "") for digits in (7, 15))
    nines = any(len(digits) > 1 and set(digits) == {"9"} for digits in written)
    return nines or value in LIMITS or abs(value) >= HUGE
