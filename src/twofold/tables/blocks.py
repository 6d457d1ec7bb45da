"""Tables too large for memory, read and written a block of rows at a time."""

import csv
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from twofold.core.naming import listed, nearest, shortened
from twofold.tables import cells, files
from twofold.tables.errors import TableError

# Of what another library has to say of a file.
MOST_SAID = 300
# So much of a column of a Parquet file is read at a time: little beside a page, which has 1 MiB
# unless its writer wanted another size.
BUFFER_BYTES = 2**16


class Block(NamedTuple):
    """Some rows as they were found: their columns, and the number of each row in the source."""

    columns: dict[str, Any]
    rows: np.ndarray


class Source(Protocol):
    """A table on disk: where, what a row is called there, its columns, what marks decimals."""

    path: Path
    unit: str
    names: list[str]
    decimal: str

    def rows(self) -> int | None:
        """How many there are; None where only reading them tells."""
        ...

    def blocks(self, names: Sequence[str], size: int) -> Iterator[Block]:
        """Columns of some names, at most ``size`` rows at a time, in their order."""
        ...


class ParquetSource:
    """A Parquet file, or a folder of them in the order of their names.

    No more than a page of each column is in memory beside the rows of a block.
    """

    unit, decimal = "row", "."

    def __init__(self, path: Path):
        self.path = path
        with files.named(path, "read"):
            path.stat()
        self._parts = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not self._parts:
            raise TableError(f"the folder {path} has no *.parquet file")
        schema = self._schema(self._parts[0])
        with _readable(self._parts[0], "Parquet"):
            self.names = schema.names
        twice = sorted({name for name in self.names if self.names.count(name) > 1})
        if twice:
            raise TableError(f"{path} has two columns of one name: {listed(map(repr, twice))}")
        for part in self._parts[1:]:
            other = self._schema(part)
            if not other.equals(schema):
                raise TableError(
                    f"{part} has the columns {_kinds(other)}, but {self._parts[0]} has "
                    f"{_kinds(schema)}; the files of a folder must agree"
                )

    def rows(self) -> int:
        """As the files say."""
        return sum(self._open(part).metadata.num_rows for part in self._parts)

    def blocks(self, names: Sequence[str], size: int) -> Iterator[Block]:
        """Columns as Arrow has them."""
        first = 0
        for part in self._parts:
            for batch in self._batches(part, names, size):
                columns = {name: batch.column(name) for name in names}
                yield Block(columns, np.arange(first, first + batch.num_rows))
                first += batch.num_rows

    def _batches(self, part: Path, names: Sequence[str], size: int) -> Iterator[Any]:
        batches = self._open(part).iter_batches(size, columns=list(names))
        while True:
            with _readable(part, "Parquet"):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _schema(self, part: Path) -> Any:
        with _readable(part, "Parquet"):
            return self._open(part).schema_arrow

    def _open(self, part: Path) -> Any:
        parquet = files.pyarrow_module("pyarrow.parquet")
        with _readable(part, "Parquet"):
            # Buffered ahead, every row group that was read would stay in memory; without a buffer's
            # size each column of a row group, which may be the whole file, is read at once.
            return parquet.ParquetFile(part, pre_buffer=False, buffer_size=BUFFER_BYTES)


def _kinds(schema: Any) -> str:
    return listed(f"{field.name} ({field.type})" for field in schema)


def _reading_errors() -> tuple[type[Exception], ...]:
    """What a file that is not sound may raise; some errors of Arrow are of no kind but its own."""
    arrow = sys.modules.get("pyarrow")
    own = () if arrow is None else (arrow.ArrowException,)
    return (OSError, ValueError, KeyError, MemoryError, csv.Error, *own)


@contextmanager
def _readable(path: Path, kind: str) -> Iterator[None]:
    """Whatever is wrong with a file, by its name and in one sentence."""
    try:
        yield
    except TableError:
        raise
    except _reading_errors() as error:
        said = shortened(" ".join(str(error).split()), MOST_SAID)
        raise TableError(f"{path} cannot be read as a {kind} file: {said}") from error


