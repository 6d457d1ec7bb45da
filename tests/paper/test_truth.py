"""Policies on a true system, and their model bias, where both are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paper.truth import bias_by_start, model_bias, true_costs, warm_up
from twofold.core.numerics import Standardizer
from twofold.envs.system import constant, episodes
from twofold.envs.wet_chicken import wet_chicken
from twofold.plant.cost import risks
from twofold.plant.embedding import embed
from twofold.plant.forecast import Forecast
from twofold.plant.log import from_episodes
from twofold.plant.policy import LearnedPolicy, PolicyNetwork
from twofold.plant.policy import init as random_weights

SYSTEM = wet_chicken()


@pytest.fixture(scope="module")
def policy():
    log = from_episodes(SYSTEM, episodes(jax.random.key(0), SYSTEM, SYSTEM.behaviour, 20, 5))
    shape = PolicyNetwork(2, (4,), (-1.0, -1.0), (1.0, 1.0))
    weights = np.asarray(random_weights(jax.random.key(1), shape))
    return LearnedPolicy(embed(log), shape, Standardizer(np.ones(2), np.full(2, 1.5)), weights)


def test_states_and_windows_belong_together():
    starts = warm_up(jax.random.key(2), SYSTEM, SYSTEM.behaviour, steps=6, history=3, num=4)
    np.testing.assert_array_equal(starts.windows.observations[:, -1], starts.states)
    assert starts.windows.actions.shape == (4, 2, 2)
    assert len({tuple(row) for row in np.asarray(starts.states).tolist()}) == 4
    with pytest.raises(ValueError, match="at least 2 steps"):
        warm_up(jax.random.key(2), SYSTEM, SYSTEM.behaviour, steps=1, history=3, num=4)


def test_windows_hold_what_was_done():
    still = constant([0.25, -0.5])
    starts = warm_up(jax.random.key(3), SYSTEM, still, steps=4, history=3, num=2)
    np.testing.assert_allclose(starts.windows.actions, np.tile([0.25, -0.5], (2, 2, 1)))
    steps = np.diff(np.asarray(starts.windows.observations)[..., 0], axis=1)
    assert set(np.round(steps.ravel(), 5)) <= {0.25} | set(-np.arange(0.25, 5.1, 0.25).round(5))


def test_costs_are_those_of_acting_step_by_step(policy):
    starts = warm_up(jax.random.key(4), SYSTEM, SYSTEM.behaviour, steps=5, history=1, num=3)
    found = true_costs(jax.random.key(5), SYSTEM, policy, starts, horizon=6, repeats=2)
    keys = jax.random.split(jax.random.key(5), (3, 2))
    for start, repeat in np.ndindex(3, 2):
        state = jnp.asarray(starts.states)[start]
        for step, key in enumerate(jax.random.split(keys[start, repeat], 6)):
            action = policy.act(np.asarray(state)[None])
            state = SYSTEM.step(key, state, jnp.asarray(action))
            assert found[start, repeat, step] == pytest.approx(float(SYSTEM.cost(state)), abs=1e-4)


def test_bias_is_unbiased_however_few_the_roll_outs(rng):
    """True costs scatter by 2 around 1 + 0.5 h, where h, of variance 4, is hidden in the start. The
    model says 1.3 on average over weights, which differ by 0.8, with noise of 1: it is 0.3 off.
    Over starts the bias is 0.09 a step; of a start it is that and 0.25 · 4."""
    starts, draws, noise_draws, steps = 6, 4, 3, 6000
    hidden = rng.normal(scale=2.0, size=(starts, 1, steps))
    true = 1.0 + 0.5 * hidden + rng.normal(scale=2.0, size=(starts, 3, steps))
    weights = rng.normal(scale=0.8, size=(draws, 1, 1, steps))
    costs = 1.3 + weights + rng.normal(size=(draws, starts, noise_draws, steps))
    split = [risks(jnp.asarray(np.moveaxis(costs[:, s], 2, 0))) for s in range(starts)]
    forecast = Forecast(
        costs.mean(axis=(0, 2)),
        *(np.stack([np.asarray(part) for part in parts]) for parts in zip(*split, strict=True)),
        costs.mean(axis=(1, 2)),
        sampled=costs[0, :, 0],
        noise_draws=noise_draws,
    )
    # Per step the square of the mean has a deviation of about 1, the mean of six squares of 1.6.
    assert model_bias(true, forecast) / steps == pytest.approx(0.09, abs=4 * 1.0 / steps**0.5)
    each = bias_by_start(true, forecast) / steps
    assert each.shape == (starts,)
    assert each.mean() == pytest.approx(1.09, abs=4 * 1.6 / steps**0.5)
