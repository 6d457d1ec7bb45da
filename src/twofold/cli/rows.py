"""The rows of a table for training or evaluation: inputs, outputs, weights, errors and groups."""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from twofold.cli.models import About
from twofold.cli.run import Run, hash_files
from twofold.cli.terminal import CommandError, split_words
from twofold.tables import Table, TableFile, check_names, read_table
from twofold.tables.coding import DAY, Column, encode

LARGE_BYTES = 2**27
FEWEST_GROUPS = 4  # minimum left for training


class Rows(NamedTuple):
    """Inputs ``[N, D]`` and outputs ``[N]`` or ``[N, O]``, their row numbers, and, if known,
    weight, output errors and group of each row."""

    x: np.ndarray
    y: np.ndarray
    places: np.ndarray
    weight: np.ndarray | None = None
    error: np.ndarray | None = None
    groups: np.ndarray | None = None

    def take(self, mask: np.ndarray) -> "Rows":
        parts: Any = (None if part is None else part[mask] for part in self)
        return Rows(*parts)

    @property
    def facts(self) -> dict[str, Any]:
        """Further arguments of ``BNNLVRegressor.fit``."""
        return {"sample_weight": self.weight, "y_error": self.error, "groups": self.groups}


def find_columns(table: Table | TableFile, text: str) -> list[str]:
    """Parse ``a,b,c``, or a single column whose name contains commas; all must exist."""
    names = [text] if text in table.names else split_words(text)
    check_names(table, names)
    return names


def is_large(path: Path) -> bool:
    """Whether a table is read in blocks: a folder, or a file of more than LARGE_BYTES."""
    return path.is_dir() or (path.is_file() and path.stat().st_size > LARGE_BYTES)


def read_values(
    table: Table, columns: Sequence[Column], others: Sequence[str], drop_missing: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Features of a whole table and other columns as numbers, and the row numbers."""
    values, kept = encode(table, columns, others, drop_missing)
    if not len(kept):
        raise CommandError(f"{table.source}: no row has a value in every column")
    return values, kept


def read_inputs(
    path: Path, columns: Sequence[Column], drop_missing: bool, run: Run
) -> tuple[dict[str, list[Any]], np.ndarray]:
    """The rows of a table without missing inputs, as columns, and the inputs."""
    table = read_table(path)
    run.reads(path)
    values, kept = read_values(table, columns, (), drop_missing)
    return table.take(kept).to_lists(), values


def find_tables(path: Path, about: About) -> list[Path]:
    """The files that a model was fitted to, beside it or in the current folder, by content."""
    tables = []
    for name, digest in about.tables:
        places = [] if name in ("", ".", "..") else [path.parent / name, Path(name)]
        fits = (one for one in places if one.exists() and hash_files(one) == digest)
        if (table := next(fits, None)) is None:
            raise CommandError(
                f"the table that {path} was fitted to ({name}) is neither beside it nor in the "
                "current folder, or it has changed; give it with --data FILE"
            )
        tables.append(table)
    return tables


def read_rows(table: Table, about: About, start: int = 0) -> Rows:
    """All rows of a model's table; ``places`` are its row numbers, counted from ``start``."""
    values, kept = read_values(table, about.columns, about.numbers, about.drop_missing)
    ends = np.cumsum([len(about.features), len(about.outputs), int(about.weight is not None)])
    x, y, weight, error = np.split(values, ends, axis=1)
    if len(about.outputs) == 1:
        y, error = y[:, 0], error[:, :1].reshape(-1)
    return Rows(
        x, y, start + kept,
        weight[:, 0] if about.weight else None,
        error if about.errors else None,
        read_groups(table, about.group, start)[kept] if about.group else None,
    )  # fmt: skip


def read_groups(table: Table, name: str, start: int) -> np.ndarray:
    """The group of each row: a label, or the day of a date; a row without a group forms its own."""
    check_names(table, [name])
    dates, texts = table.dates(name)
    if np.isfinite(dates).any() and not texts:
        labels = [f"{one // DAY:.0f}" if np.isfinite(one) else "" for one in dates]
    else:
        labels = table.labels(name)
    return np.array([label or f"row {row}" for row, label in enumerate(labels, start)])


def read_all(tables: Sequence[Table], about: About) -> Rows:
    """All rows of a model's tables, one after another, with consecutive numbers."""
    starts = accumulate(map(len, tables), initial=0)
    parts = [read_rows(table, about, start) for table, start in zip(tables, starts, strict=False)]
    columns: Any = zip(*parts, strict=True)
    joined: Any = (None if one[0] is None else np.concatenate(one) for one in columns)
    return Rows(*joined)


def split_rows(tables: Sequence[Table], about: About) -> tuple[Rows, Rows | None]:
    rows, share = read_all(tables, about), about.held_out or 0.0
    if about.streamed:
        numbers = np.concatenate([one.rows for one in tables])
        held_out = draw_streamed(numbers[rows.places], share, about.seed)
    else:
        held_out = draw_held_out(len(rows.x), share, about.seed, rows.groups)
    return rows.take(~held_out), rows.take(held_out) if held_out.any() else None


def draw_held_out(
    count: int, share: float, seed: int, groups: np.ndarray | None = None
) -> np.ndarray:
    """Mask of the rows to hold out: an exact share of the rows of a table, or of its groups."""
    if groups is not None:
        names, numbers = np.unique(groups, return_inverse=True)
        most = len(names) - FEWEST_GROUPS
        if share and most < 1:
            needed = f"more than {FEWEST_GROUPS} groups are needed"
            raise CommandError(f"{needed} to hold some of them out, got {len(names)}")
        chosen = min(max(round(share * len(names)), 1), most) if share else 0
        return draw_held_out(len(names), chosen / len(names), seed)[numbers]
    held_out = np.zeros(count, bool)
    held_out[np.random.default_rng(seed).permutation(count)[: round(share * count)]] = True
    return held_out


def draw_streamed(rows: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Mask of rows to hold out, from row number and seed alone (splitmix64; Steele et al. 2014)."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    words = (rows.astype(np.uint64) + np.uint64(1)) * golden
    for addend in (np.uint64(seed), golden):
        words = words + addend
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        words = words ^ (words >> np.uint64(31))
    return (words >> np.uint64(11)) * 2.0**-53 < share
