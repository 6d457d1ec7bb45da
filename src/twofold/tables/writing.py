"""Write tables to CSV and Parquet files, at once or in blocks of rows."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from twofold.core.persistence import replace_file
from twofold.tables.arrow import pa, parquet
from twofold.tables.reading import PARQUET
from twofold.tables.table import TableError, disk_errors

ENDINGS = (".csv", *PARQUET)
Write = Callable[[Mapping[str, Any]], None]


def write_table(path: Any, columns: Mapping[str, Any]) -> None:
    """Write columns to a CSV or Parquet file; non-finite numbers become blank cells."""
    with open_writer(Path(path)) as write:
        write(columns)


@contextmanager
def open_writer(path: Path) -> Iterator[Write]:
    """A function that appends a block of columns to a CSV or Parquet file. The file appears under
    its name when it is complete; after an error nothing is left behind."""
    if path.suffix.lower() not in ENDINGS:
        raise TableError(f"a table file must end in .csv, {' or '.join(PARQUET)}, got {path}")
    kind = _parquet_writer if path.suffix.lower() in PARQUET else _csv_writer
    with disk_errors(path, "written"), replace_file(path) as temporary, kind(temporary) as write:
        yield write


def csv_text(columns: Mapping[str, Any]) -> str:
    text = io.StringIO()
    _write_csv(text, columns, True)
    return text.getvalue()


def would_overwrite(source: Path, out: Path) -> bool:
    """Whether writing ``out`` would overwrite the source table or a part of it."""
    if source.is_dir() and out.parent.exists() and out.suffix.lower() in ENDINGS:
        return out.parent.samefile(source)
    return out.exists() and source.exists() and out.samefile(source)


@contextmanager
def _parquet_writer(path: Path) -> Iterator[Write]:
    with ExitStack() as stack:
        writer: Any = None

        def write(columns: Mapping[str, Any]) -> None:
            nonlocal writer
            table = pa.table(dict(columns))
            writer = writer or stack.enter_context(parquet.ParquetWriter(path, table.schema))
            writer.write_table(table)

        yield write


@contextmanager
def _csv_writer(path: Path) -> Iterator[Write]:
    with path.open("w", newline="", encoding="utf-8") as file:
        yield lambda columns: _write_csv(file, columns, file.tell() == 0)


def _write_csv(file: Any, columns: Mapping[str, Any], heading: bool) -> None:
    """Numbers with enough digits to be read back exactly; blanks for missing values."""
    writer = csv.writer(file, lineterminator="\n")
    if heading:
        writer.writerow(columns)
    writer.writerows(zip(*map(_cells, columns.values()), strict=True))


def _cells(column: Any) -> list[Any]:
    for convert in ("to_pylist", "tolist"):
        column = getattr(column, convert)() if hasattr(column, convert) else column
    return ["" if cell is None or cell != cell else cell for cell in column]
