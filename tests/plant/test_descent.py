"""The search on a tank whose best policy is known, and what it does when gradients fail."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.inference import loop
from twofold.inference.loop import Schedule
from twofold.model.spec import SampledPosterior
from twofold.plant import descent, policy
from twofold.plant.cost import centroids, cost_of, distances
from twofold.plant.descent import Config, Plant, RiskWeights
from twofold.plant.log import Window

UPDATES = 150


def flow_is_safe(row):
    """The level should be 1; moving by the flow is free."""
    return jnp.square(row["level"] - 1.0)


@pytest.fixture
def setting(task, scales, tank):
    """The level rises by the flow times a gain of 0.5 that weight draws disagree on."""
    task = replace(task, cost=cost_of(flow_is_safe, tank))
    gains = jnp.linspace(0.1, 0.9, 5)
    weights = jnp.stack([0 * gains, gains, 0 * gains, 0 * gains], axis=1)
    posterior = SampledPosterior(weights, jnp.full((5, 1), -8.0))
    starts = Window(jnp.full((3, 1, 1), 0.2), jnp.zeros((3, 0, 1)))
    schedule = Schedule(jnp.int32(UPDATES), jnp.int32(1), jnp.float32(2e-2), jnp.float32(1.0))
    plant = Plant(jax.random.key(7), posterior, scales, starts, schedule, jnp.zeros((0, 1)))
    return Config(task, 2, 5, 3, 2, updates=1), plant


def run(config, plant, wanted, first=0, last=UPDATES, states=None):
    algorithm = descent.build(config)
    keys = jnp.stack([jax.random.key(3)] * len(wanted.epistemic))
    states = loop.init(algorithm, keys, wanted) if states is None else states
    energies, skipped = [], 0
    for chunk in loop.run(algorithm, keys, states, wanted, plant, first, last):
        states = chunk.states
        energies.append(chunk.energies)
        skipped += chunk.skipped.sum()
    return states, np.concatenate(energies), skipped


def acted(config, weights, features):
    layers = policy.layers_of(config.task.shape, weights)
    return policy.act(config.task.shape, layers, features)


def pairs(*values):
    return RiskWeights(*jnp.asarray(values, jnp.float32).T)


def test_policies_of_one_key_begin_alike_and_part_by_their_weights(setting):
    config, plant = setting
    wanted = pairs((0.0, 0.0), (0.0, 0.0), (5.0, 0.0))
    states, energies, skipped = run(config, plant, wanted)
    np.testing.assert_array_equal(states.weights[0], states.weights[1])
    assert not np.allclose(states.weights[0], states.weights[2])
    assert skipped == 0
    assert energies[-1, 0] < 0.5 * energies[0, 0]


def test_epistemic_weight_makes_the_policy_hold_back(setting):
    """A push moves the level by a gain that nobody knows: the careful one pushes less."""
    config, plant = setting
    states, _, _ = run(config, plant, pairs((0.0, 0.0), (20.0, 0.0)))
    first = jnp.full((2, 1, 1), 0.2)
    bold, careful = np.asarray(acted(config, states.weights, first))[:, 0, 0]
    assert bold > careful + 0.3
    # Without risk the best one-step push minimises E(0.2 + g a - 1)² = over g: a = 0.8 E g / E g².
    gains = np.linspace(0.1, 0.9, 5)
    alone = replace(config, horizon=1)
    states, _, _ = run(alone, plant, pairs((0.0, 0.0)))
    push = float(acted(config, states.weights, first[:1])[0, 0, 0])
    assert push == pytest.approx(0.8 * gains.mean() / np.mean(gains**2), abs=0.05)


def test_a_search_in_pieces_is_the_same_search(setting):
    config, plant = setting
    wanted = pairs((1.0, 0.5), (0.0, 2.0))
    whole, energies, _ = run(config, plant, wanted, last=12)
    half, before, _ = run(config, plant, wanted, last=5)
    rest, after, _ = run(config, plant, wanted, first=5, last=12, states=half)
    np.testing.assert_array_equal(whole.weights, rest.weights)
    np.testing.assert_array_equal(energies, np.concatenate([before, after]))


def test_an_update_without_a_finite_gradient_is_counted_and_not_made(setting):
    config, plant = setting
    broken = plant._replace(
        posterior=SampledPosterior(plant.posterior.weights.at[0, 1].set(jnp.nan), jnp.zeros((5, 1)))
    )
    wanted = pairs((0.0, 0.0))
    states, _, skipped = run(config, broken, wanted, last=4)
    start = loop.init(descent.build(config), jax.random.key(3)[None], wanted)
    assert skipped == 4
    np.testing.assert_array_equal(states.weights, start.weights)
    assert int(states.moments[1].count[0]) == 0


def test_sizes_that_have_no_variance_are_refused(setting):
    config, _ = setting
    with pytest.raises(ValueError, match=r"noise_draws must be at least 2 .*got 1"):
        replace(config, noise_draws=1)
    with pytest.raises(ValueError, match="horizon"):
        replace(config, horizon=0)
    assert replace(config, noise_draws=1, weight_draws=1, distance=True).noise_draws == 1


def test_distance_to_the_nearest_centre(rng):
    points, centres = rng.normal(size=(4, 6, 3)), rng.normal(size=(5, 3))
    expected = np.linalg.norm(points[..., None, :] - centres, axis=-1).min(axis=-1)
    found = distances(jnp.asarray(points), jnp.asarray(centres))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    slope = jax.grad(lambda p: distances(p, jnp.asarray(centres)).sum())(jnp.asarray(centres))
    assert bool(jnp.isfinite(slope).all())


def test_centres_of_clear_clusters_are_found(rng):
    true = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    points = np.repeat(true, 50, axis=0) + 0.1 * rng.normal(size=(150, 2))
    found = centroids(points, 3, seed=0)
    gaps = np.linalg.norm(found[:, None] - true, axis=-1)
    assert sorted(gaps.argmin(axis=0)) == [0, 1, 2]
    assert gaps.min(axis=0).max() < 0.1
    assert len(centroids(points[:2], 3, seed=0)) == 2


def test_the_baseline_avoids_what_is_far_from_the_data(setting):
    """All that is known is a level of 0.2: moving costs distance, in the very step that moves."""
    config, plant = setting
    far = replace(config, distance=True, horizon=1)
    known = plant._replace(centroids=jnp.array([[0.2]]))
    states, _, _ = run(far, known, pairs((0.0, 0.0), (10.0, 0.0)))
    level = jnp.full((2, 1, 1), 0.2)
    bold, careful = np.asarray(acted(config, states.weights, level))[:, 0, 0]
    assert abs(careful) < 0.2 < bold
