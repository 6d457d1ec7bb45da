"""Rows of a large table in a file of plain numbers, for training to read in any order.

The table itself (Parquet, CSV) is read once. Rows are kept in their order; a *strip* is a few
neighbours of them, and a block of training is made of strips from all over the table, others in
every pass: a table that is sorted, by time or by site, does not teach one part after the other.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from twofold.core.data import Running
from twofold.tables.table import disk_errors

STRIP_ROWS = 2**8
BLOCK_STRIPS = 2**7
BLOCK_ROWS = STRIP_ROWS * BLOCK_STRIPS
MOST_ROWS = 2**31 - 1  # programs number rows in 32 bits


class Scratch(NamedTuple):
    """``running.rows`` rows of float64 numbers ``[C]`` in a file."""

    path: Path
    running: Running
    fingerprint: str

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.running.rows

    @property
    def blocks(self) -> int:
        """In how many blocks a pass reads them, of nearly the same size."""
        return -(-self.rows // BLOCK_ROWS)

    @property
    def block_rows(self) -> int:
        """The rows of the largest block."""
        strips = -(-self.rows // STRIP_ROWS)
        return min(self.rows, -(-strips // self.blocks) * STRIP_ROWS)

    def rows_of(self, visit: int, seed: int) -> np.ndarray:
        """The numbers of the rows in the block of a visit; every pass deals out the strips anew."""
        turn, block = divmod(visit, self.blocks)
        strips = np.random.default_rng([seed, turn]).permutation(-(-self.rows // STRIP_ROWS))
        own = np.array_split(strips, self.blocks)[block]
        numbers = (own[:, None] * STRIP_ROWS + np.arange(STRIP_ROWS)).ravel()
        return numbers[numbers < self.rows]

    def read(self, rows: np.ndarray) -> np.ndarray:
        """Rows by their numbers, ``[N, C]``; neighbours are read together."""
        columns = len(self.running.mean)
        values = np.empty((len(rows), columns))
        edges = np.flatnonzero(np.diff(rows) != 1) + 1
        with self.path.open("rb", buffering=0) as file:
            for part in np.split(np.arange(len(rows)), edges):
                file.seek(int(rows[part[0]]) * columns * values.itemsize)
                room = values[part[0] : part[-1] + 1].data.cast("B")
                if file.readinto(room) != len(room):
                    raise OSError(f"{self.path} has been cut short while it was in use")
        return values


def write_scratch(path: Path, blocks: Iterator[np.ndarray]) -> Scratch:
    """Write blocks ``[N, C]`` one behind the other, and note what is to be known of them all."""
    running, digest = None, hashlib.sha256()
    with disk_errors(path, "written"), path.open("wb") as file:
        for values in blocks:
            if not len(values):
                continue
            plain = np.ascontiguousarray(values, "<f8")
            digest.update(plain.data.cast("B"))
            file.write(plain.data.cast("B"))
            running = running.merge(Running.of(plain)) if running else Running.of(plain)
    if running is None or running.rows < 2:
        count = running.rows if running else 0
        raise ValueError(f"a fit needs at least 2 rows with a value in every column, got {count}")
    if running.rows > MOST_ROWS:
        raise ValueError(f"a fit takes {MOST_ROWS:,} rows at most, got {running.rows:,}")
    return Scratch(path, running, digest.hexdigest())
