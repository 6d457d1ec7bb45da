"""Small numerical functions with more than one user."""

import math

import jax
import jax.numpy as jnp

from twofold.typing import Array, Float

LOG_TWO_PI = math.log(2.0 * math.pi)


def power_log_mean_exp(
    log_values: Float[Array, "K *rest"], power: Float[Array, ""] | float
) -> Float[Array, "*rest"]:
    """``log(mean(exp(v)**power)) / power`` over the first axis: the log of a power mean.

    Power 1 is the log-mean-exp. Towards power 0 it becomes the mean of ``v``, and stays accurate
    in float32 there, because ``expm1`` and ``log1p`` keep the digits that ``exp`` and ``log`` drop.
    """
    largest = jax.lax.stop_gradient(jnp.max(log_values, axis=0))
    largest = jnp.where(jnp.isfinite(largest), largest, 0.0)
    scaled = jnp.maximum(power * (log_values - largest), _negligible(log_values.dtype))
    shortfall = jnp.mean(jnp.expm1(scaled), axis=0)
    return largest + jnp.log1p(shortfall) / power


def _negligible(dtype: jnp.dtype) -> float:
    """A log-weight so small that it adds nothing, yet not so small that products with it become
    denormal numbers, which are a hundred times slower on a CPU."""
    return 0.5 * math.log(jnp.finfo(dtype).tiny)


def gaussian_log_density(
    value: Float[Array, "..."], mean: Float[Array, "..."], log_variance: Float[Array, "..."]
) -> Float[Array, "..."]:
    """Log of the univariate normal density, elementwise."""
    square = jnp.square(value - mean) * jnp.exp(-log_variance)
    return -0.5 * (square + log_variance + LOG_TWO_PI)
