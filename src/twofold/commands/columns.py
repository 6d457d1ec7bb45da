"""Columns of a CSV or Parquet file by name, as numbers."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from twofold.commands.errors import CommandError
from twofold.logs import cells, files
from twofold.naming import nearest

# As spreadsheets of many countries write numbers, between semicolons.
COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")


class Columns(NamedTuple):
    """Numbers ``[N, C]`` under their names; ``kept`` are their rows in the table."""

    names: list[str]
    values: np.ndarray
    kept: np.ndarray


class Sheet(NamedTuple):
    """A file as it was found."""

    table: files.Table
    decimal: str

    @property
    def names(self) -> list[str]:
        """The columns that have a name."""
        return [name for name in self.table.columns if name.strip()]

    def check(self, names: Sequence[str]) -> None:
        """Refuse names of columns that are not there."""
        for name in names:
            if name not in self.table.columns:
                raise CommandError(
                    f"{self.table.source} has no column {name!r}; its columns are "
                    f"{', '.join(self.names)}{nearest(name, self.names)}"
                )

    def numbers(self, names: Sequence[str], drop_missing: bool = False) -> Columns:
        """Columns as numbers; rows with blank cells are refused, or left out."""
        self.check(names)
        columns = [self._column(name) for name in names]
        values = np.stack(columns, axis=1) if columns else np.zeros((len(self.table.rows), 0))
        missing = ~np.isfinite(values)
        if missing.any() and not drop_missing:
            raise CommandError(self._blank(names, missing))
        kept = np.flatnonzero(~missing.any(axis=1))
        if not len(kept):
            raise CommandError(f"{self.table.source}: no row has a value in every column")
        return Columns(list(names), values[kept], kept)

    def columns_of(self, rows: np.ndarray) -> dict[str, list[Any]]:
        """All columns as they were found, of some rows."""
        found = {name: np.asarray(self.table.columns[name], object) for name in self.names}
        return {name: column[rows].tolist() for name, column in found.items()}

    def _column(self, name: str) -> np.ndarray:
        values, texts = cells.numbers(self.table.columns[name], (), self.decimal)
        if texts:
            row, text = next(iter(texts.items()))
            raise CommandError(
                f"{self.table.source}: column {name!r} must be numbers, but {len(texts)} rows have "
                f"text, the first of them {text!r} in {self.table.unit} {self.table.rows[row]}; "
                "leave the column out (--ignore, --inputs), or write it as numbers"
            )
        return values

    def _blank(self, names: Sequence[str], missing: np.ndarray) -> str:
        counts = missing.sum(axis=0)
        parts = [f"{name!r} {count}" for name, count in zip(names, counts, strict=True) if count]
        first = self.table.rows[np.flatnonzero(missing.any(axis=1))[0]]
        return (
            f"{self.table.source}: {missing.any(axis=1).sum()} of {len(missing)} rows have no "
            f"value in a column ({', '.join(parts)}), the first of them {self.table.unit} {first}; "
            "fill them in, or leave those rows out with --drop-missing"
        )


def read_sheet(path: Path) -> Sheet:
    """A CSV or Parquet file; between semicolons, numbers may have decimal commas."""
    table = files.read(path, None, "utf-8-sig")
    words = (one for column in table.columns.values() for one in column[:50])
    comma = any(isinstance(one, str) and COMMA.fullmatch(one) for one in words)
    return Sheet(table, "," if comma else ".")
