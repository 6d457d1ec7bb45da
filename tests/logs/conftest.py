"""A small log, as rows of a table and as a file."""

import csv

import numpy as np
import pytest

from twofold.logs import Episode, Log


@pytest.fixture
def columns():
    """What ``read_table`` wants to know of the rows."""
    return {
        "observations": ["level", "heat"],
        "actions": {"valve": (0.0, 1.0)},
        "episode": "run",
        "time": "t",
    }


@pytest.fixture
def rows():
    """Three runs of 40 rows without a fault."""
    rng = np.random.default_rng(0)
    found = []
    for run in range(3):
        for t in range(40):
            level, heat, valve = rng.normal(), rng.normal(), rng.uniform()
            row = {"run": f"r{run}", "t": 2.0 * t, "level": level, "heat": heat, "valve": valve}
            found.append(row | {"cost": level**2})
    return found


@pytest.fixture
def write(tmp_path):
    """``write(rows)``: a CSV file, of which row i is line i + 2."""

    def to_file(rows, name="plant.csv", delimiter=","):
        path = tmp_path / name
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0].keys(), delimiter=delimiter)
            writer.writeheader()
            writer.writerows(rows)
        return path

    return to_file


@pytest.fixture
def log():
    """Episodes of different lengths, with costs and times."""
    rng = np.random.default_rng(1)
    episodes = [
        Episode(
            np.abs(rng.normal(size=(steps + 1, 3))),
            rng.uniform(-1.0, 1.0, (steps, 2)),
            rng.normal(size=steps),
            np.arange(steps + 1) * 0.5,
            f"e{steps}",
        )
        for steps in (7, 12, 30)
    ]
    return Log(("a", "b", "c"), ("u", "v"), [-1.0, -1.0], [1.0, 1.0], episodes)
