"""Tables from files and data frames, as they are, and into files."""

import codecs
import csv
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from twofold.logs.errors import LogError

DELIMITERS = ",;\t|"
PARQUET = (".parquet", ".pq")
# What a file may begin with to say how it is written.
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class Table(NamedTuple):
    """A table as it was found: its columns, and the number of each row in the source."""

    source: str
    unit: str
    columns: dict[str, Any]
    rows: np.ndarray


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
        raise LogError(f"delimiter must be one character, got {delimiter!r}")
    try:
        return _parsed(path, text, delimiter)
    except (csv.Error, TypeError, ValueError) as error:
        if isinstance(error, LogError):
            raise
        raise LogError(f"{path} cannot be read as a CSV file: {error}") from error


def _parsed(path: Path, text: str, delimiter: str | None) -> Table:
    file = io.StringIO(text, newline=None)
    if delimiter is None:
        delimiter = max(DELIMITERS, key=file.readline().count)
        file.seek(0)
    reader = csv.reader(file, delimiter=delimiter)
    headings = [heading.strip() for heading in next(reader, [])]
    if not any(headings):
        raise LogError(f"{path} is empty: expected a heading and rows")
    lines, records = _records(path, reader, len(headings))
    if not records:
        raise LogError(f"{path} has a heading but no rows")
    _check_headings(path, headings)
    columns = dict(zip(headings, map(list, zip(*records, strict=True)), strict=True))
    return Table(str(path), "line", columns, np.array(lines))


def _text(path: Path, encoding: str) -> str:
    """The text of a file, in the encoding that its first bytes say, or else in this one."""
    with _named(path, "read"):
        data = path.read_bytes()
    encoding = next((name for mark, name in MARKS.items() if data.startswith(mark)), encoding)
    try:
        wide = codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))
    except LookupError:
        raise LogError(
            f"there is no encoding {encoding!r}; common ones are 'utf-8', 'cp1252' and 'utf-16'"
        ) from None
    if b"\0" in data[:100] and not wide:
        raise LogError(
            f"{path} is not written in {encoding}, nor in any text of bytes; save a spreadsheet as "
            "CSV or Parquet, unpack what is packed, and for UTF-16 pass encoding='utf-16-le'"
        )
    try:
        return data.decode(encoding)
    except (UnicodeError, LookupError) as error:
        raise LogError(
            f"{path} is not written in {encoding} ({error}); for a file of an older Windows "
            "program pass encoding='cp1252'"
        ) from error


def _records(path: Path, reader: Any, width: int) -> tuple[list[int], list[list[str]]]:
    """Lines and cells of the rows that are not blank, blanks where cells are missing."""
    lines, records = [], []
    for cells in reader:
        if len(cells) > width and any(cell.strip() for cell in cells[width:]):
            raise LogError(
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
        raise LogError(f"{path} has two columns of one name: {', '.join(map(repr, twice))}")
    # Columns without a heading are never asked for; they only must not fall together.
    headings[:] = [one or f" {place}" for place, one in enumerate(headings)]


def _read_parquet(path: Path) -> Table:
    parquet = _pyarrow("pyarrow.parquet")
    with _named(path, "read"):
        path.stat()
    try:
        table = parquet.read_table(path)
        columns = {
            name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names
        }
    except (OSError, ValueError, MemoryError, _pyarrow("pyarrow").ArrowException) as error:
        raise LogError(f"{path} cannot be read as a Parquet file: {error}") from error
    return Table(str(path), "row", columns, np.arange(table.num_rows))


def write(path: Path, columns: dict[str, Any]) -> None:
    """Columns as a CSV or Parquet file; a blank cell where there is no number."""
    ending = path.suffix.lower()
    if ending not in (".csv", *PARQUET):
        raise LogError(
            f"a table is written to a file that ends in .csv, {' or '.join(PARQUET)}, got {path}"
        )
    with _named(path, "written"), _replacing(path) as temporary:
        if ending in PARQUET:
            _pyarrow("pyarrow.parquet").write_table(_pyarrow("pyarrow").table(columns), temporary)
        else:
            _write_csv(temporary, columns)


def _write_csv(path: Path, columns: dict[str, Any]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*map(_cells, columns.values()), strict=True))


def _cells(column: Any) -> list[Any]:
    """Numbers with as many digits as give them back exactly; blanks for what has no value."""
    cells = column.tolist() if isinstance(column, np.ndarray) else column
    return ["" if one is None or one != one else one for one in cells]


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
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
def _named(path: Path, done: str) -> Iterator[None]:
    """Errors of the disk, with the file or the folder that is not there."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        if not path.parent.is_dir():
            why = f"there is no folder {path.parent}"
        raise LogError(f"{path} cannot be {done}: {why}") from error


def _pyarrow(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise LogError(
            "Parquet files need pyarrow; install it with: pip install 'twofold[parquet]', or use a "
            "CSV file"
        ) from error
