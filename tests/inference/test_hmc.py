"""Hamiltonian Monte Carlo against densities written out and against known posteriors."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.diagnostics import ess_bulk
from scipy.special import logsumexp
from scipy.stats import norm

from twofold.core.numerics import pad
from twofold.inference import hmc, loop
from twofold.model import density
from twofold.model.density import latent_nodes
from twofold.model.spec import BNNLV

# Each in one program; otherwise every operation would be compiled for every shape.
effective_number = jax.jit(ess_bulk)
log_density = jax.jit(hmc.log_density, static_argnums=0)
mean_of = jax.jit(density.mean, static_argnums=0)

CHAINS = 4
# Of a mean that should be right; the handful of comparisons fail by chance less than once in
# 10,000 times.
ERRORS = 5.0


def run(config, x, y, dtype="float32", chains=CHAINS, parts=1):
    """Final states of all chains, after ``parts`` calls of the loop."""
    data = pad(x, y, 64, dtype)
    algorithm = hmc.build(config)
    keys = jax.random.split(jax.random.key(0), chains)
    problems = jax.device_put(jax.tree.map(lambda leaf: np.stack([leaf] * chains), data))
    states = loop.init(algorithm, keys, problems)
    transitions = config.method.warmup + config.method.samples * config.method.thin
    ends = np.linspace(0, transitions, parts + 1).astype(int).tolist()
    for first, last in itertools.pairwise(ends):
        for chunk in loop.run(algorithm, keys, states, problems, jnp.zeros(()), first, last):
            states = chunk.states
    return states


def assert_mean(draws, expected):
    """The mean of draws ``[chains, samples]`` is the expected one, by their effective number."""
    error = draws.std() / np.sqrt(float(effective_number(draws)))
    assert abs(draws.mean() - expected) < ERRORS * error
    assert error < 0.5 * draws.std()


@pytest.mark.parametrize("nodes", [0, 6])
@pytest.mark.parametrize("deviation", [0.0, 1.5])
def test_log_density_equals_the_sum_written_out(x64, rng, nodes, deviation):
    model = BNNLV(1, 2, (3,), 1, 0.5, 2.0)
    config = hmc.NUTS(nodes=nodes, log_noise_prior=(-1.0, deviation)).config(model)
    x, y = rng.normal(size=(5, 1)), rng.normal(size=(5, 2))
    weights, log_noise = rng.normal(size=model.num_weights), rng.normal(size=2)
    z = rng.normal(size=(64, 1))
    position = hmc.Position(
        jnp.asarray(weights),
        jnp.asarray(log_noise if deviation else np.zeros(0)),
        jnp.asarray(np.zeros((0, 1)) if nodes else z),
    )
    power = jnp.asarray(0.4)
    found = log_density(config, jax.device_put(pad(x, y, 64, "float64")), power, position)
    expected = norm.logpdf(weights, scale=np.sqrt(0.5)).sum()
    used = log_noise if deviation else np.full(2, -1.0)
    if deviation:
        expected += norm.logpdf(log_noise, -1.0, deviation).sum()
    if not nodes:
        expected += norm.logpdf(z, scale=np.sqrt(2.0)).sum()
    for n in range(5):
        choices = [(z[n, 0], 0.0)]
        if nodes:
            points, log_weights = map(np.asarray, latent_nodes(model, nodes))
            choices = zip(points[:, 0], log_weights, strict=True)
        terms = []
        for one, log_weight in choices:
            mean = np.asarray(mean_of(model, weights[None], x[n : n + 1], np.full((1, 1, 1), one)))
            value = norm.logpdf(y[n], mean[0, :, 0], np.exp(0.5 * used)).sum()
            terms.append(value + log_weight)
        expected += 0.4 * logsumexp(terms)
    np.testing.assert_allclose(found, expected)


def test_a_row_of_weight_two_is_the_row_twice(x64, rng):
    model, times = BNNLV(1, 1, (3,), 1, 0.5, 2.0), np.array([1, 2, 1, 3, 1])
    config = hmc.NUTS(nodes=6).config(model)
    x, y = rng.normal(size=(5, 1)), rng.normal(size=(5, 1))
    position = hmc.Position(
        *(jnp.asarray(rng.normal(size=n)) for n in (model.num_weights, 1)), jnp.zeros((0, 1))
    )
    twice = (np.repeat(leaf, times, axis=0) for leaf in (x, y))
    found, expected = (
        log_density(config, jax.device_put(data), jnp.ones(()), position)
        for data in (pad(x, y, 64, "float64", times), pad(*twice, 64, "float64"))
    )
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(
    "method",
    [hmc.NUTS(), hmc.HMC(leapfrog_steps=8), hmc.HMC(leapfrog_steps=8, annealing=200)],
)
def test_linear_regression_has_the_exact_posterior(rng, method):
    x = rng.normal(size=(40, 1))
    y = 1.2 * x - 0.3 + 0.5 * rng.normal(size=(40, 1))
    prior = float(np.log(0.25)), 0.0
    method = replace(method, warmup=400, samples=600, log_noise_prior=prior)
    config = method.config(BNNLV(1, 1, (), 0, 1.0, 1.0))
    states = run(config, x, y)
    design = np.hstack([x, np.ones_like(x)])
    covariance = np.linalg.inv(design.T @ design / 0.25 + np.eye(2))
    mean = covariance @ design.T @ y[:, 0] / 0.25
    for i in range(2):
        draws = np.asarray(states.weights[:, :, i])
        assert_mean(draws, mean[i])
        assert_mean(np.square(draws - mean[i]), covariance[i, i])
    assert states.divergences.sum() == 0


def test_annealing_raises_the_power_of_the_likelihood_from_the_prior_to_the_posterior(x64, rng):
    model = BNNLV(1, 1, (3,), 1, 4.0, 1.0)
    config = hmc.NUTS(warmup=20, annealing=10, nodes=4, log_noise_prior=(0.0, 0.0)).config(model)
    powers = [float(hmc.likelihood_power(config, jnp.int32(t))) for t in (0, 4, 9, 15)]
    np.testing.assert_allclose(powers, [1e-4, 0.5**4, 1.0, 1.0], rtol=1e-6)
    assert hmc.likelihood_power(hmc.NUTS().config(model), jnp.int32(0)) == 1.0

    data = jax.device_put(pad(rng.normal(size=(8, 1)), rng.normal(size=(8, 1)), 8, "float64"))
    keys = jax.random.split(jax.random.key(0), 500)
    starts = jax.jit(jax.vmap(lambda key: hmc.start(config, key, data).weights))(keys)
    np.testing.assert_allclose(np.std(starts), 2.0, rtol=0.05)
    state = jax.jit(hmc.init, static_argnums=0)(config, keys[0], data)
    np.testing.assert_allclose(
        state.chain.logdensity,
        log_density(config, data, jnp.asarray(1e-4), state.chain.position),
        rtol=1e-6,
    )
    anneal = jax.jit(hmc.anneal, static_argnums=0)
    later = anneal(config, state, data, jnp.asarray(0.5), jnp.int32(7))
    np.testing.assert_allclose(
        later.chain.logdensity,
        log_density(config, data, jnp.asarray(0.5), state.chain.position),
    )
    done = anneal(config, state, data, jnp.asarray(1.0), jnp.int32(10))
    assert done.chain.logdensity == state.chain.logdensity


def test_noise_has_the_posterior_of_a_one_dimensional_integral(rng):
    # With weights held near 0 only the noise is left to learn.
    y = 0.4 * rng.normal(size=(30, 1))
    config = hmc.NUTS(warmup=400, samples=600, log_noise_prior=(-1.0, 0.5)).config(
        BNNLV(1, 1, (), 0, 1e-6, 1.0)
    )
    states = run(config, np.zeros((30, 1)), y)
    grid = np.linspace(-4, 2, 4001)
    log_posterior = norm.logpdf(grid, -1.0, 0.5)
    log_posterior += norm.logpdf(y, scale=np.exp(0.5 * grid)).sum(axis=0)
    posterior = np.exp(log_posterior - logsumexp(log_posterior))
    mean = posterior @ grid
    draws = np.asarray(states.log_noise[:, :, 0])
    assert_mean(draws, mean)
    assert_mean(np.square(draws - mean), posterior @ np.square(grid - mean))


def test_sampling_z_and_integrating_it_out_agree(rng):
    x = rng.normal(size=(30, 1))
    y = 0.8 * x + 0.5 * rng.normal(size=(30, 1))
    found = []
    for nodes in (0, 60):
        config = hmc.NUTS(
            warmup=500, samples=800, nodes=nodes, log_noise_prior=(float(np.log(0.1)), 0.0)
        ).config(BNNLV(1, 1, (), 1, 1.0, 1.0))
        found.append(np.asarray(run(config, x, y).weights))
    for quantity in (lambda w: w[..., 0], lambda w: w[..., 2], lambda w: np.square(w[..., 1])):
        joint, collapsed = (quantity(weights) for weights in found)
        errors = [np.square(d.std()) / float(effective_number(d)) for d in (joint, collapsed)]
        assert abs(joint.mean() - collapsed.mean()) < ERRORS * np.sqrt(sum(errors))


def test_a_chain_stopped_in_the_middle_goes_on_as_if_it_had_not(rng):
    x, y = rng.normal(size=(20, 1)), rng.normal(size=(20, 1))
    config = hmc.NUTS(warmup=30, samples=10, thin=2, nodes=5).config(BNNLV(1, 1, (3,), 1, 1.0, 1.0))
    whole, parts = run(config, x, y, chains=2), run(config, x, y, chains=2, parts=3)
    np.testing.assert_array_equal(whole.weights, parts.weights)
    assert whole.weights.shape == (2, 10, config.model.num_weights)
    assert np.all(np.abs(whole.weights).sum(axis=-1) > 0)


def test_posterior_joins_the_chains(rng):
    x, y = rng.normal(size=(20, 1)), rng.normal(size=(20, 1))
    config = hmc.NUTS(warmup=5, samples=4).config(BNNLV(1, 1, (), 0, 1.0, 1.0))
    states = run(config, x, y, chains=3)
    posterior = config.method.finish(config, states, np.zeros((9, 3)), 9).posterior
    assert posterior.weights.shape == (12, 2)
    np.testing.assert_array_equal(posterior.weights[4:8], states.weights[1])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"warmup": 0}, "warmup must be an integer of at least 1"),
        ({"nodes": -1}, "nodes must be an integer of at least 0"),
        ({"target_acceptance": 1.0}, "target_acceptance must lie in"),
        ({"log_noise_prior": (0.0, -1.0)}, "log_noise_prior"),
    ],
)
def test_impossible_settings_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        hmc.NUTS(**setting)
