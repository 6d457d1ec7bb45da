"""Tables from files and data frames, as they are, and into files."""

import codecs
import csv
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from twofold.core.naming import listed
from twofold.tables.errors import TableError

DELIMITERS = ",;\t|"
PARQUET = (".parquet", ".pq")
TABLES = (".csv", *PARQUET)
# As spreadsheets of many countries write numbers, between semicolons; so many rows tell.
SEEN = 200
COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")
# What a file may begin with to say how it is written.
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class Table(NamedTuple):
    """A table as it was found: its columns, the number of each row in the source, and what the
    columns of a CSV are separated by."""

    source: str
    unit: str
    columns: dict[str, Any]
    rows: np.ndarray
    delimiter: str = ""

    @property
    def decimal(self) -> str:
        """What marks decimals."""
        return decimal_of(self.delimiter, self.columns)


def read(source: Any, delimiter: str | None, encoding: str) -> Table:
    """A CSV or Parquet file, or a pandas ``DataFrame`` (or anything with columns like it)."""
    if hasattr(source, "columns"):
        names = [str(name) for name in source.columns]
        columns = {
            name: _array(source[key]) for name, key in zip(names, source.columns, strict=True)
        }
        return Table("the data frame", "row", columns, np.arange(len(source)))
    path = Path(source)
    if path.suffix.lower() in PARQUET:
        return _read_parquet(path)
    return _read_csv(path, delimiter, encoding)


def _array(column: Any) -> np.ndarray:
    """A column of a data frame; what has no value is NaN, or None among words."""
    array = column.to_numpy()
    if array.dtype.kind != "O":
        return array
    absent = column.isna().to_numpy() if hasattr(column, "isna") else np.zeros(len(array), bool)
    array = array.copy()
    array[absent] = None
    return array


def _read_csv(path: Path, delimiter: str | None, encoding: str) -> Table:
    text = _text(path, encoding)
    if delimiter is not None and (not isinstance(delimiter, str) or len(delimiter) != 1):
        raise TableError(f"delimiter must be one character, got {delimiter!r}")
    try:
        return _parsed(path, text, delimiter)
    except (csv.Error, TypeError, ValueError) as error:
        if isinstance(error, TableError):
            raise
        raise TableError(f"{path} cannot be read as a CSV file: {error}") from error


def _parsed(path: Path, text: str, delimiter: str | None) -> Table:
    file = io.StringIO(text, newline=None)
    reader, headings = begun(path, file, delimiter)
    lines, records = next_records(path, reader, len(headings))
    if not records:
        raise TableError(f"{path} has a heading but no rows")
    columns = dict(zip(headings, map(list, zip(*records, strict=True)), strict=True))
    return Table(str(path), "line", columns, np.array(lines), reader.dialect.delimiter)


def begun(path: Path, file: Any, delimiter: str | None = None) -> tuple[Any, list[str]]:
    """A CSV reader behind the heading of an open file, and the headings; a column that has none is
    named by a blank and its place."""
    if delimiter is None:
        delimiter = max(DELIMITERS, key=file.readline().count)
        file.seek(0)
    reader = csv.reader(file, delimiter=delimiter)
    headings = [heading.strip() for heading in next(reader, [])]
    if not any(headings):
        raise TableError(f"{path} is empty: expected a heading and rows")
    _check_headings(path, headings)
    return reader, headings


def encoding_of(start: bytes, otherwise: str) -> str:
    """The encoding that the first bytes of a file say, or else this one."""
    return next((name for mark, name in MARKS.items() if start.startswith(mark)), otherwise)


def decimal_of(delimiter: str, columns: dict[str, Any]) -> str:
    """What marks decimals: a comma where numbers have it and columns are separated otherwise."""
    return "," if delimiter not in ("", ",") and _has_commas(columns) else "."


def _has_commas(columns: dict[str, Any]) -> bool:
    """Whether a column is numbers with decimal commas and none with points."""
    for column in columns.values():
        given = [one for one in column[:SEEN] if isinstance(one, str) and one.strip()]
        commas = sum(COMMA.fullmatch(one) is not None for one in given)
        if commas and not any("." in one for one in given):
            return True
    return False


