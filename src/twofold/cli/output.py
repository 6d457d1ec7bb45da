"""Results on stdout, for people or as JSON; everything else on stderr."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from twofold.cli.errors import CommandError

AsJson = Annotated[bool, typer.Option("--json", help="The result as JSON, for machines.")]
TABLES = (".csv", ".parquet", ".pq")


def say(text: str) -> None:
    """A word to the person at the terminal, beside the result."""
    print(f"twofold: {text}", file=sys.stderr)


def show_json(content: Any) -> None:
    """One JSON document; what is not a finite number is null."""
    print(json.dumps(plain(content), indent=2, ensure_ascii=False, allow_nan=False))


def show_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """A table for people, numbers to the right."""
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


def records(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Columns as a list of rows."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def check_place(
    out: Path | None, endings: Sequence[str] = (), reads: Sequence[Path | None] = ()
) -> None:
    """Refuse a place that a file cannot be written to, or that holds what is read, beforehand."""
    from twofold.tables import would_overwrite

    if out is None:
        return
    if endings and out.suffix.lower() not in endings:
        raise CommandError(f"expected a file that ends in {' or '.join(endings)}, got {out}")
    if out.is_dir() or not out.parent.is_dir():
        raise CommandError(f"{out} cannot be written: expected a file in a folder that exists")
    for one in reads:
        if one is not None and would_overwrite(one, out):
            raise CommandError(f"{out} is read by this command; write to another file")


def plain(value: Any) -> Any:
    """As JSON has it: what is not finite is null."""
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return None
    return str(value) if isinstance(value, Path) else value
