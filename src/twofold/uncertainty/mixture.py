"""Entropies of a y of any dimension by averaging its known log-density over draws of y.

Given W, y is a mixture of Gaussians over the latent draws; its density, and that of the mean over
W, is a sum that can be written down. ``−log p`` averaged over draws of y is an unbiased estimate of
a mixture's entropy; both entropies see the same draws, so that their difference errs little.
"""

import jax
import jax.numpy as jnp

from twofold.numerics import LOG_TWO_PI
from twofold.typing import Array, Float, Int, Key
from twofold.uncertainty.entropies import Entropies

DRAWS = 1000


def mean_kernels(
    y: Float[Array, "R O"], centres: Float[Array, "O L M"], log_noise: Float[Array, "O M"]
) -> Float[Array, "R M"]:
    """``p(y | x, W_m)`` of every y over the peak of a single Gaussian: ``mean_l exp(−½ d²)``.

    The distances d are in deviations of the noise. A y drawn from one of the components is near it,
    so that its own mean does not underflow; others may, and then add nothing to the mean over W.
    """
    precision = jnp.exp(-log_noise)
    squares = sum(
        jnp.square(y[:, o, None, None] - centres[o]) * precision[o] for o in range(y.shape[1])
    )
    return jnp.mean(jnp.exp(-0.5 * squares), axis=1)


def log_peaks(log_noise: Float[Array, "M O"]) -> Float[Array, "M"]:
    """Log-density of a Gaussian at its centre."""
    return -0.5 * jnp.sum(log_noise + LOG_TWO_PI, axis=1)


def average(key: Key, centres: Float[Array, "L M O"], log_noise: Float[Array, "M O"]) -> Entropies:
    """Cross and conditional entropies from about DRAWS draws of y, the same number for each W."""
    latents, draws, outputs = centres.shape
    num = max(1, DRAWS // draws)
    peaks = log_peaks(log_noise)
    highest = jnp.max(peaks)
    # Outputs first: the sums then run over long contiguous rows.
    outputs_first = jnp.moveaxis(centres, -1, 0)

    def given(index: Int[Array, ""]) -> Entropies:
        component_key, noise_key = jax.random.split(jax.random.fold_in(key, index))
        component = jax.random.randint(component_key, (num,), 0, latents)
        noise = jax.random.normal(noise_key, (num, outputs), centres.dtype)
        y = centres[component, index] + jnp.exp(0.5 * log_noise[index]) * noise
        kernels = mean_kernels(y, outputs_first, log_noise.T)
        everyone = jnp.mean(kernels * jnp.exp(peaks - highest), axis=1)
        return Entropies(
            -jnp.mean(jnp.log(everyone)) - highest,
            -jnp.mean(jnp.log(kernels[:, index])) - peaks[index],
        )

    return jax.lax.map(given, jnp.arange(draws))
