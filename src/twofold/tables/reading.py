"""Tables from CSV and Parquet files and from data frames: whole, or a block of rows at a time. CSV
files are parsed by Python's ``csv``, which, unlike Arrow, knows the line numbers of rows and
accepts rows of any length."""

import csv
import io
import os
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, lookup
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from twofold.core.naming import listed
from twofold.tables import table as tables
from twofold.tables.arrow import pa, parquet
from twofold.tables.table import Table, TableError, disk_errors, parsing_errors

PARQUET = (".parquet", ".pq")
# Bytes read at a time from a column of a Parquet file: few compared with a page (1 MiB by default).
BUFFER_BYTES = 2**16
WHOLE_ROWS = 2**16
DELIMITERS = ",;\t|"
# Numbers with decimal commas in semicolon-separated files; the number of rows inspected for them.
SEEN = 200
COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")
# Byte order marks and their encodings.
MARKS = {BOM_UTF8: "utf-8-sig", BOM_UTF16_LE: "utf-16", BOM_UTF16_BE: "utf-16"}
PARSED_ROWS = 2**12  # at a time
Record: TypeAlias = tuple[int, list[str]]


class CsvFile:
    """A CSV file with a heading; ``open_bytes`` opens it from its start, more than once."""

    def __init__(
        self, path: Path, open_bytes: Callable[[], BinaryIO], delimiter: str | None, encoding: str
    ):
        if not (delimiter is None or (isinstance(delimiter, str) and len(delimiter) == 1)):
            raise TableError(f"delimiter must be one character, got {delimiter!r}")
        self.source, self._open = str(path), open_bytes
        with disk_errors(path, "read"), open_bytes() as file:
            self._encoding = _encoding(path, file.read(100), encoding)
        with self._decoding(), self._open_text() as text:
            self._delimiter = delimiter or max(DELIMITERS, key=text.readline().count)
            text.seek(0)
            first = next(csv.reader(text, delimiter=self._delimiter), [])
        headings = [heading.strip() for heading in first]
        if not any(headings):
            raise TableError(f"{path} is empty: expected a heading and rows")
        tables.check_headings(path, headings)
        self.names = [heading for heading in headings if heading]
        # Columns without a heading are never used, but need distinct names.
        self._headings = [one or " " * (place + 1) for place, one in enumerate(headings)]

    def count_rows(self) -> int | None:
        """None: unknown before reading."""
        return None

    @cached_property
    def decimal(self) -> str:
        """The decimal mark: a comma if a column uses it and it is not the delimiter."""
        if self._delimiter == ",":
            return "."
        columns = zip(*(cells for _, cells in islice(self._records(), SEEN)), strict=True)
        commas = [cells for cells in columns if any(map(COMMA.fullmatch, cells))]
        return "," if any("." not in "".join(cells) for cells in commas) else "."

    def blocks(self, size: int, names: Sequence[str] | None = None) -> Iterator[Table]:
        """Blocks of at most ``size`` rows; cells are texts."""
        columns, records = list(self._headings if names is None else names), self._records()
        while parts := list(self._tables(islice(records, size), columns)):
            yield tables.join_tables(parts)

    def _tables(self, records: Iterator[Record], names: list[str]) -> Iterator[Table]:
        """A few rows at a time, because Python strings need far more memory than Arrow's."""
        while rows := list(islice(records, PARSED_ROWS)):
            columns = zip(*(cells for _, cells in rows), strict=True)
            cells = dict(zip(self._headings, columns, strict=True))
            with self._decoding():
                data = pa.table([pa.array(cells[name], pa.string()) for name in names], names)
            yield Table(self.source, "line", data, np.array([n for n, _ in rows]), self.decimal)

    def _records(self) -> Iterator[Record]:
        """Non-blank rows with their last line number; missing cells are blank."""
        width = len(self._headings)
        with self._decoding(), self._open_text() as text:
            reader = csv.reader(text, delimiter=self._delimiter)
            next(reader)
            try:
                for cells in reader:
                    if len(cells) != width:
                        self._check_width(reader.line_num, cells)
                        cells = [*cells[:width], *[""] * (width - len(cells))]
                    if any(map(str.strip, cells)):
                        yield reader.line_num, cells
            except csv.Error as error:
                raise TableError(
                    f"{self.source} cannot be read as a CSV file: line {reader.line_num} has a "
                    f"cell above the limit of {csv.field_size_limit():,} characters; close its "
                    "quotes"
                ) from error

    def _check_width(self, line: int, cells: list[str]) -> None:
        width = len(self._headings)
        if any(map(str.strip, cells[width:])):
            raise TableError(
                f"{self.source}, line {line}: {len(cells)} cells for {width} columns; if numbers "
                "have decimal commas, separate the columns by semicolons"
            )

    def _open_text(self) -> io.TextIOWrapper:
        return io.TextIOWrapper(self._open(), self._encoding, newline="")

    @contextmanager
    def _decoding(self) -> Iterator[None]:
        with parsing_errors(self.source, "CSV file"):
            try:
                yield
            except (UnicodeError, LookupError) as error:
                raise TableError(
                    f"{self.source} is not valid {self._encoding} ({error}); for a file of an "
                    "older Windows program pass encoding='cp1252'"
                ) from error


