"""Roll-outs against a loop in NumPy, closed forms, and automatic differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.control import policy
from twofold.control.risk import criterion, risks
from twofold.control.rollout import draw_noise, particles, rollout, values_and_gradients
from twofold.inference.base import Draws
from twofold.logs.windows import Window

STEPS, DRAWS, COUNT = 6, 3, 4


def setting(task, key=0):
    keys = jax.random.split(jax.random.key(key), 4)
    weights = jnp.stack([policy.init(own, task.shape) for own in jax.random.split(keys[0])])
    draws = Draws(0.2 * jax.random.normal(keys[1], (DRAWS, 4)), jnp.full((DRAWS, 1), -3.0))
    noise = draw_noise(keys[2], task.model, STEPS, DRAWS, 2 * COUNT)
    starts = Window(jnp.array([[[0.5]], [[-1.0]]]), jnp.zeros((2, 0, 1)))
    return weights, draws, noise, particles(starts, COUNT)


def test_rollout_is_what_a_loop_over_particles_and_steps_gives(task, scales):
    weights, draws, noise, windows = setting(task)
    found = rollout(task, scales, weights, draws, noise, windows)
    for draw, own, particle in np.ndindex(DRAWS, 2, 2 * COUNT):
        level_weight, flow_weight, latent_weight, bias = np.asarray(draws.weights[draw])
        level = 0.5 if particle < COUNT else -1.0
        for step in range(STEPS):
            layers = policy.layers_of(task.shape, weights[own : own + 1])
            flow = policy.act(task.shape, layers, jnp.full((1, 1, 1), level))
            change = level_weight * level + flow_weight * float(flow[0, 0, 0]) + bias
            change += latent_weight * 1.5 * float(noise.latent[step, draw, particle, 0])
            change += np.exp(-1.5) * float(noise.additive[step, draw, particle, 0])
            at = step, draw, own, particle
            assert found.features[(*at, 0)] == pytest.approx(level, rel=1e-4, abs=1e-5)
            level += change
            assert found.costs[at] == pytest.approx(level, rel=1e-4, abs=1e-5)
    np.testing.assert_array_equal(found.observations[..., 0], found.costs)


def test_gradient_is_that_of_differentiating_everything(task, scales):
    weights, draws, noise, windows = setting(task, 1)

    def objective(trace):
        return jax.vmap(criterion, in_axes=(2, None, None))(trace.costs, 2.0, 0.5)

    def direct(weights):
        return objective(rollout(task, scales, weights, draws, noise, windows))

    slopes = jax.jacrev(direct)(weights)
    found = values_and_gradients(objective, task, scales, weights, draws, noise, windows)
    np.testing.assert_allclose(found[0], direct(weights), rtol=1e-6)
    for own in range(2):
        np.testing.assert_allclose(found[1][own], slopes[own, own], rtol=1e-4, atol=1e-5)
        assert float(jnp.abs(slopes[own, own]).max()) > 0.1


def test_both_risks_of_a_linear_gaussian_system(task, scales):
    """Only the bias differs between weight draws, by a deviation of 0.3: after t steps the level
    varies by ``t² 0.09`` between them and by ``t (w_z² γ_z + σ²)`` within each."""
    draw_count, count, steps = 400, 200, 5
    keys = jax.random.split(jax.random.key(3), 2)
    biases = 0.3 * jax.random.normal(keys[0], (draw_count,))
    draws = Draws(
        jnp.stack([jnp.zeros_like(biases), 0.1 + 0 * biases, 0.4 + 0 * biases, biases], axis=1),
        jnp.full((draw_count, 1), jnp.log(0.25)),
    )
    weights = jnp.zeros_like(policy.init(keys[0], task.shape))[None]  # the middle of the bounds, 1
    noise = draw_noise(keys[1], task.model, steps, draw_count, count)
    windows = particles(Window(jnp.full((1, 1, 1), 2.0), jnp.zeros((1, 0, 1))), count)
    costs = rollout(task, scales, weights, draws, noise, windows).costs[:, :, 0]
    times = np.arange(1, steps + 1)
    mean, epistemic, aleatoric = 2.0 + 0.1 * times, 0.09 * times**2, times * (0.16 * 2.25 + 0.25)
    found = risks(costs)
    # Relative standard errors of the variances: sqrt(2 / 400) = 0.07 and sqrt(2 / 80,000) = 0.005;
    # of the mean 0.3 t / 20 at most.
    np.testing.assert_allclose(found.epistemic, epistemic, rtol=4 * 0.072)
    np.testing.assert_allclose(found.aleatoric, aleatoric, rtol=4 * 0.0055)
    np.testing.assert_allclose(costs.mean(axis=(1, 2)), mean, atol=4 * 0.3 * 5 / 20)
    value = float(criterion(costs, 2.0, 1.0))
    expected = np.sum(mean + np.sqrt(4.0 * epistemic + aleatoric))
    assert value == pytest.approx(expected, rel=0.1)
