"""Stochastic-gradient Hamiltonian Monte Carlo against formulas and a known posterior."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.util import generate_gaussian_noise
from scipy.stats import norm

from twofold.core.numerics import pad
from twofold.inference import loop, sghmc
from twofold.inference.loop import Batch, Schedule
from twofold.model.density import latent_nodes, log_marginal
from twofold.model.spec import BNNLV

SMALL = sghmc.SGHMC(nodes=4, samples=3).config(BNNLV(1, 1, (3,), 1, 1.0, 1.0), 8)


def run(config, x, y, chains, epochs, dtype="float32", parts=1):
    """Final states of all chains, after ``parts`` calls of the loop."""
    data = jax.device_put(pad(x, y, 64, dtype))
    algorithm = sghmc.build(config)
    keys = jax.random.split(jax.random.key(0), chains)
    problems = jax.tree.map(lambda leaf: jnp.stack([leaf] * chains), data)
    batches = -(-len(x) // config.batch_size)
    rate, decay = jnp.asarray(0.02, dtype), jnp.asarray(1.0, dtype)
    schedule = Schedule(jnp.int32(epochs), jnp.int32(batches), rate, decay)
    states = loop.init(algorithm, keys, problems)
    ends = np.linspace(0, epochs, parts + 1).astype(int).tolist()
    for first, last in itertools.pairwise(ends):
        for chunk in loop.run(algorithm, keys, states, problems, schedule, first, last):
            states = chunk.states
    return states


def test_log_posterior_scales_the_minibatch_up(x64, rng):
    model = BNNLV(1, 1, (3,), 1, 0.5, 2.0)
    config = sghmc.SGHMC(nodes=6, log_noise_prior=(-1.0, 1.5)).config(model, 4)
    weights, log_noise = rng.normal(size=model.num_weights), rng.normal(size=1)
    x, y = (jnp.asarray(rng.normal(size=(4, 1))) for _ in range(2))
    network = sghmc.Network(jnp.asarray(weights), jnp.asarray(log_noise))
    filled = jnp.asarray([1.0, 1.0, 1.0, 0.0])
    batch = Batch(x, y, filled, jnp.int32(3), jnp.asarray(30.0))
    found = sghmc.log_posterior(config, network, batch)
    terms = log_marginal(
        model, network.weights[None], network.log_noise[None], x, y, latent_nodes(model, 6)
    )
    expected = 10.0 * terms[0, :3].sum() - 0.5 * np.sum(weights**2) / 0.5
    np.testing.assert_allclose(found, expected + norm.logpdf(log_noise, -1.0, 1.5).sum())


def test_linear_regression_has_the_exact_posterior(rng):
    x = rng.normal(size=(40, 1))
    y = 1.2 * x - 0.3 + 0.5 * rng.normal(size=(40, 1))
    # The narrow prior holds the noise; long steps forget their start within tens of them.
    config = sghmc.SGHMC(
        samples=20, step_size=0.1, friction=0.3, log_noise_prior=(float(np.log(0.25)), 1e-3)
    ).config(BNNLV(1, 1, (), 0, 1.0, 1.0), 20)
    states = run(config, x, y, chains=100, epochs=6000)
    design = np.hstack([x, np.ones_like(x)])
    covariance = np.linalg.inv(design.T @ design / 0.25 + np.eye(2))
    mean = covariance @ design.T @ y[:, 0] / 0.25
    draws = np.asarray(states.weights).reshape(-1, 2)
    # 2,000 draws, 90 steps of a relaxation time of 30 apart, so nearly independent: four standard
    # errors of a mean are a tenth of its deviation, of a variance 13 %.
    deviation = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.1 * deviation.min())
    np.testing.assert_allclose(draws.var(axis=0), np.diag(covariance), rtol=0.15)
    # The scale of each weight is about the root of its precision, as Adam's mean squares tell it;
    # they are smaller by up to 1 − B/N, for batches are dealt out without replacement.
    sizes = jnp.full(100, 40)
    scale = jax.vmap(lambda state, size: sghmc.stiffness(config, state.member, size))(states, sizes)
    precision = np.diag(design.T @ design / 0.25 + np.eye(2))
    found = np.square(scale.weights).mean(axis=0)
    assert np.all(found > 0.5 * precision) and np.all(found < 1.3 * precision)


def test_a_step_follows_the_formula(x64, rng):
    # A step long enough for the minibatch's share of the noise to be seen.
    config = replace(SMALL, step_size=0.2)
    data = jax.device_put(pad(rng.normal(size=(8, 1)), rng.normal(size=(8, 1)), 8, "float64"))
    state = sghmc.init(SMALL, jax.random.key(1), data)
    state = state._replace(momentum=jax.tree.map(lambda leaf: leaf + 0.5, state.momentum))
    batch = Batch(data.x, data.y, jnp.ones(8), jnp.int32(8), jnp.asarray(20.0))
    scale = jax.tree.map(lambda leaf: jnp.full_like(leaf, 2.0), state.momentum)
    key = jax.random.key(2)
    new, energy, finite = sghmc.walk(config, key, state, batch, scale, jnp.asarray(True))
    network = state.member.network
    density, gradient = jax.value_and_grad(lambda n: sghmc.log_posterior(config, n, batch))(network)
    assert finite
    np.testing.assert_allclose(energy, -density / 20.0)
    epsilon, friction = config.step_size, config.friction
    moved = network.weights + epsilon * state.momentum.weights / 2.0
    np.testing.assert_allclose(new.member.network.weights, moved)
    drift = (1 - friction) * state.momentum.weights + epsilon * gradient.weights / 2.0
    noise = generate_gaussian_noise(key, network).weights
    kick = np.sqrt(2 * friction - epsilon**2 * 20.0 / 8.0) * noise
    np.testing.assert_allclose(new.momentum.weights, drift + kick)


def test_a_chain_that_runs_away_goes_home(rng):
    data = jax.device_put(pad(rng.normal(size=(8, 1)), rng.normal(size=(8, 1)), 8, "float32"))
    state = sghmc.init(SMALL, jax.random.key(1), data)
    home = jax.tree.map(lambda leaf: leaf + 0.25, state.home)
    wild = jax.tree.map(lambda leaf: leaf + 1e6, state.momentum)
    batch = Batch(data.x, data.y, jnp.ones(8), jnp.int32(8), jnp.asarray(8.0))
    scale = jax.tree.map(jnp.ones_like, state.momentum)
    state = state._replace(home=home, momentum=wild)
    new, _, finite = sghmc.walk(SMALL, jax.random.key(2), state, batch, scale, jnp.asarray(True))
    assert finite  # It ran away from a place that was well.
    jax.tree.map(np.testing.assert_array_equal, new.member.network, home)
    assert all(np.all(leaf == 0) for leaf in new.momentum)
    same, *_ = sghmc.walk(SMALL, jax.random.key(2), state, batch, scale, jnp.asarray(False))
    jax.tree.map(np.testing.assert_array_equal, same, state)


def test_draws_are_kept_evenly_over_the_second_half_of_the_walk():
    schedule = Schedule(jnp.int32(100), jnp.int32(1), jnp.zeros(()), jnp.zeros(()))
    assert sghmc.learning_epochs(schedule.epochs) == 70
    data = jax.device_put(pad(np.zeros((8, 1)), np.zeros((8, 1)), 8, "float32"))
    state = sghmc.init(SMALL, jax.random.key(0), data)
    for epoch in range(100):
        network = jax.tree.map(lambda leaf, e=epoch: jnp.full_like(leaf, e), state.home)
        state = state._replace(member=state.member._replace(network=network))
        state = sghmc.keep(SMALL, state, jnp.int32(epoch), schedule)
    np.testing.assert_array_equal(state.weights[:, 0], [89, 94, 99])


@pytest.mark.parametrize("done", [1, 2, 4])
def test_a_run_that_is_short_or_stopped_leaves_no_slot_empty(done):
    schedule = Schedule(jnp.int32(4), jnp.int32(1), jnp.zeros(()), jnp.zeros(()))
    data = jax.device_put(pad(np.zeros((8, 1)), np.zeros((8, 1)), 8, "float32"))
    state = sghmc.init(SMALL, jax.random.key(0), data)
    for epoch in range(done):
        state = sghmc.keep(SMALL, state, jnp.int32(epoch), schedule)
    np.testing.assert_array_equal(
        state.weights, np.tile(state.member.network.weights, (SMALL.samples, 1))
    )


def test_a_chain_stopped_in_the_middle_goes_on_as_if_it_had_not(rng):
    x, y = rng.normal(size=(20, 1)), rng.normal(size=(20, 1))
    whole, parts = (run(SMALL, x, y, 2, 40, parts=count) for count in (1, 3))
    jax.tree.map(np.testing.assert_array_equal, whole, parts)
    assert np.all(np.abs(whole.weights).sum(axis=-1) > 0)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"samples": 0}, "samples must be an integer of at least 1"),
        ({"step_size": 0.0}, "step_size must be a positive number"),
        ({"friction": 1.5}, "friction must lie in"),
        ({"start": 0.0}, "start must lie in"),
    ],
)
def test_impossible_settings_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        sghmc.SGHMC(**setting)
