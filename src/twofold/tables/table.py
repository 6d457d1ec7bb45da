"""``Table``: rows of named columns as they were found, over an Arrow table."""

import csv
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twofold.core.naming import listed, nearest, shortened
from twofold.tables.cells import Numbers, to_labels, to_numbers, to_texts, to_times

if TYPE_CHECKING:
    import pyarrow

MOST_SAID = 300  # characters of another library's message


class TableError(ValueError):
    """A table that cannot be read or written, or that does not hold what was asked for."""


@dataclass(frozen=True, eq=False)
class Table:
    """A table, or a block of rows of a larger one.

    ``unit`` is what a row is called in the ``source`` (a line of a CSV file), and ``rows`` holds
    the number of each. ``decimal`` marks decimals in texts.
    """

    source: str
    unit: str
    data: "pyarrow.Table"
    rows: np.ndarray
    decimal: str = "."

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def names(self) -> list[str]:
        """The columns that have a name."""
        return [name for name in self.data.column_names if name.strip()]

    def take(self, index: np.ndarray) -> "Table":
        """Some rows, by their place in this table."""
        if len(index) == len(self) and np.array_equal(index, np.arange(len(self))):
            return self
        return replace(self, data=self.data.take(index), rows=self.rows[index])

    def slice(self, start: int, length: int | None = None) -> "Table":
        """Rows one after the other."""
        end = None if length is None else start + length
        return replace(self, data=self.data.slice(start, length), rows=self.rows[start:end])

    def places(self, index: np.ndarray) -> list[str]:
        """Where rows are in the source: ``line 17``."""
        return [f"{self.unit} {number}" for number in self.rows[index]]

    def numbers(
        self, name: str, missing: Collection[str | float] = (), decimal: str | None = None
    ) -> Numbers:
        """A column as numbers; ``missing`` are further markers for missing values."""
        return self._convert(to_numbers, name, missing, decimal or self.decimal)

    def times(
        self, name: str, missing: Collection[str | float] = (), decimal: str | None = None
    ) -> Numbers:
        """A column of numbers or of dates, the latter as seconds since the first one."""
        return self._convert(to_times, name, missing, decimal or self.decimal)

    def labels(self, name: str, decimal: str | None = None) -> list[str]:
        """A column of names, blank where there is none."""
        return self._convert(to_labels, name, decimal or self.decimal)

    def texts(self, name: str) -> list[str]:
        """A column as texts, blank where there is no value."""
        return self._convert(to_texts, name)

    def values(
        self, names: Sequence[str], drop_missing: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Columns as numbers ``[N, C]``, and which rows they are: all of them, or with
        ``drop_missing`` those that have a finite number in every column."""
        check_names(self, names)
        columns = [self._only_numbers(name) for name in names]
        values = np.stack(columns, axis=1) if columns else np.zeros((len(self), 0))
        missing = ~np.isfinite(values)
        if missing.any() and not drop_missing:
            counts = zip(names, missing.sum(axis=0).tolist(), strict=True)
            parts = listed(f"{shortened(name)!r} {count}" for name, count in counts if count)
            rows = np.flatnonzero(missing.any(axis=1))
            raise TableError(
                f"{self.source}: {len(rows)} of {len(self)} rows have no finite number in a column "
                f"({parts}), the first of them {self.unit} {self.rows[rows[0]]}; fill them in, or "
                "leave such rows out with drop_missing=True"
            )
        kept = np.flatnonzero(~missing.any(axis=1))
        return values[kept], kept

    def to_lists(self) -> dict[str, list[Any]]:
        """All columns: those of numbers as numbers, the others as they are."""
        found = {}
        for name in self.data.column_names:
            values, texts = self.numbers(name)
            found[name] = self.data[name].to_pylist() if texts else values.tolist()
        return found

    def _convert(self, convert: Callable[..., Any], name: str, *options: Any) -> Any:
        with parsing_errors(self.source, "CSV file" if self.unit == "line" else "Parquet file"):
            return convert(self.data[name], *options)

    def _only_numbers(self, name: str) -> np.ndarray:
        values, texts = self.numbers(name)
        if texts:
            row, text = next(iter(texts.items()))
            rows = f"{len(texts)} rows have" if len(texts) > 1 else "1 row has"
            raise TableError(
                f"{self.source}: column {shortened(name)!r} must be numbers, but {rows} text, "
                f"first {shortened(text)!r} in {self.unit} {self.rows[row]}; leave the column out, "
                "or write it as numbers"
            )
        return values


def check_names(table: Any, names: Sequence[str]) -> None:
    """Refuse columns that a table or a file does not have."""
    for name in names:
        if name not in table.names:
            raise TableError(
                f"{table.source} has no column {shortened(repr(name))}; its columns are "
                f"{listed(table.names)}{nearest(name, table.names)}"
            )


def check_headings(source: Any, headings: list[str]) -> None:
    """Refuse two columns of one name."""
    twice = sorted({one for one in headings if headings.count(one) > 1 and one})
    if twice:
        raise TableError(f"{source} has two columns of one name: {listed(map(repr, twice))}")


def join_tables(tables: Sequence[Table]) -> Table:
    """Blocks of one table, one after the other."""
    import pyarrow as pa

    rows = np.concatenate([table.rows for table in tables])
    return replace(tables[0], data=pa.concat_tables([one.data for one in tables]), rows=rows)


def list_of_names(what: str, given: Any) -> list[str]:
    """Names of columns as given; a single string would be taken for a list of its letters."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TableError(f"{what} must be a list of column names, got {shortened(repr(given))}")
    return list(given)


@contextmanager
def parsing_errors(source: Any, kind: str) -> Iterator[None]:
    """Whatever is wrong with the content of a source, by its name and in one sentence."""
    import pyarrow as pa

    # Some errors of Arrow and of csv are of no kind but their own.
    wrong = (OSError, ValueError, TypeError, KeyError, ArithmeticError, MemoryError, csv.Error)
    try:
        yield
    except TableError:
        raise
    except (*wrong, pa.ArrowException) as error:
        said = shortened(" ".join(str(error).split()), MOST_SAID)
        raise TableError(f"{source} cannot be read as a {kind}: {said}") from error


@contextmanager
def disk_errors(path: Path, action: str) -> Iterator[None]:
    """Errors of the disk, with the file or the folder that is not there."""
    try:
        yield
    except OSError as error:
        why: Any = error.strerror or error
        if not path.parent.is_dir():
            why = f"there is no folder {path.parent}"
        raise TableError(f"{path} cannot be {action}: {why}") from error
