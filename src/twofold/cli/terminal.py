"""What a person at the terminal sees: results on stdout, for people or as JSON; notes and errors on
stderr; exit codes."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from twofold.core.persistence import to_plain

# A bug in twofold; a mistake in the command or its input; a failed self-test; Ctrl-C, as in shells.
FAULT, MISTAKE, UNSOUND, STOPPED = 1, 2, 3, 130
AsJson = Annotated[bool, Option("--json", help="Print the result as JSON.")]
TABLES = (".csv", ".parquet", ".pq")


class CommandError(ValueError):
    """A mistake in a command or its input."""


class StoppedError(Exception):
    """Ctrl-C was pressed; the message says what was kept."""


def exit_code(error: BaseException) -> int:
    """The exit code of an error.

    The library's own errors are all of these kinds, and say what was wrong with their input.
    """
    if isinstance(error, KeyboardInterrupt | StoppedError):
        return STOPPED
    expected = isinstance(error, ValueError | OSError | ImportError | ArithmeticError)
    return MISTAKE if expected else FAULT


def say(text: str) -> None:
    """Print a message beside the result."""
    print(f"twofold: {text}", file=sys.stderr)


def show_json(content: Any) -> None:
    """Print one JSON document; numbers that are not finite are null."""
    print(json.dumps(to_plain(content), indent=2, ensure_ascii=False, allow_nan=False))


def show_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print a table for people, numbers aligned to the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, title_justify="left")
    for index, heading in enumerate(headings):
        numbers = all(_is_number(row[index]) for row in rows)
        table.add_column(heading, justify="right" if numbers else "left", no_wrap=not index)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def _is_number(cell: str) -> bool:
    try:
        float(cell.rstrip("%"))
    except ValueError:
        return False
    return True


def show_records(columns: Mapping[str, Sequence[Any]]) -> None:
    """Print columns as a JSON list of rows."""
    rows = zip(*columns.values(), strict=True)
    show_json([dict(zip(columns, row, strict=True)) for row in rows])


def check_place(
    out: Path | None, endings: Sequence[str] = TABLES, reads: Sequence[Path | None] = ()
) -> None:
    """Refuse an output file that cannot be written, or that the command reads, before any work."""
    from twofold.tables import would_overwrite

    if out is None:
        return
    if endings and out.suffix.lower() not in endings:
        raise CommandError(f"expected a file that ends in {' or '.join(endings)}, got {out}")
    if out.is_dir() or not out.parent.is_dir():
        raise CommandError(f"{out} cannot be written: expected a file in an existing folder")
    for source in reads:
        if source is not None and would_overwrite(source, out):
            raise CommandError(f"{out} is read by this command; write to another file")
