"""Quantiles of the predictive distribution of each output, without sampling.

Given nested draws (``uncertainty.predictive``) it is a mixture of Gaussians, noise included, with

    P(y < t) = mean over draws of (1 − π) Φ((t − f) / σ) + π Φ((t − f) / (WIDE σ)),

with π = 0 if the noise is constant. A quantile lies between the smallest and the largest of the
components' quantiles; bisection finds it there.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri

from twofold.core.arrays import Array, Float, Scalar
from twofold.model.spec import BNNLV, WIDE
from twofold.uncertainty.predictive import Nested, components, latents_at_once

# Bisection steps beyond the number of bits of the precision.
MORE_STEPS = 4


class Levels(NamedTuple):
    """Levels of quantiles: the probability in the smaller tail, and whether that is the lower (1)
    or the upper (−1) tail, so that levels near 1 stay accurate."""

    tail: Float[Array, "*Q"]
    side: Float[Array, "*Q"]

    @classmethod
    def of(cls, levels: np.ndarray, dtype: Any) -> "Levels":
        above = levels > 0.5
        tail, side = np.where(above, 1.0 - levels, levels), np.where(above, -1.0, 1.0)
        numbers: Any = tail.astype(dtype), side.astype(dtype)
        return cls(*numbers)


class Mixture(NamedTuple):
    """Means and deviations of all components in blocks of latents, and π of each weight draw."""

    mean: Float[Array, "blocks block M O B"]
    deviation: Float[Array, "blocks block M O B"]
    wide_share: Float[Array, "M 1 1"] | None


def mixture(model: BNNLV, nested: Nested, x: Float[Array, "B D"]) -> Mixture:
    """The predictive distribution at each point; memory grows with L · M · B."""
    given = components(model, nested, x)
    latents, draws, _, points = given.mean.shape
    block = latents_at_once(model, draws, points, latents)
    shape = latents // block, block, *given.mean.shape[1:]
    deviation = jnp.broadcast_to(jnp.exp(0.5 * given.log_variance), given.mean.shape)
    share = None if given.log_odds is None else jax.nn.sigmoid(given.log_odds)[:, None, None]
    return Mixture(given.mean.reshape(shape), deviation.reshape(shape), share)


def bracket(mixed: Mixture, level: Levels) -> tuple[Float[Array, "O B"], Float[Array, "O B"]]:
    """The smallest and the largest of the components' quantiles."""
    widths = jnp.asarray([1.0] if mixed.wide_share is None else [1.0, WIDE], mixed.mean.dtype)
    standard = widths * level.side * ndtri(level.tail)

    def widen(ends: Any, block: Any) -> tuple[Any, None]:
        mean, deviation = block
        low = jnp.min(mean + deviation * jnp.min(standard), axis=(0, 1))
        high = jnp.max(mean + deviation * jnp.max(standard), axis=(0, 1))
        return (jnp.minimum(ends[0], low), jnp.maximum(ends[1], high)), None

    infinite = jnp.full(mixed.mean.shape[3:], jnp.inf, mixed.mean.dtype)
    return jax.lax.scan(widen, (infinite, -infinite), (mixed.mean, mixed.deviation))[0]


def probability_beyond(
    mixed: Mixture, value: Float[Array, "O B"], side: Scalar
) -> Float[Array, "O B"]:
    """``P(y < value)``, or ``P(y > value)`` if ``side`` is −1."""

    def add(total: Any, block: Any) -> tuple[Any, None]:
        mean, deviation = block
        distance = side * (mean - value) / deviation * 0.5**0.5
        # erfc is accurate for probabilities near 0.
        beyond = 0.5 * jax.lax.erfc(distance)
        if mixed.wide_share is not None:
            beyond += mixed.wide_share * (0.5 * jax.lax.erfc(distance / WIDE) - beyond)
        return total + jnp.sum(beyond, axis=(0, 1)), None

    blocks, block, draws, *_ = mixed.mean.shape
    total, _ = jax.lax.scan(add, jnp.zeros_like(value), (mixed.mean, mixed.deviation))
    return total / (blocks * block * draws)


def quantiles(
    model: BNNLV, nested: Nested, levels: Levels, x: Float[Array, "B D"]
) -> Float[Array, "B O Q"]:
    mixed = mixture(model, nested, x)
    steps = jnp.finfo(x.dtype).nmant + MORE_STEPS

    def at_level(level: Levels) -> Float[Array, "O B"]:
        def halve(_: Any, ends: Any) -> Any:
            low, high = ends
            middle = 0.5 * (low + high)
            beyond = probability_beyond(mixed, middle, level.side)
            too_low = level.side * (beyond - level.tail) < 0
            return jnp.where(too_low, middle, low), jnp.where(too_low, high, middle)

        low, high = jax.lax.fori_loop(0, steps, halve, bracket(mixed, level))
        return 0.5 * (low + high)

    return jnp.transpose(jax.lax.map(at_level, levels), (2, 1, 0))
