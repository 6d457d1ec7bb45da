"""Model files of the command line: a fitted model with the columns and rows of its table, in one
file that ``twofold.load`` reads too."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twofold.cli.terminal import CommandError, split_words

if TYPE_CHECKING:
    from twofold.estimators.regressor import BNNLVRegressor
    from twofold.tables import Table, TableFile


class About(NamedTuple):
    """The table that a model was fitted to: its columns, its file, and which rows were held out.

    In a table that was read in blocks (``streamed``) these were drawn one by one.
    """

    inputs: list[str]
    outputs: list[str]
    low: list[float]
    high: list[float]
    source: str
    sha256: str
    held_out: float
    seed: int
    drop_missing: bool
    streamed: bool = False


class Rows(NamedTuple):
    """Inputs ``[N, D]`` and outputs ``[N]`` or ``[N, O]``, and their row numbers."""

    x: np.ndarray
    y: np.ndarray
    places: np.ndarray


def save_model(path: Path, model: "BNNLVRegressor", about: About) -> None:
    """Write both to one file."""
    from twofold.core import persistence
    from twofold.estimators import storage

    stored = storage.pack(model)
    metadata = stored.metadata | {"table": about._asdict()}
    persistence.write(path, "model", stored.arrays, metadata)


def load_model(path: Path) -> "tuple[BNNLVRegressor, About | None]":
    """Read a model, and what its file says about the table: nothing if Python code saved it."""
    from twofold.core import persistence
    from twofold.estimators import storage
    from twofold.estimators.regressor import BNNLVRegressor

    stored = persistence.read(path, "model")
    table: dict[str, Any] | None = stored.metadata.get("table")
    try:
        about = None if table is None else About(**table)
    except TypeError as error:
        raise CommandError(f"{path} was written by another version of twofold: {error}") from error
    return storage.unpack(stored, BNNLVRegressor), about


def name_columns(
    path: Path, model: "BNNLVRegressor", about: About | None
) -> tuple[list[str], list[str]]:
    """The names of a model's inputs and outputs."""
    if about is not None:
        return about.inputs, about.outputs
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise CommandError(
            f"{path} does not store the names of its {model.n_features_in_} inputs: fit it with "
            "twofold fit, or in Python to a DataFrame"
        )
    outputs = [f"y{index}" for index in range(model.model_.outputs)]
    return [str(name) for name in names], outputs if len(outputs) > 1 else ["y"]


def find_columns(table: "Table | TableFile", text: str) -> list[str]:
    """``a,b,c``, or the one column of that very name; all of them must exist."""
    from twofold.tables import check_names

    names = [text] if text in table.names else split_words(text)
    check_names(table, names)
    return names


def read_values(
    table: "Table", names: Sequence[str], drop_missing: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Columns of a whole table as numbers, and the row numbers."""
    with name_options():
        values, kept = table.values(names, drop_missing)
    if not len(kept):
        raise CommandError(f"{table.source}: no row has a value in every column")
    return values, kept


@contextmanager
def name_options() -> Iterator[None]:
    """Errors of a table name the option of the command line."""
    from twofold.tables import TableError

    try:
        yield
    except TableError as error:
        raise CommandError(str(error).replace("drop_missing=True", "--drop-missing")) from error


def read_rows(table: "Table", about: About) -> tuple[Rows, Rows | None]:
    """Training rows and held-out rows of a model; ``places`` are row numbers of the table."""
    values, kept = read_values(table, [*about.inputs, *about.outputs], about.drop_missing)
    if about.streamed:
        held_out = draw_streamed(table.rows[kept], about.held_out, about.seed)
    else:
        held_out = draw_held_out(len(values), about.held_out, about.seed)
    train, test = split_rows(values, len(about.inputs), held_out)
    return train._replace(places=kept[train.places]), test and test._replace(
        places=kept[test.places]
    )


def split_rows(values: np.ndarray, inputs: int, held_out: np.ndarray) -> tuple[Rows, Rows | None]:
    """Training rows and held-out rows, given a mask of the latter."""
    train, test = (
        to_rows(values[places], inputs, places)
        for places in map(np.flatnonzero, (~held_out, held_out))
    )
    return train, test if held_out.any() else None


def to_rows(values: np.ndarray, inputs: int, places: np.ndarray) -> Rows:
    """Columns as inputs and outputs."""
    targets = values[:, inputs:]
    return Rows(values[:, :inputs], targets[:, 0] if targets.shape[1] == 1 else targets, places)


def draw_held_out(count: int, share: float, seed: int) -> np.ndarray:
    """A mask of the rows to hold out, an exact share of a table in memory."""
    order = np.random.default_rng(seed).permutation(count)
    held_out = np.zeros(count, bool)
    held_out[order[: round(share * count)]] = True
    return held_out


def draw_streamed(rows: np.ndarray, share: float, seed: int) -> np.ndarray:
    """A mask of the rows to hold out, each drawn by its number and the seed alone (splitmix64;
    Steele, Lea and Flood 2014)."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    words = (rows.astype(np.uint64) + np.uint64(1)) * golden
    for addend in (np.uint64(seed), golden):
        words = words + addend
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        words = words ^ (words >> np.uint64(31))
    return (words >> np.uint64(11)) * 2.0**-53 < share
