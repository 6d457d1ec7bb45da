"""Columns of a CSV or Parquet file by name, as numbers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from twofold.cli.errors import CommandError
from twofold.cli.settings import words
from twofold.core.naming import listed, nearest, shortened
from twofold.tables import cells, files


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
                    f"{self.table.source} has no column {shortened(name)!r}; its columns are "
                    f"{listed(self.names)}{nearest(name, self.names)}"
                )

    def named(self, text: str) -> list[str]:
        """``a,b,c``, or the one column of that very name; all of them must be there."""
        names = [text] if text in self.table.columns else words(text)
        self.check(names)
        return names

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
        """All columns, of some rows: those of numbers as numbers, the others as they were found."""
        return {name: self._as_found(name)[rows].tolist() for name in self.names}

    def places(self, rows: np.ndarray) -> list[str]:
        """Where rows are in the file: ``line 17``."""
        shift = 1 if self.table.unit == "row" else 0
        return [f"{self.table.unit} {number + shift}" for number in self.table.rows[rows]]

    def _as_found(self, name: str) -> np.ndarray:
        values, texts = cells.numbers(self.table.columns[name], (), self.decimal)
        return np.asarray(self.table.columns[name], object) if texts else values

    def _column(self, name: str) -> np.ndarray:
        values, texts = cells.numbers(self.table.columns[name], (), self.decimal)
        if texts:
            row, text = next(iter(texts.items()))
            raise CommandError(
                f"{self.table.source}: column {shortened(name)!r} must be numbers, but "
                f"{len(texts)} rows have text, the first of them {shortened(text)!r} in "
                f"{self.table.unit} {self.table.rows[row]}; "
                "leave the column out (--ignore, --inputs), or write it as numbers"
            )
        return values

    def _blank(self, names: Sequence[str], missing: np.ndarray) -> str:
        counts = missing.sum(axis=0)
        parts = [
            f"{shortened(name)!r} {count}"
            for name, count in zip(names, counts, strict=True)
            if count
        ]
        first = self.table.rows[np.flatnonzero(missing.any(axis=1))[0]]
        return (
            f"{self.table.source}: {missing.any(axis=1).sum()} of {len(missing)} rows have no "
            f"finite value in a column ({listed(parts)}), the first of them {self.table.unit} "
            f"{first}; fill them in, or leave those rows out with --drop-missing"
        )


def read_sheet(path: Path) -> Sheet:
    """A CSV or Parquet file; where columns are not separated by commas, numbers may have them."""
    table = files.read(path, None, "utf-8-sig")
    return Sheet(table, table.decimal)