def _text(path: Path, encoding: str) -> str:
    """The text of a file, in the encoding that its first bytes say, or else in this one."""
    with named(path, "read"):
        data = path.read_bytes()
    encoding = encoding_of(data, encoding)
    try:
        wide = codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))
    except LookupError:
        raise TableError(
            f"there is no encoding {encoding!r}; common ones are 'utf-8', 'cp1252' and 'utf-16'"
        ) from None
    if b"\0" in data[:100] and not wide:
        raise TableError(
            f"{path} is no text file: expected CSV or Parquet; save a spreadsheet as CSV or "
            "Parquet, unpack what is packed, and for UTF-16 without a mark pass "
            "encoding='utf-16-le' (in Python)"
        )
    try:
        return data.decode(encoding)
    except (UnicodeError, LookupError) as error:
        raise TableError(
            f"{path} is not written in {encoding} ({error}); for a file of an older Windows "
            "program pass encoding='cp1252'"
        ) from error


def next_records(
    path: Path, reader: Any, width: int, most: int | None = None
) -> tuple[list[int], list[list[str]]]:
    """Lines and cells of the rows that are not blank (of at most so many), blanks where cells are
    missing."""
    lines, records = [], []
    for cells in islice(reader, most):
        if len(cells) > width and any(cell.strip() for cell in cells[width:]):
            raise TableError(
                f"{path}, line {reader.line_num}: {len(cells)} cells for {width} columns; if "
                "numbers have decimal commas, separate the columns by semicolons"
            )
        if any(cell.strip() for cell in cells):
            lines.append(reader.line_num)
            records.append([*cells[:width], *[""] * (width - len(cells))])
    return lines, records


def _check_headings(path: Path, headings: list[str]) -> None:
    twice = sorted({one for one in headings if headings.count(one) > 1 and one})
    if twice:
        raise TableError(f"{path} has two columns of one name: {listed(map(repr, twice))}")
    # Columns without a heading are never asked for; they only must not fall together.
    headings[:] = [one or f" {place}" for place, one in enumerate(headings)]


def _read_parquet(path: Path) -> Table:
    parquet = pyarrow_module("pyarrow.parquet")
    with named(path, "read"):
        path.stat()
    try:
        table = parquet.read_table(path)
        columns = {
            name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names
        }
    except (OSError, ValueError, MemoryError, pyarrow_module("pyarrow").ArrowException) as error:
        raise TableError(f"{path} cannot be read as a Parquet file: {error}") from error
    return Table(str(path), "row", columns, np.arange(table.num_rows))


def write(path: Path, columns: dict[str, Any]) -> None:
    """Columns as a CSV or Parquet file; a blank cell where there is no number."""
    check_ending(path)
    with named(path, "written"), replacing(path) as temporary:
        if path.suffix.lower() in PARQUET:
            table = pyarrow_module("pyarrow").table(columns)
            pyarrow_module("pyarrow.parquet").write_table(table, temporary)
        else:
            _write_csv(temporary, columns)


def is_read(source: Path, out: Path) -> bool:
    """Whether a file is the table that is read, or a table in the folder that is."""
    if source.is_dir() and out.parent.exists() and out.suffix.lower() in TABLES:
        return out.parent.samefile(source)
    return out.exists() and source.exists() and out.samefile(source)


def check_ending(path: Path) -> None:
    """Refuse a file whose name says that it is no table."""
    if path.suffix.lower() not in TABLES:
        raise TableError(
            f"a table is written to a file that ends in .csv, {' or '.join(PARQUET)}, got {path}"
        )


def _write_csv(path: Path, columns: dict[str, Any]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*map(cells, columns.values()), strict=True))


def cells(column: Any) -> list[Any]:
    """Numbers with as many digits as give them back exactly; blanks for what has no value."""
    found = column.tolist() if isinstance(column, np.ndarray) else column
    return ["" if one is None or one != one else one for one in found]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write beside one that it takes the place of once it is whole."""
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}-{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def named(path: Path, done: str) -> Iterator[None]:
    """Errors of the disk, with the file or the folder that is not there."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        if not path.parent.is_dir():
            why = f"there is no folder {path.parent}"
        raise TableError(f"{path} cannot be {done}: {why}") from error


def pyarrow_module(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise TableError(
            "Parquet files need pyarrow; install it with: pip install 'twofold[parquet]', or use a "
            "CSV file"
        ) from error
