"""Columns of a table as a command names them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from twofold.cli.errors import CommandError
from twofold.cli.settings import words
from twofold.tables import Table, TableError, TableFile, check_names


def named_columns(table: Table | TableFile, text: str) -> list[str]:
    """``a,b,c``, or the one column of that very name; all of them must be there."""
    names = [text] if text in table.names else words(text)
    check_names(table, names)
    return names


def read_values(
    table: Table, names: Sequence[str], drop_missing: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Columns of a whole table as numbers, and which of its rows they are."""
    with command_words():
        values, kept = table.values(names, drop_missing)
    if not len(kept):
        raise CommandError(f"{table.source}: no row has a value in every column")
    return values, kept


@contextmanager
def command_words() -> Iterator[None]:
    """Errors of a table that name the option of the command line."""
    try:
        yield
    except TableError as error:
        raise CommandError(str(error).replace("drop_missing=True", "--drop-missing")) from error
