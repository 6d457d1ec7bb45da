"""Small logs, as rows of a table and as a file; a tank whose risks have closed forms."""

import csv

import jax.numpy as jnp
import numpy as np
import pytest

from twofold.core.numerics import Standardizer
from twofold.model.spec import BNNLV
from twofold.plant.cost import cost_of
from twofold.plant.embedding import embed
from twofold.plant.log import Episode, Log
from twofold.plant.policy import PolicyNetwork
from twofold.plant.rollout import Scales, Task


@pytest.fixture
def columns():
    """What ``read_log`` wants to know of the rows."""
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


@pytest.fixture
def tank():
    """A log of one level and one flow, which rises by ``w_s s + w_a a + w_z z + b + ε``."""
    rng = np.random.default_rng(0)
    episodes = [
        Episode(rng.normal(size=(13, 1)), rng.uniform(-1, 1, (12, 1)), name=str(i))
        for i in range(4)
    ]
    return Log(("level",), ("flow",), [-1.0], [3.0], tuple(episodes))


@pytest.fixture
def task(tank):
    """A linear model of the change of the level; the level is what it costs."""
    model = BNNLV(2, 1, (), 1, 1.0, 2.25)
    embedding = embed(tank, history=1)
    return Task(
        model,
        embedding,
        cost_of(lambda row: row["level"] + 0.0 * row["flow"], tank),
        PolicyNetwork(1, (5,), (-1.0,), (3.0,)),
    )


@pytest.fixture
def scales():
    """No standardisation, so that weights mean what they say."""
    zero, one = jnp.zeros, jnp.ones
    return Scales(*(Standardizer(zero(size), one(size)) for size in (2, 1, 1)), jnp.ones(()))
