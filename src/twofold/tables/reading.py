"""Tables from CSV and Parquet files and from data frames: whole, or a block of rows at a time."""

import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from twofold.core.naming import listed
from twofold.tables.csv_file import CsvFile
from twofold.tables.table import (
    Table,
    TableError,
    check_headings,
    disk_errors,
    join_tables,
    parsing_errors,
)

PARQUET = (".parquet", ".pq")
# Read at a time of a column of a Parquet file: little beside a page, which has 1 MiB unless its
# writer wanted another size.
BUFFER_BYTES = 2**16
WHOLE_ROWS = 2**16


class ParquetFiles:
    """A Parquet file, or a folder of them in the order of their names.

    No more than a page of each column is in memory beside the rows of a block.
    """

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
        check_headings(path, self._headings)
        self.names = [name for name in self._headings if name.strip()]

    def count_rows(self) -> int:
        """As the files say."""
        return sum(self._open(part).metadata.num_rows for part in self._parts)

    def blocks(self, size: int, names: Sequence[str] | None = None) -> Iterator[Table]:
        """At most ``size`` rows at a time, in their order; of some columns, or of all."""
        import pyarrow as pa

        columns, first = list(self._headings if names is None else names), 0
        for part in self._parts:
            with parsing_errors(part, "Parquet file"):
                for batch in self._open(part).iter_batches(size, columns=columns):
                    data = pa.Table.from_batches([batch]).select(columns)
                    yield Table(self.source, "row", data, np.arange(first, first + len(batch)))
                    first += len(batch)

    def _open(self, part: Path) -> Any:
        import pyarrow.parquet as parquet

        with parsing_errors(part, "Parquet file"):
            # Buffered ahead, every row group that was read would stay in memory; without a buffer's
            # size each column of a row group, which may be the whole file, is read at once.
            return parquet.ParquetFile(part, pre_buffer=False, buffer_size=BUFFER_BYTES)


TableFile: TypeAlias = CsvFile | ParquetFiles


def read_table(source: Any, *, delimiter: str | None = None, encoding: str = "utf-8") -> Table:
    """A CSV or Parquet file, a folder of Parquet files, or a data frame (pandas, polars), as found.

    The delimiter of a CSV file is the one that its heading has most of, where it is not given.
    """
    if hasattr(source, "columns"):
        return _from_data_frame(source)
    path = _path(source)
    if _is_parquet(path):
        file = open_table(path)
    else:
        with disk_errors(path, "read"):
            content = path.read_bytes()
        file = CsvFile(path, lambda: io.BytesIO(content), delimiter, encoding)
    blocks = list(file.blocks(WHOLE_ROWS))
    if not blocks:
        raise TableError(f"{path} has a heading but no rows")
    return join_tables(blocks)


def open_table(source: Any, *, delimiter: str | None = None, encoding: str = "utf-8") -> TableFile:
    """A CSV or Parquet file, or a folder of Parquet files, to be read block by block."""
    path = _path(source)
    if path.exists() and not (path.is_dir() or path.is_file()):
        # It would be read more than once, and whoever opens a pipe waits for its other end.
        raise TableError(f"{path} is neither a file nor a folder; write the table to a file first")
    if _is_parquet(path):
        return ParquetFiles(path)
    return CsvFile(path, lambda: path.open("rb"), delimiter, encoding)


def _kinds(schema: Any) -> str:
    return listed(f"{field.name} ({field.type})" for field in schema)


def _path(source: Any) -> Path:
    if not isinstance(source, str | os.PathLike):
        raise TableError(
            f"expected the path of a table, got {type(source).__name__}; a model is fitted to what "
            "is in memory with fit"
        )
    return Path(source)


def _is_parquet(path: Path) -> bool:
    return path.is_dir() or path.suffix.lower() in PARQUET


def _from_data_frame(frame: Any) -> Table:
    import pyarrow as pa

    names = [str(name) for name in frame.columns]
    check_headings("the data frame", names)
    with parsing_errors("the data frame", "table"):
        data = pa.table([_arrow_column(frame[name]) for name in frame.columns], names)
    return Table("the data frame", "row", data, np.arange(len(frame)))


def _arrow_column(column: Any) -> Any:
    """A column of a data frame; one of values of several types as texts."""
    import pyarrow as pa

    try:
        streams = hasattr(column, "__arrow_c_stream__")
        return pa.chunked_array(column) if streams else pa.array(column, from_pandas=True)
    except pa.ArrowException:
        absent = column.isna() if hasattr(column, "isna") else [one is None for one in column]
        pairs = zip(column, absent, strict=True)
        return pa.array([None if missing else str(cell) for cell, missing in pairs], pa.string())
