"""Entropies of a y of any dimension by averaging its known log-density over draws of y.

Given W, y is a mixture of Gaussians over the latent draws; its density, and that of the mean over
W, is a sum that can be written down. ``−log p`` averaged over draws of y is an unbiased estimate of
a mixture's entropy; both entropies see the same draws, so that their difference errs little.
"""

import jax
import jax.numpy as jnp

from twofold.numerics import gaussian_log_density, power_log_mean_exp
from twofold.typing import Array, Float, Int, Key
from twofold.uncertainty.entropies import Entropies

DRAWS = 1000


def log_densities(
    y: Float[Array, "R O"], centres: Float[Array, "L M O"], log_noise: Float[Array, "M O"]
) -> Float[Array, "M R"]:
    """``log p(y | x, W_m)`` of every y under every weight draw."""
    terms = gaussian_log_density(y[:, None, None], centres, log_noise).sum(axis=-1)
    return power_log_mean_exp(jnp.moveaxis(terms, 1, 0), 1.0).T


def average(key: Key, centres: Float[Array, "L M O"], log_noise: Float[Array, "M O"]) -> Entropies:
    """Cross and conditional entropies from about DRAWS draws of y, the same number for each W."""
    latents, draws, _ = centres.shape
    num = max(1, DRAWS // draws)

    def given(index: Int[Array, ""]) -> Entropies:
        component_key, noise_key = jax.random.split(jax.random.fold_in(key, index))
        component = jax.random.randint(component_key, (num,), 0, latents)
        noise = jax.random.normal(noise_key, (num, centres.shape[2]), centres.dtype)
        y = centres[component, index] + jnp.exp(0.5 * log_noise[index]) * noise
        log_density = log_densities(y, centres, log_noise)
        cross = -power_log_mean_exp(log_density, 1.0)
        return Entropies(jnp.mean(cross), -jnp.mean(log_density[index]))

    return jax.lax.map(given, jnp.arange(draws))
