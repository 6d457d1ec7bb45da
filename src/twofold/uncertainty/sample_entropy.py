"""Entropy from samples alone: the paper's estimator, and splits by estimators of this kind.

An estimator maps samples ``[n, d]`` to *surprisals*, estimates of ``−log p(y_i)`` in nats at each
sample; their mean estimates the entropy. It must run under ``jit`` and ``vmap``.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from scipy.special import digamma

from twofold.core.arrays import Array, Float, Key
from twofold.model.spec import WIDE
from twofold.uncertainty import neighbours as near
from twofold.uncertainty.entropies import Entropies, PointEstimator

LONE_DRAWS = 100


def nearest_neighbour(samples: Float[Array, "n d"], k: int = 25) -> Float[Array, "n"]:
    """``ψ(n) − ψ(k) + log c_d + d log ε_i`` (Kozachenko and Leonenko 1987), ``ε_i`` the distance to
    the k-th neighbour; ``k`` as in Depeweg et al. 2018.

    Distances are at least the range of the samples times the precision of their dtype, so that
    duplicates have a large, not an infinite, density.
    """
    n, d = samples.shape
    return float(digamma(n)) + ball_surprisals(near.kth_distances(samples, k), k, d)


def ball_surprisals(distances: Float[Array, "n"], k: int, d: int) -> Float[Array, "n"]:
    """Minus the log of samples per unit volume, from distances to the k-th neighbour."""
    return near.log_ball_volume(d) - float(digamma(k)) + d * jnp.log(distances)


def estimate_from_samples(
    surprisals: Callable[[Array], Array],
    key: Key,
    centres: Float[Array, "L M O"],
    log_noise: Float[Array, "*L M O"],
    log_odds: Float[Array, "M"] | None = None,
) -> Entropies:
    """Entropies from draws of y alone: cross entropies from the pooled draws, conditional entropies
    from the draws of each W."""
    if centres.shape[0] == 1:
        # Without a latent input, all draws of y given W share one centre.
        centres = jnp.broadcast_to(centres, (LONE_DRAWS, *centres.shape[1:]))
    noise = jax.random.normal(key, centres.shape, centres.dtype)
    if log_odds is not None:
        places = jax.random.uniform(jax.random.fold_in(key, 1), centres.shape[:2])
        noise *= jnp.where(places < jax.nn.sigmoid(log_odds), WIDE, 1.0)[..., None]
    y = jnp.swapaxes(centres + jnp.exp(0.5 * log_noise) * noise, 0, 1)
    draws, latents, outputs = y.shape
    pooled = surprisals(y.reshape(draws * latents, outputs)).reshape(draws, latents)
    return Entropies(jnp.mean(pooled, axis=1), jnp.mean(jax.vmap(surprisals)(y), axis=1))


def from_samples(surprisals: Callable[[Array], Array]) -> PointEstimator:
    """A split estimator that uses draws of y only; ``surprisals`` maps samples ``[n, O]`` to
    estimates ``[n]`` of their ``−log p``."""
    return partial(estimate_from_samples, surprisals)
