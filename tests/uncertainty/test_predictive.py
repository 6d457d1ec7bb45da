"""Nested prediction against loops and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from twofold.inference.meanfield import MeanFieldPosterior
from twofold.model import bnn
from twofold.model.bnn import BNNLV
from twofold.uncertainty import decomposition, predictive, quadrature


def make(latents=1, outputs=2):
    model = BNNLV(2, outputs, (5,), latents, 1.0, 2.0)
    rng = np.random.default_rng(0)
    posterior = MeanFieldPosterior(
        jnp.asarray(rng.normal(size=model.num_weights)),
        jnp.asarray(rng.uniform(0.1, 0.5, model.num_weights)),
        jnp.asarray(rng.normal(size=outputs)),
    )
    nested = predictive.nest(jax.random.key(0), model, posterior, 6, 7)
    return model, posterior, nested, jnp.asarray(rng.normal(size=(4, 2)))


def loop_means(model, nested, x):
    """``[L, M, B, O]`` by explicit loops."""
    latents, draws = nested.latents.shape[:2]
    out = np.empty((latents, draws, len(x), model.outputs))
    for i in range(latents):
        for m in range(draws):
            for b in range(len(x)):
                z = nested.latents[i, m][None, :, None]
                out[i, m, b] = bnn.mean(model, nested.weights[m : m + 1], x[b : b + 1], z)[0, :, 0]
    return out


@pytest.mark.parametrize("latents", [0, 1, 2])
def test_moments_and_means_equal_a_loop(x64, latents):
    model, _, nested, x = make(latents)
    values = loop_means(model, nested, x)
    moments = predictive.moments(model, nested, x)
    noise = np.exp(nested.log_noise)[:, None, :]
    np.testing.assert_allclose(np.swapaxes(moments.mean, 1, 2), values.mean(axis=0))
    np.testing.assert_allclose(np.swapaxes(moments.variance, 1, 2), values.var(axis=0) + noise)
    every = np.swapaxes(predictive.means(model, nested, x), 2, 3)
    np.testing.assert_allclose(every, values)


def test_log_density_equals_a_loop(x64):
    model, _, nested, x = make()
    y = np.random.default_rng(1).normal(size=(4, 2))
    values = loop_means(model, nested, x)
    deviation = np.exp(0.5 * np.asarray(nested.log_noise))[:, None, :]
    terms = norm.logpdf(y, values, deviation).sum(axis=-1).reshape(-1, 4)
    expected = logsumexp(terms, axis=0) - np.log(len(terms))
    np.testing.assert_allclose(predictive.log_density(model, nested, x, jnp.asarray(y)), expected)


def test_latent_draws_follow_the_prior_and_are_stratified():
    model = BNNLV(3, 1, (5,), 1, 1.0, 4.0)
    z = np.asarray(predictive.latent_draws(jax.random.key(0), model, 50, 400))[..., 0]
    ranks = norm.cdf(z / 2.0)
    strata = np.floor(ranks * 50).astype(int)
    np.testing.assert_array_equal(strata, np.broadcast_to(np.arange(50)[:, None], strata.shape))
    # The mean of 50 stratified draws has a far smaller error than 2/sqrt(50).
    assert np.abs(z.mean(axis=0)).max() < 0.5 * 2.0 / np.sqrt(50)
    np.testing.assert_allclose(z.var(), 4.0, rtol=0.02)


def test_samples_have_the_predictive_moments(x64):
    model, posterior, _, x = make()
    nested = predictive.nest(jax.random.key(1), model, posterior, 4000, 20)
    split = decomposition.by_variance(predictive.moments(model, nested, x))
    num = 20_000
    draws = predictive.sample(jax.random.key(2), model, posterior, num, x)
    error = np.sqrt(split.total.T * (1 / num + 1 / 4000))
    mean = predictive.moments(model, nested, x).mean.mean(axis=0).T
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4.5 * error)
    # Kurtosis of these mixtures is below 12, so a variance errs by less than sqrt(11/n).
    tolerance = 4.5 * np.sqrt(11 / num + 11 / 4000)
    np.testing.assert_allclose(draws.var(axis=0), split.total.T, rtol=tolerance)


def test_variances_add_up_and_match_the_law_of_total_variance(x64):
    model, _, nested, x = make()
    values = loop_means(model, nested, x)
    noise = np.exp(nested.log_noise)[:, None, :]
    split = decomposition.by_variance(predictive.moments(model, nested, x))
    np.testing.assert_allclose(split.epistemic.T, values.mean(axis=0).var(axis=0))
    np.testing.assert_allclose(split.aleatoric.T, (values.var(axis=0) + noise).mean(axis=0))
    total = values.reshape(-1, 4, 2).var(axis=0) + noise.mean(axis=0)
    np.testing.assert_allclose(split.total.T, total)


def linear_gaussian(ratio, draws=2000):
    """``y = w + noise``: total entropy ½ log 2πe(s²+σ²), conditional ½ log 2πeσ²."""
    sigma = 0.3
    spread = sigma * np.sqrt(ratio)
    centres = spread * norm.ppf((np.arange(draws) + 0.5) / draws)
    return centres, sigma, spread


@pytest.mark.parametrize("ratio", [0.0, 0.01, 0.1, 1.0, 10.0])
def test_entropies_of_a_linear_gaussian_model(ratio):
    centres, sigma, spread = linear_gaussian(ratio)
    log_noise = jnp.full(len(centres), 2 * np.log(sigma), jnp.float32)
    total, conditional = quadrature.mixture_entropies(
        jnp.asarray(centres, jnp.float32)[None], log_noise
    )
    np.testing.assert_allclose(conditional, 0.5 * np.log(2 * np.pi * np.e * sigma**2), atol=1e-4)
    expected = 0.5 * np.log(2 * np.pi * np.e * (sigma**2 + spread**2))
    # The even grid of quantiles stands for the normal distribution up to its far tails.
    np.testing.assert_allclose(total, expected, atol=2e-3)


@pytest.mark.parametrize("ratio", [0.01, 1.0])
def test_epistemic_entropy_of_a_linear_gaussian_model(ratio):
    centres, sigma, _ = linear_gaussian(ratio)
    log_noise = jnp.full(len(centres), 2 * np.log(sigma), jnp.float32)
    pair = quadrature.mixture_entropies(jnp.asarray(centres, jnp.float32)[None], log_noise)
    split = decomposition.by_entropy(quadrature.Entropies(*(value[None] for value in pair)))
    np.testing.assert_allclose(split.epistemic, 0.5 * np.log1p(ratio), atol=2e-3)
    np.testing.assert_allclose(split.total, split.epistemic + split.aleatoric)


def test_entropy_of_two_far_modes():
    centres = jnp.asarray([[-5.0], [5.0]], jnp.float32)
    total, conditional = quadrature.mixture_entropies(centres, jnp.zeros(1, jnp.float32))
    expected = 0.5 * np.log(2 * np.pi * np.e) + np.log(2.0)
    np.testing.assert_allclose([total, conditional], expected, atol=1e-4)


@pytest.mark.parametrize("ratio", [1e-1, 1e-3])
def test_narrow_noise_gets_a_finer_grid(ratio):
    # Ten far and narrow modes: entropy of one mode plus log 10.
    sigma = ratio
    centres = jnp.linspace(0.0, 10.0 if ratio == 1e-3 else 100.0, 10)[:, None]
    log_noise = jnp.full(1, 2 * np.log(sigma), jnp.float32)
    points = quadrature.grid_points(float((centres[-1, 0] - centres[0, 0]) / sigma))
    total, _ = quadrature.mixture_entropies(centres, log_noise, points)
    expected = 0.5 * np.log(2 * np.pi * np.e * sigma**2) + np.log(10.0)
    np.testing.assert_allclose(total, expected, atol=2e-3)


def test_noise_too_narrow_for_any_grid_is_said():
    with pytest.warns(RuntimeWarning, match="not reliable"):
        assert quadrature.grid_points(1e6) == quadrature.MOST_POINTS


def test_sharpness_is_the_widest_range_over_the_noise(x64):
    model, _, nested, x = make(outputs=1)
    values = loop_means(model, nested, x)[..., 0]
    spread = np.ptp(values.reshape(-1, len(x)), axis=0).max()
    expected = spread / np.exp(0.5 * np.min(nested.log_noise))
    np.testing.assert_allclose(quadrature.sharpness(model, nested, x), expected)


def test_many_latent_draws_are_finite():
    model = BNNLV(1, 1, (5,), 1, 1.0, 1.0)
    for seed in range(20):
        z = predictive.latent_draws(jax.random.key(seed), model, 10_000, 4)
        assert np.isfinite(z).all()


def test_entropies_pick_the_right_centres(x64):
    model, _, nested, x = make(outputs=1)
    values = loop_means(model, nested, x)[..., 0]
    found = quadrature.entropies(model, nested, x)
    for b in range(len(x)):
        centres = jnp.asarray(values[:, :, b])
        expected = quadrature.mixture_entropies(centres, nested.log_noise[:, 0])
        np.testing.assert_allclose([found.total[b], found.aleatoric[b]], expected)
