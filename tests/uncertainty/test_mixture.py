"""Entropies of several outputs against closed forms and against quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from twofold.uncertainty.decomposition import by_entropy
from twofold.uncertainty.entropies import average, integrate, log_kernels, log_peaks

# A result may be this many of its own standard errors from the truth; of the dozen or so
# comparisons here one would fail by chance once in 10,000 times.
ERRORS = 4.5


def test_kernels_and_peaks_are_the_densities_of_a_loop(x64, rng):
    y, centres = rng.normal(size=(3, 2)), rng.normal(size=(5, 4, 2))
    log_noise = rng.normal(size=(4, 2))
    outputs_first = jnp.moveaxis(jnp.asarray(centres), -1, 0)
    kernels = log_kernels(jnp.asarray(y), outputs_first, jnp.asarray(log_noise).T)
    found = kernels + log_peaks(jnp.asarray(log_noise))
    for m in range(4):
        for r in range(3):
            terms = norm.logpdf(y[r], centres[:, m], np.exp(0.5 * log_noise[m])).sum(axis=-1)
            np.testing.assert_allclose(found[r, m], logsumexp(terms) - np.log(5))


@pytest.mark.parametrize("seed", range(3))
def test_average_equals_quadrature_in_one_dimension(seed):
    rng = np.random.default_rng(seed)
    centres = jnp.asarray(rng.normal(size=(6, 40, 1)) * 2, jnp.float32)
    log_noise = jnp.asarray(2 * np.log(rng.uniform(0.2, 0.6, (40, 1))), jnp.float32)
    exact = by_entropy(integrate(jax.random.key(0), centres, log_noise)).parts
    # The mixture is given, so the error is that of the draws of y alone: below that over W and y.
    found = by_entropy(average(jax.random.key(seed), centres, log_noise))
    for name in ("total", "epistemic", "aleatoric"):
        error = getattr(found.errors, name)
        assert abs(getattr(found.parts, name) - getattr(exact, name)) < ERRORS * error + 1e-3


@pytest.mark.parametrize("ratio", [0.0, 0.1, 10.0])
def test_joint_entropy_of_two_independent_outputs(ratio):
    sigma = 0.3
    rng = np.random.default_rng(0)
    draws = 400
    centres = sigma * np.sqrt(ratio) * rng.normal(size=(1, draws, 2))
    log_noise = jnp.full((draws, 2), 2 * np.log(sigma), jnp.float32)
    found = by_entropy(average(jax.random.key(0), jnp.asarray(centres, jnp.float32), log_noise))
    # 400 draws of W stand for their distribution with a relative variance error of sqrt(2/400)
    # in each of two outputs, which is 0.05 nats at most.
    tolerance = ERRORS * float(found.errors.epistemic) + 0.05 * ratio / (1 + ratio) + 1e-5
    assert abs(float(found.parts.epistemic) - np.log1p(ratio)) < tolerance


def test_many_outputs_and_unequal_noises_stay_finite(rng):
    log_noise = jnp.asarray(np.linspace(-8, 0, 10)[:, None] * np.ones(200), jnp.float32)
    centres = jnp.asarray(rng.normal(size=(3, 10, 200)), jnp.float32)
    found = average(jax.random.key(0), centres, log_noise)
    gaussian = 0.5 * np.sum(np.asarray(log_noise) + np.log(2 * np.pi * np.e), axis=1)
    assert np.isfinite(found.cross).all()
    # In 200 dimensions the modes are far apart: one Gaussian's entropy plus log 3, from 100 draws
    # of a surprisal with variance 100.
    np.testing.assert_allclose(found.conditional, gaussian + np.log(3), atol=ERRORS * 1.0)


def test_far_modes_in_two_dimensions():
    centres = jnp.asarray([[[-20.0, 0.0]], [[20.0, 0.0]], [[0.0, 20.0]]], jnp.float32)
    found = by_entropy(average(jax.random.key(0), centres, jnp.zeros((1, 2), jnp.float32)))
    expected = np.log(2 * np.pi * np.e) + np.log(3.0)
    # The surprisal of a two-dimensional Gaussian has variance 1, and 1000 draws were taken.
    np.testing.assert_allclose(found.parts.aleatoric, expected, atol=ERRORS / np.sqrt(1000))
    np.testing.assert_allclose(found.parts.epistemic, 0.0, atol=1e-6)
