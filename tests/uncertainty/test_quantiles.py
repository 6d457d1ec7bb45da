"""Quantiles of the predictive mixture against SciPy's root of its distribution function."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm

from twofold.model.spec import BNNLV, WIDE, SampledPosterior
from twofold.uncertainty import predictive
from twofold.uncertainty.quantiles import Levels, quantiles

LEVELS = np.array([1e-6, 0.05, 0.5, 0.95, 1.0 - 1e-6])
SHAPE = {"inputs": 2, "hidden": (5,), "weight_variance": 1.0, "latent_variance": 2.0}
MODELS = {
    "constant": BNNLV(**SHAPE, outputs=2, latents=1),
    "varying": BNNLV(**SHAPE, outputs=2, latents=1, varying_noise=True),
    "without z": BNNLV(**SHAPE, outputs=1, latents=0, noise_floor=(0.25,)),
}


def make(model, dtype, draws=6, latents=8):
    rng = np.random.default_rng(0)
    log_noise = rng.normal(-2.0, 0.5, (draws, model.num_noise))
    arrays = rng.normal(size=(draws, model.num_weights)), log_noise
    posterior = SampledPosterior(*(jnp.asarray(leaf, dtype) for leaf in arrays))
    nested = predictive.nest(jax.random.key(0), model, posterior, draws, latents)
    return nested, jnp.asarray(rng.normal(size=(3, 2)), dtype)


def expected_quantile(given, output, row, level):
    """The root of the mixture's probability beyond a value, component by component."""
    mean, deviation = (
        np.broadcast_to(leaf, given.mean.shape)[:, :, output, row]
        for leaf in (given.mean, np.exp(0.5 * given.log_variance))
    )
    share = 0.0 if given.log_odds is None else expit(given.log_odds)
    beyond, tail = (norm.cdf, level) if level <= 0.5 else (norm.sf, 1.0 - level)

    def excess(value):
        narrow, wide = (beyond(value, mean, width * deviation) for width in (1.0, WIDE))
        return np.mean((1.0 - share) * narrow + share * wide) / tail - 1.0

    return brentq(excess, -1e4, 1e4, xtol=1e-12)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quantiles_are_those_of_the_mixture(name, dtype):
    model = MODELS[name]
    with jax.enable_x64(dtype == "float64"):
        nested, x = make(model, dtype)
        find = jax.jit(quantiles, static_argnums=0)
        found = np.asarray(find(model, nested, Levels.of(LEVELS, dtype), x))
        given = jax.tree.map(
            lambda leaf: np.asarray(leaf, np.float64), predictive.components(model, nested, x)
        )
    assert found.shape == (3, model.outputs, len(LEVELS)) and found.dtype == dtype
    # Values of up to 20; beyond a level of 1e-6 the probability changes by its 2e-7th in 1e-6.
    tolerance = 1e-8 if dtype == "float64" else 1e-5
    for row, output, at in np.ndindex(found.shape):
        expected = expected_quantile(given, output, row, LEVELS[at])
        np.testing.assert_allclose(found[row, output, at], expected, rtol=tolerance, atol=tolerance)


def test_a_lone_component_has_the_quantiles_of_a_gaussian(x64):
    model = MODELS["without z"]
    nested, x = make(model, "float64", draws=1)
    given = predictive.components(model, nested, x)
    found = quantiles(model, nested, Levels.of(LEVELS, "float64"), x)[:, 0]
    deviation = np.exp(0.5 * np.asarray(given.log_variance)).ravel()[0]
    mean = np.asarray(given.mean)[0, 0, 0]
    np.testing.assert_allclose(found, mean[:, None] + deviation * norm.ppf(LEVELS), rtol=1e-9)
