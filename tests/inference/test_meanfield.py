"""The mean field: its variances, draws and log-ratio to the prior."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from twofold.inference.meanfield import (
    MeanFieldPosterior,
    latent_variance,
    log_prior_ratio,
    reparametrise,
    weight_variance,
)


@pytest.mark.parametrize("prior", [0.1, 1.0, 61.0])
def test_log_prior_ratio_is_the_difference_of_normal_log_densities(x64, normal, prior):
    mean, noise = normal(4), normal(3, 4)
    variance = prior * jax.nn.sigmoid(normal(4))
    value = mean + jnp.sqrt(variance) * noise
    log_p = norm.logpdf(value, 0.0, np.sqrt(prior))
    log_q = norm.logpdf(value, mean, np.sqrt(variance))
    result = log_prior_ratio(value, noise, variance, prior)
    np.testing.assert_allclose(result, log_p - log_q, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("prior", [0.1, 1.0, 61.0])
@pytest.mark.parametrize("variance", [weight_variance, latent_variance])
def test_variances_never_exceed_the_prior(variance, prior):
    rho = jnp.concatenate([jnp.linspace(-100.0, 100.0, 2001), jnp.array([-1e30, 1e30])])
    values = np.asarray(variance(rho, prior))
    assert np.all(values <= np.float32(prior)) and np.all(values >= 0.0)


def test_variances_are_the_stated_functions_of_rho(x64):
    rho = jnp.linspace(-20.0, 20.0, 41)
    np.testing.assert_allclose(weight_variance(rho, 0.7), 0.7 * expit(rho), rtol=1e-12)
    expected = 1e-6 + (3.0 - 2e-6) * expit(rho)
    np.testing.assert_allclose(latent_variance(rho, 3.0), expected, rtol=1e-12)


@pytest.mark.parametrize("shape", [(5,), (2, 6)])
def test_the_hand_written_gradient_of_reparametrise_is_that_of_the_formula(x64, normal, shape):
    mean, deviation, noise = normal(*shape), normal(*shape), normal(4, *shape)
    cotangent = normal(4, *shape)
    result, pull = jax.vjp(lambda m, d: reparametrise(m, d, noise), mean, deviation)
    expected, plain_pull = jax.vjp(lambda m, d: m + d * noise, mean, deviation)
    np.testing.assert_array_equal(result, expected)
    for ours, plain in zip(pull(cotangent), plain_pull(cotangent), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-12, atol=1e-14)


def test_posterior_draws_have_its_mean_and_variance(x64, normal):
    posterior = MeanFieldPosterior(normal(5), jnp.exp(normal(5)), normal(2))
    num = 100_000
    draws = posterior.sample(jax.random.key(0), num)
    # Four standard errors: sqrt(v/n) of a Gaussian's mean, v sqrt(2/n) of its variance, and
    # sqrt(v_i v_j / n) of a covariance that is zero.
    deviation = np.sqrt(posterior.variance)
    error = 4 * deviation / np.sqrt(num)
    np.testing.assert_array_less(np.abs(draws.weights.mean(axis=0) - posterior.mean), error)
    allowed = 4 * np.outer(deviation, deviation) * np.sqrt((1 + np.eye(5)) / num)
    covariance = np.cov(draws.weights.T)
    np.testing.assert_array_less(np.abs(covariance - np.diag(posterior.variance)), allowed)


def test_posterior_draws_carry_the_noise_and_depend_on_the_key_alone(normal):
    posterior = MeanFieldPosterior(normal(5), jnp.exp(normal(5)), normal(2))
    first, second, again = (posterior.sample(jax.random.key(seed), 3) for seed in (0, 1, 0))
    np.testing.assert_array_equal(first.log_noise, np.tile(posterior.log_noise, (3, 1)))
    np.testing.assert_array_equal(first.weights, again.weights)
    assert not np.any(first.weights == second.weights)
