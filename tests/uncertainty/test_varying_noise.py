"""The predictive distribution and its split where the noise varies, against plain integration."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from twofold.model.spec import BNNLV, SampledPosterior
from twofold.uncertainty import decompose, predictive
from twofold.uncertainty.decomposition import ESTIMATORS, by_variance, choose_estimator

DRAWS, LATENTS, ROWS = 12, 3, 4
MODEL = BNNLV(
    inputs=1, outputs=1, hidden=(6,), latents=1, weight_variance=1.0, latent_variance=1.0,
    varying_noise=True, scaled_prior=True, activation="tanh",
)  # fmt: skip


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(3)
    weights = rng.normal(size=(DRAWS, MODEL.num_weights))
    log_noise = np.stack([rng.normal(-2.0, 0.3, DRAWS), rng.normal(-3.0, 0.5, DRAWS)], axis=1)
    posterior = SampledPosterior(*(jnp.asarray(p, jnp.float32) for p in (weights, log_noise)))
    x = jnp.linspace(-1.5, 1.5, ROWS)[:, None]
    key = jax.random.key(0)
    nested = predictive.nest(key, MODEL, posterior, DRAWS, LATENTS)
    given = jax.tree.map(np.asarray, predictive.components(MODEL, nested, x))
    return posterior, x, key, nested, given


def densities(given, row, y):
    """``p(y | x, W_m)`` on a grid, component by component, ``[M, G]``."""
    found = np.zeros((DRAWS, len(y)))
    for m in range(DRAWS):
        share = 1.0 / (1.0 + np.exp(-given.log_odds[m]))
        for one in range(len(given.mean)):
            mean = given.mean[one, m, 0, row]
            deviation = np.exp(0.5 * given.log_variance[one, m, 0, row])
            for weight, width in ((1.0 - share, 1.0), (share, 10.0)):
                found[m] += weight * norm.pdf(y, mean, width * deviation) / len(given.mean)
    return found


def test_moments_density_and_samples_are_those_of_the_mixture(case):
    posterior, x, _, nested, given = case
    y = np.linspace(-40.0, 40.0, 80_001)
    moments = predictive.moments(MODEL, nested, x)
    at = jnp.asarray([[-0.5], [0.1], [0.7], [2.0]])
    log_density = predictive.log_density(MODEL, nested, x, at, jnp.zeros_like(at))
    draws = posterior.sample(jax.random.key(5), 4_000)
    rows = jnp.arange(ROWS)[:, None]
    many = predictive.nest(jax.random.key(1), MODEL, posterior, DRAWS, 100)
    every = jax.tree.map(np.asarray, predictive.components(MODEL, many, x))
    samples = np.asarray(predictive.sample(jax.random.key(6), MODEL, draws, x, rows))[..., 0]
    for row in range(ROWS):
        each = densities(given, row, y)
        mean = np.trapezoid(y * each, y)
        variance = np.trapezoid(y**2 * each, y) - mean**2
        np.testing.assert_allclose(moments.mean[:, 0, row], mean, rtol=2e-4, atol=1e-5)
        np.testing.assert_allclose(moments.variance[:, 0, row], variance, rtol=2e-3)
        expected = np.log(densities(given, row, np.asarray(at[row])).mean())
        assert log_density[row] == pytest.approx(expected, rel=1e-4)
        short = np.linspace(-8.0, 8.0, 801)
        below = np.cumsum(densities(every, row, short).mean(axis=0)) * (short[1] - short[0])
        quartiles = np.interp([0.25, 0.5, 0.75], below, short)
        found = np.quantile(samples[row], [0.25, 0.5, 0.75])
        np.testing.assert_allclose(found, quartiles, atol=0.08)


@pytest.mark.parametrize(("estimator", "tolerance"), [("auto", 1e-3), ("mixture", 0.06)])
def test_the_split_by_entropy_is_that_of_plain_integration(case, estimator, tolerance):
    posterior, x, key, _, given = case
    one = partial(decompose, estimator=estimator, weights=DRAWS, latents=LATENTS)
    split = jax.jit(one, static_argnums=1)(key, MODEL, posterior, x)
    y = np.linspace(-60.0, 60.0, 240_001)
    for row in range(ROWS):
        each = densities(given, row, y)
        total = -np.trapezoid(each.mean(axis=0) * np.log(each.mean(axis=0) + 1e-300), y)
        aleatoric = -np.trapezoid(each * np.log(each + 1e-300), y).mean()
        parts = [float(part[row, 0]) for part in split.parts]
        np.testing.assert_allclose(parts, [total, total - aleatoric, aleatoric], atol=tolerance)


def test_the_split_by_variance_adds_up(case):
    _, x, _, nested, _ = case
    moments = predictive.moments(MODEL, nested, x)
    total, epistemic, aleatoric = by_variance(moments).parts
    np.testing.assert_allclose(total, epistemic + aleatoric, rtol=1e-5)
    np.testing.assert_allclose(epistemic, np.var(moments.mean, axis=0), rtol=1e-4)


def test_quadrature_is_chosen_but_for_joint_outputs():
    two = replace(MODEL, outputs=2)
    assert choose_estimator("auto", False, two) is ESTIMATORS["quadrature"]
    assert choose_estimator("auto", True, two) is ESTIMATORS["mixture"]
