"""CSV files as Arrow parses them, with the lines of their rows and with cells that are missing."""

import csv
import io
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, lookup
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from twofold.tables.table import (
    Table,
    TableError,
    check_headings,
    disk_errors,
    join_tables,
    parsing_errors,
)

DELIMITERS = ",;\t|"
# Numbers as spreadsheets of many countries write them, between semicolons; so many rows tell.
SEEN = 200
COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")
# What a file may begin with to say its encoding.
MARKS = {BOM_UTF8: "utf-8-sig", BOM_UTF16_LE: "utf-16", BOM_UTF16_BE: "utf-16"}
CSV_BYTES = 2**22  # parsed at a time
LONGEST_CELL = 2**17  # bytes


class CsvFile:
    """A CSV file with a heading; ``open_bytes`` opens it from its start, more than once."""

    def __init__(
        self, path: Path, open_bytes: Callable[[], BinaryIO], delimiter: str | None, encoding: str
    ):
        if delimiter is not None and (not isinstance(delimiter, str) or len(delimiter) != 1):
            raise TableError(f"delimiter must be one character, got {delimiter!r}")
        self.source, self._open = str(path), open_bytes
        with disk_errors(path, "read"), open_bytes() as file:
            self._encoding = _encoding(path, file.read(100), encoding)
        with self._decoding(), io.TextIOWrapper(open_bytes(), self._encoding) as text:
            self._delimiter = delimiter or max(DELIMITERS, key=text.readline().count)
            text.seek(0)
            first = next(csv.reader(text, delimiter=self._delimiter), [])
        headings = [heading.strip() for heading in first]
        if not any(headings):
            raise TableError(f"{path} is empty: expected a heading and rows")
        check_headings(path, headings)
        self.names = [heading for heading in headings if heading]
        # Columns without a heading are never asked for; they only must differ.
        self._headings = [one or " " * (place + 1) for place, one in enumerate(headings)]

    def count_rows(self) -> int | None:
        """How many rows there are: None, for only reading them all tells."""
        return None

    @cached_property
    def decimal(self) -> str:
        """What marks decimals: a comma where columns are separated otherwise and one has it."""
        if self._delimiter == ",":
            return "."
        first = next(self._records(), None)
        columns = [] if first is None else first.data.slice(0, SEEN).to_pydict().values()
        commas = [cells for cells in columns if any(map(COMMA.fullmatch, cells))]
        return "," if any("." not in "".join(cells) for cells in commas) else "."

    def blocks(self, size: int, names: Sequence[str] | None = None) -> Iterator[Table]:
        """At most ``size`` rows at a time; the cells are texts."""
        columns, waiting = list(self._headings if names is None else names), list[Table]()
        for table in self._records():
            waiting.append(replace(table, data=table.data.select(columns), decimal=self.decimal))
            if sum(map(len, waiting)) >= size:
                rows = join_tables(waiting)
                starts = range(0, len(rows) - size + 1, size)
                yield from (rows.slice(start, size) for start in starts)
                waiting = [rows.slice(starts[-1] + size)]
        if any(map(len, waiting)):
            yield join_tables(waiting)

    def _records(self) -> Iterator[Table]:
        """Rows that are not blank, as they are parsed; a row has the number of its last line."""
        line = 0
        for data, wide in self._parse():
            lines = line + np.cumsum(1 + _line_breaks(data))
            for place, cells in wide.items():
                raise TableError(
                    f"{self.source}, line {lines[place]}: {cells} cells for {data.num_columns} "
                    "columns; if numbers have decimal commas, separate the columns by semicolons"
                )
            self._check_lengths(data, lines)
            kept = np.flatnonzero(~_is_blank(data))[0 if line else 1 :]  # without the heading
            line = int(lines[-1])
            found = Table(self.source, "line", data.rename_columns(self._headings), lines)
            yield found.take(kept)

    def _check_lengths(self, data: Any, lines: np.ndarray) -> None:
        """Refuse a cell that swallowed what follows it."""
        import pyarrow.compute as pc

        for column in data.columns:
            lengths = pc.binary_length(column).to_numpy()
            if len(lengths) and lengths.max() > LONGEST_CELL:
                raise TableError(
                    f"{self.source} cannot be read as a CSV file: line {lines[lengths.argmax()]} "
                    f"has a cell of {lengths.max():,} bytes, more than the limit of "
                    f"{LONGEST_CELL:,}; close its quotes"
                )

    def _parse(self) -> Iterator[tuple[Any, dict[int, int]]]:
        """Records in their order, the heading first, with blanks where cells are missing; and the
        number of cells of those that have too many."""
        import pyarrow as pa
        import pyarrow.csv as arrow_csv

        ragged: dict[int, str] = {}

        def note(row: Any) -> str:
            ragged[row.number] = row.text
            return "skip"

        kinds = {str(place): pa.string() for place in range(len(self._headings))}
        with self._decoding(), self._open() as file:
            reader = arrow_csv.open_csv(
                file,
                arrow_csv.ReadOptions(
                    use_threads=False, block_size=CSV_BYTES, column_names=list(kinds),
                    encoding=self._encoding,
                ),
                arrow_csv.ParseOptions(
                    delimiter=self._delimiter, newlines_in_values=True, ignore_empty_lines=False,
                    invalid_row_handler=note,
                ),
                arrow_csv.ConvertOptions(check_utf8=False, column_types=kinds),
            )  # fmt: skip
            last, batch = 0, next(reader, None)
            while batch is not None or ragged:
                data = reader.schema.empty_table() if batch is None else pa.table(batch)
                numbers = last + 1 + np.arange(len(data) + len(ragged))
                numbers = numbers[~np.isin(numbers, list(ragged))][: len(data)]
                last = max(ragged) if batch is None else max(last, *numbers[-1:].tolist())
                between = {one: ragged.pop(one) for one in sorted(ragged) if one <= last}
                if len(data) or between:
                    yield _insert(data, numbers, between, self._delimiter)
                batch = next(reader, None) if batch is not None else None

    @contextmanager
    def _decoding(self) -> Iterator[None]:
        with parsing_errors(self.source, "CSV file"):
            try:
                yield
            except (UnicodeError, LookupError) as error:
                raise TableError(
                    f"{self.source} is not written in {self._encoding} ({error}); for a file of an "
                    "older Windows program pass encoding='cp1252'"
                ) from error


