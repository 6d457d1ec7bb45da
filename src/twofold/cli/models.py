"""A fitted model and the names of its columns, in one file that ``twofold.load`` reads too."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from twofold.cli.columns import read_values
from twofold.cli.errors import CommandError
from twofold.core import persistence
from twofold.estimators import storage
from twofold.estimators.regressor import BNNLVRegressor
from twofold.tables import Table


class About(NamedTuple):
    """The table a model was fitted to: its columns, where it lay, and which rows were held out.

    Of a table that was read in blocks (``streamed``) they were chosen one by one.
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
    """Inputs ``[N, D]`` and outputs ``[N]`` or ``[N, O]``, and which rows of all they are."""

    x: np.ndarray
    y: np.ndarray
    places: np.ndarray


def save(path: Path, model: BNNLVRegressor, about: About) -> None:
    """Write both to one file."""
    stored = storage.pack(model)
    metadata = stored.metadata | {"table": about._asdict()}
    persistence.write(path, "model", stored.arrays, metadata)


def load(path: Path) -> tuple[BNNLVRegressor, About | None]:
    """Read a model, and what is known of its table: nothing of one that Python code has saved."""
    stored = persistence.read(path, "model")
    table: dict[str, Any] | None = stored.metadata.get("table")
    try:
        about = None if table is None else About(**table)
    except TypeError as error:
        raise CommandError(f"{path} was written by another version of twofold: {error}") from error
    return storage.unpack(stored, BNNLVRegressor), about


def inputs_of(path: Path, model: BNNLVRegressor, about: About | None) -> list[str]:
    """The names of a model's inputs."""
    if about is not None:
        return about.inputs
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise CommandError(
            f"{path} does not say what its {model.n_features_in_} inputs are called: fit it with "
            "twofold fit, or in Python to a DataFrame"
        )
    return [str(name) for name in names]


def outputs_of(model: BNNLVRegressor, about: About | None) -> list[str]:
    """The names of a model's outputs."""
    if about is not None:
        return about.outputs
    several = [f"y{index}" for index in range(model.model_.outputs)]
    return several if len(several) > 1 else ["y"]


def rows_of(table: Table, about: About) -> tuple[Rows, Rows | None]:
    """The rows that a model was fitted to and those held out; ``places`` are those in the table."""
    values, kept = read_values(table, [*about.inputs, *about.outputs], about.drop_missing)
    if about.streamed:
        held = is_held_out(table.rows[kept], about.held_out, about.seed)
        parts = parted(values, len(about.inputs), held)
    else:
        parts = divided(values, len(about.inputs), about.held_out, about.seed)
    fitted, held_out = (one and one._replace(places=kept[one.places]) for one in parts)
    assert fitted is not None
    return fitted, held_out


def parted(values: np.ndarray, inputs: int, held: np.ndarray) -> tuple[Rows, Rows | None]:
    """Rows to fit to and rows held out, where it is known which."""
    fitted, kept = (
        rows(values[index], inputs, index) for index in map(np.flatnonzero, (~held, held))
    )
    return fitted, kept if held.any() else None


def rows(values: np.ndarray, inputs: int, places: np.ndarray) -> Rows:
    """Columns as inputs and outputs."""
    return Rows(values[:, :inputs], _targets(values[:, inputs:]), places)


def is_held_out(rows: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Whether each row is one of a share that is chosen at random, by its number and the seed
    alone (splitmix64; Steele, Lea and Flood 2014)."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    words = (rows.astype(np.uint64) + np.uint64(1)) * golden
    for addend in (np.uint64(seed), golden):
        words = words + addend
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        words = words ^ (words >> np.uint64(31))
    return (words >> np.uint64(11)) * 2.0**-53 < share


def divided(values: np.ndarray, inputs: int, share: float, seed: int) -> tuple[Rows, Rows | None]:
    """Rows to fit to and rows held out, drawn by the seed."""
    held = round(share * len(values))
    order = np.random.default_rng(seed).permutation(len(values))
    out = np.zeros(len(values), bool)
    out[order[:held]] = True
    return parted(values, inputs, out)


def _targets(values: np.ndarray) -> np.ndarray:
    return values[:, 0] if values.shape[1] == 1 else values
