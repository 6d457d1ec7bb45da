"""Entropies of a y of any dimension by averaging its known log-density over draws of y.

Given W, y is a mixture of Gaussians over the latent draws; its density, and that of the mean over
W, is a sum that can be written down. ``−log p`` averaged over draws of y is an unbiased estimate of
a mixture's entropy; both entropies see the same draws, so that their difference errs little.
"""

import jax
import jax.numpy as jnp

from twofold.core.arrays import Array, Float, Int, Key
from twofold.core.numerics import LOG_TWO_PI
from twofold.uncertainty.entropies import Entropies

DRAWS = 1000


def log_kernels(
    y: Float[Array, "R O"], centres: Float[Array, "O L M"], log_noise: Float[Array, "O M"]
) -> Float[Array, "R M"]:
    """``log p(y | x, W_m)`` of every y over a Gaussian's peak: ``log mean_l exp(−½ d²)``.

    The distances d are in deviations of the noise; the nearest component is taken out of the sum,
    lest it underflow.
    """
    precision = jnp.exp(-log_noise)
    squares = sum(
        jnp.square(y[:, o, None, None] - centres[o]) * precision[o] for o in range(y.shape[1])
    )
    nearest = jnp.min(squares, axis=1)
    return jnp.log(jnp.mean(jnp.exp(-0.5 * (squares - nearest[:, None])), axis=1)) - 0.5 * nearest


def log_peaks(log_noise: Float[Array, "M O"]) -> Float[Array, "M"]:
    """Log-density of a Gaussian at its centre."""
    return -0.5 * jnp.sum(log_noise + LOG_TWO_PI, axis=1)


def average(key: Key, centres: Float[Array, "L M O"], log_noise: Float[Array, "M O"]) -> Entropies:
    """Cross and conditional entropies from about DRAWS draws of y, the same number for each W."""
    latents, draws, outputs = centres.shape
    num = max(1, DRAWS // draws)
    peaks = log_peaks(log_noise)
    # Outputs first: the sums then run over long contiguous rows.
    outputs_first = jnp.moveaxis(centres, -1, 0)

    def given(index: Int[Array, ""]) -> Entropies:
        component_key, noise_key = jax.random.split(jax.random.fold_in(key, index))
        component = jax.random.randint(component_key, (num,), 0, latents)
        noise = jax.random.normal(noise_key, (num, outputs), centres.dtype)
        y = centres[component, index] + jnp.exp(0.5 * log_noise[index]) * noise
        log_densities = log_kernels(y, outputs_first, log_noise.T) + peaks
        everyone = jax.nn.logsumexp(log_densities, axis=1) - jnp.log(draws)
        return Entropies(-jnp.mean(everyone), -jnp.mean(log_densities[:, index]))

    return jax.lax.map(given, jnp.arange(draws))