def _insert(
    data: Any, numbers: np.ndarray, ragged: dict[int, str], delimiter: str
) -> tuple[Any, dict[int, int]]:
    """Records among which those of another length are put in their places."""
    import pyarrow as pa

    if not ragged:
        return data, {}
    width, order = data.num_columns, np.sort([*numbers, *ragged])
    texts = (csv.reader(io.StringIO(text, ""), delimiter=delimiter) for text in ragged.values())
    split = {one: next(cells, []) for one, cells in zip(ragged, texts, strict=True)}
    wide = {
        int(np.searchsorted(order, one)): len(cells)
        for one, cells in split.items()
        if any(cell.strip() for cell in cells[width:])
    }
    rows = [[*cells[:width], *[""] * (width - len(cells))] for cells in split.values()]
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    joined = pa.concat_tables([data, pa.table(columns, data.column_names)])
    return joined.take(np.argsort([*numbers, *ragged])), wide


def _line_breaks(data: Any) -> np.ndarray:
    """How many line breaks the cells of each row have."""
    import pyarrow.compute as pc

    found = np.zeros(len(data), int)
    for column in data.columns:
        if any(pc.any(pc.match_substring(column, mark)).as_py() for mark in "\n\r"):
            found += pc.count_substring_regex(column, "\r\n?|\n").to_numpy()
    return found


def _is_blank(data: Any) -> np.ndarray:
    """Whether no cell of a row says anything."""
    import pyarrow.compute as pc

    blank = np.ones(len(data), bool)
    for column in data.columns:
        if blank.any():
            blank &= pc.equal(pc.utf8_trim_whitespace(column), "").to_numpy()
    return blank


def _encoding(path: Path, start: bytes, otherwise: str) -> str:
    """The encoding that the first bytes of a file say, or else this one."""
    encoding = next((name for mark, name in MARKS.items() if start.startswith(mark)), otherwise)
    try:
        name = lookup(encoding).name
    except LookupError:
        raise TableError(
            f"there is no encoding {encoding!r}; common ones are 'utf-8', 'cp1252' and 'utf-16'"
        ) from None
    if b"\0" in start and not name.startswith(("utf-16", "utf-32")):
        raise TableError(
            f"{path} is no text file: expected CSV or Parquet; save a spreadsheet as CSV or "
            "Parquet, unpack what is packed, and for UTF-16 without a mark pass "
            "encoding='utf-16-le' (in Python)"
        )
    # Arrow itself would pass UTF-8 on without decoding it, and so without an error.
    return "utf-8-sig" if name == "utf-8" else encoding