class CsvSource:
    """A CSV file with a heading, in UTF-8 unless its first bytes say otherwise."""

    unit = "line"

    def __init__(self, path: Path):
        self.path = path
        with files.named(path, "read"), path.open("rb") as file:
            self._encoding = files.encoding_of(file.read(4), "utf-8-sig")
        with self._opened() as (reader, headings):
            delimiter = reader.dialect.delimiter
        self.names = [name for name in headings if name.strip()]
        first = next(self.blocks(self.names, files.SEEN), Block({}, np.arange(0)))
        self.decimal = files.decimal_of(delimiter, first.columns)

    def rows(self) -> None:
        """Only reading them all tells."""
        return None

    def blocks(self, names: Sequence[str], size: int) -> Iterator[Block]:
        """Columns as lists of texts."""
        with self._opened() as (reader, headings):
            places = [headings.index(name) for name in names]
            while True:
                begun = reader.line_num
                with _readable(self.path, "CSV"):
                    lines, records = files.next_records(self.path, reader, len(headings), size)
                if reader.line_num == begun:
                    return
                if records:
                    columns = {
                        n: [r[i] for r in records] for n, i in zip(names, places, strict=True)
                    }
                    yield Block(columns, np.array(lines))

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, list[str]]]:
        with self.path.open(encoding=self._encoding, newline=None) as file:
            with _readable(self.path, "CSV"):
                found = files.begun(self.path, file)
            yield found


def open_source(path: str | os.PathLike[str]) -> Source:
    """A CSV or Parquet file, or a folder of Parquet files."""
    if not isinstance(path, str | os.PathLike):
        raise TableError(
            f"expected the path of a table, got {type(path).__name__}; what is in memory is "
            "fitted with fit"
        )
    place = Path(path)
    if place.exists() and not (place.is_dir() or place.is_file()):
        # It would be read more than once, and whoever opens a pipe waits for its other end.
        raise TableError(f"{place} is neither a file nor a folder; write the table to a file first")
    if place.is_dir() or place.suffix.lower() in files.PARQUET:
        return ParquetSource(place)
    return CsvSource(place)


def list_of_names(what: str, given: Any) -> list[str]:
    """Names of columns as they were given; a lone word would be taken for a list of its letters."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TableError(f"{what} must be a list of names of columns, got {shortened(repr(given))}")
    return list(given)


def check_names(source: Source, names: Sequence[str]) -> None:
    """Refuse names of columns that are not there."""
    for name in names:
        if name not in source.names:
            raise TableError(
                f"{source.path} has no column {shortened(repr(name))}; its columns are "
                f"{listed(source.names)}{nearest(name, source.names)}"
            )


def numbers(
    source: Source, block: Block, names: Sequence[str], drop_missing: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Columns of a block as numbers ``[N, C]``, and which of its rows they are: all, or those that
    have a value in every column."""
    columns = [_column(source, block, name) for name in names]
    values = np.stack(columns, axis=1)
    missing = ~np.isfinite(values)
    if missing.any() and not drop_missing:
        row, column = np.argwhere(missing)[0]
        raise TableError(
            f"{source.path}: column {shortened(names[column])!r} has no finite number in "
            f"{source.unit} {block.rows[row]}; fill it in, or leave such rows out (drop_missing)"
        )
    kept = np.flatnonzero(~missing.any(axis=1))
    return values[kept], kept


def _column(source: Source, block: Block, name: str) -> np.ndarray:
    with _readable(source.path, "Parquet"):
        column = _as_numpy(block.columns[name])
    values, texts = cells.numbers(column, (), source.decimal)
    if texts:
        row, text = next(iter(texts.items()))
        raise TableError(
            f"{source.path}: column {shortened(name)!r} must be numbers, but {source.unit} "
            f"{block.rows[row]} has {shortened(text)!r}; leave the column out, or write it as "
            "numbers"
        )
    return values


def _as_numpy(column: Any) -> Any:
    return column.to_numpy(zero_copy_only=False) if hasattr(column, "to_numpy") else column


@contextmanager
def writing(path: Path) -> Iterator[Any]:
    """Gives a function that adds a block of columns to a CSV or Parquet file.

    What is written has another name until all of it is there; after an error nothing is left.
    """
    files.check_ending(path)
    kind = _parquet_writer if path.suffix.lower() in files.PARQUET else _csv_writer
    with files.named(path, "written"), files.replacing(path) as temporary, kind(temporary) as write:
        yield write


@contextmanager
def _parquet_writer(path: Path) -> Iterator[Any]:
    arrow, parquet = (files.pyarrow_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    writers: list[Any] = []

    def write(columns: dict[str, Any]) -> None:
        table = arrow.table(columns)
        if not writers:
            writers.append(parquet.ParquetWriter(path, table.schema))
        writers[0].write_table(table)

    try:
        yield write
    finally:
        for writer in writers:
            writer.close()


@contextmanager
def _csv_writer(path: Path) -> Iterator[Any]:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        headed = False

        def write(columns: dict[str, Any]) -> None:
            nonlocal headed
            if not headed:
                writer.writerow(columns)
                headed = True
            found = map(_plain, columns.values())
            writer.writerows(zip(*map(files.cells, found), strict=True))

        yield write


def _plain(column: Any) -> Any:
    return column.to_pylist() if hasattr(column, "to_pylist") else column
