"""A tank whose level rises by ``w_s s + w_a a + w_z z + b + ε``: its risks have closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest

from twofold.control.policy import PolicyNetwork
from twofold.control.rollout import Scales, Task
from twofold.logs import Log, cost_of, embed
from twofold.logs.log import Episode
from twofold.model.bnn import BNNLV


@pytest.fixture
def tank():
    """A log of one level and one flow."""
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
    return Scales(zero(2), one(2), zero(1), one(1), zero(1), one(1), jnp.ones(()))
