"""Evolution strategies: their direction against a loop, and that they improve a policy."""

import jax
import jax.numpy as jnp
import numpy as np

from paper.control_problems import river
from paper.direct_search import Strategy, direct_search, direction, ranks
from paper.truth import true_costs
from twofold.core.numerics import Standardizer
from twofold.plant.policy import LearnedPolicy, PolicyNetwork
from twofold.plant.policy import init as random_weights


def test_direction_weighs_noise_by_ranks(rng):
    costs, noise = rng.gamma(0.3, size=(2, 6)), rng.normal(size=(6, 4))
    order = sorted(costs.ravel().tolist())
    expected = np.zeros(4)
    for pair in range(6):
        up, down = (order.index(costs[side, pair]) / 11 - 0.5 for side in (0, 1))
        expected += (up - down) * noise[pair] / 6
    np.testing.assert_allclose(
        direction(jnp.asarray(costs), jnp.asarray(noise)), expected, rtol=1e-4
    )
    np.testing.assert_allclose(ranks(jnp.array([5.0, -1.0, 1e9])), [0.0, -0.5, 0.5])


def test_a_policy_becomes_better_on_the_river():
    problem = river()
    embedding = problem.embed(problem.batch(0, 200))
    shape = PolicyNetwork(2, (8,), (-1.0, -1.0), (1.0, 1.0))
    units = Standardizer(np.full(2, 2.5), np.full(2, 1.5))
    key, strategy = jax.random.key(0), Strategy(25, pairs=24, starts=16, spread=0.1)
    found = direct_search(key, problem, embedding, shape, units, strategy)
    first = np.asarray(random_weights(jax.random.split(key)[0], shape))
    before = LearnedPolicy(embedding, shape, units, first)
    starts = problem.starts(jax.random.key(1), 100)
    costs = [
        true_costs(jax.random.key(2), problem.system, one, starts, 25, 5).mean(axis=(1, 2))
        for one in (before, found)
    ]
    gain = costs[0] - costs[1]
    assert gain.mean() > 4 * gain.std(ddof=1) / 10