def _encoding(path: Path, start: bytes, otherwise: str) -> str:
    """The encoding given by the first bytes of a file, otherwise ``otherwise``."""
    encoding = next((name for mark, name in MARKS.items() if start.startswith(mark)), otherwise)
    try:
        name = lookup(encoding).name
    except LookupError:
        raise TableError(
            f"there is no encoding {encoding!r}; common ones are 'utf-8', 'cp1252' and 'utf-16'"
        ) from None
    if b"\0" in start and not name.startswith(("utf-16", "utf-32")):
        raise TableError(
            f"{path} is not a text file: expected CSV or Parquet; save a spreadsheet as CSV or "
            "Parquet, decompress an archive, and for UTF-16 without a byte-order mark pass "
            "encoding='utf-16-le' (in Python)"
        )
    return encoding


class ParquetFiles:
    """A Parquet file, or a folder of them in the order of their names. Besides the rows of a block,
    at most one page per column is in memory."""

    def __init__(self, path: Path):
        self.source = str(path)
        with disk_errors(path, "read"):
            self._parts = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
            path.stat()
        if not self._parts:
            raise TableError(f"the folder {path} cannot be read: it has no *.parquet file")
        schemas = []
        for part in self._parts:
            with parsing_errors(part, "Parquet file"):
                schemas.append(self._open(part).schema_arrow)
            if not schemas[-1].equals(schemas[0]):
                raise TableError(
                    f"{part} has the columns {_kinds(schemas[-1])}, but {self._parts[0]} has "
                    f"{_kinds(schemas[0])}; the files of a folder must agree"
                )
        self._headings = schemas[0].names
        tables.check_headings(path, self._headings)
        self.names = [name for name in self._headings if name.strip()]

    def count_rows(self) -> int:
        """The number of rows, from the metadata of the files."""
        return sum(self._open(part).metadata.num_rows for part in self._parts)

    def blocks(self, size: int, names: Sequence[str] | None = None) -> Iterator[Table]:
        """Blocks of at most ``size`` rows, in order; some columns, or all."""
        columns, first = list(self._headings if names is None else names), 0
        for part in self._parts:
            with parsing_errors(part, "Parquet file"):
                for batch in self._open(part).iter_batches(size, columns=columns):
                    data = pa.Table.from_batches([batch]).select(columns)
                    yield Table(self.source, "row", data, np.arange(first, first + len(batch)))
                    first += len(batch)

    def _open(self, part: Path) -> Any:
        with parsing_errors(part, "Parquet file"):
            # With pre-buffering, every row group read would stay in memory; without a buffer size,
            # each column of a row group, which may be the whole file, is read at once.
            return parquet.ParquetFile(part, pre_buffer=False, buffer_size=BUFFER_BYTES)


TableFile: TypeAlias = CsvFile | ParquetFiles


def read_table(source: Any, *, delimiter: str | None = None, encoding: str = "utf-8") -> Table:
    """Read a CSV or Parquet file, a folder of Parquet files, or a data frame (pandas, polars),
    unchanged. The default delimiter of a CSV file is the most frequent one in its heading."""
    if hasattr(source, "columns"):
        return _from_data_frame(source)
    path = _path(source)
    if _is_parquet(path):
        file: TableFile = ParquetFiles(path)
    else:
        with disk_errors(path, "read"):
            content = path.read_bytes()
        file = CsvFile(path, lambda: io.BytesIO(content), delimiter, encoding)
    blocks = list(file.blocks(WHOLE_ROWS))
    if not blocks:
        raise TableError(f"{path} has a heading but no rows")
    return tables.join_tables(blocks)


def open_table(source: Any, *, delimiter: str | None = None, encoding: str = "utf-8") -> TableFile:
    """Open a CSV or Parquet file, or a folder of Parquet files, for reading block by block."""
    path = _path(source)
    if path.exists() and not (path.is_dir() or path.is_file()):
        # The file is read more than once, and opening a pipe would block.
        raise TableError(f"{path} is neither a file nor a folder; write the table to a file first")
    if _is_parquet(path):
        return ParquetFiles(path)
    return CsvFile(path, lambda: path.open("rb"), delimiter, encoding)


def _kinds(schema: Any) -> str:
    return listed(f"{field.name} ({field.type})" for field in schema)


def _path(source: Any) -> Path:
    if not isinstance(source, str | os.PathLike):
        raise TableError(
            f"expected the path of a table, got {type(source).__name__}; for data in memory use fit"
        )
    return Path(source)


def _is_parquet(path: Path) -> bool:
    return path.is_dir() or path.suffix.lower() in PARQUET


def _from_data_frame(frame: Any) -> Table:
    names = [str(name) for name in frame.columns]
    tables.check_headings("the data frame", names)
    with parsing_errors("the data frame", "table"):
        data = pa.table([_arrow_column(frame[name]) for name in frame.columns], names)
    return Table("the data frame", "row", data, np.arange(len(frame)))


def _arrow_column(column: Any) -> Any:
    """A column of a data frame; values of mixed types become texts."""
    try:
        streams = hasattr(column, "__arrow_c_stream__")
        return pa.chunked_array(column) if streams else pa.array(column, from_pandas=True)
    except pa.ArrowException:
        absent = column.isna() if hasattr(column, "isna") else [one is None for one in column]
        pairs = zip(column, absent, strict=True)
        return pa.array([None if missing else str(cell) for cell, missing in pairs], pa.string())
