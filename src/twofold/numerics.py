"""Small numerical functions with more than one user."""

import math

import jax
import jax.numpy as jnp

from twofold.typing import Array, Float, Key, UInt32

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


def log_mean_exp(log_values: Float[Array, "K *rest"]) -> Float[Array, "*rest"]:
    """``log(mean(exp(v)))`` over the first axis."""
    return power_log_mean_exp(log_values, 1.0)


def gaussian_log_density(
    value: Float[Array, "..."], mean: Float[Array, "..."], log_variance: Float[Array, "..."]
) -> Float[Array, "..."]:
    """Log of the univariate normal density, elementwise."""
    square = jnp.square(value - mean) * jnp.exp(-log_variance)
    return -0.5 * (square + log_variance + LOG_TWO_PI)


def mix(words: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """A bijection of 32-bit words in which every input bit moves every output bit.

    Wellons' ``lowbias32`` (2018): two multiplications between three shifts.
    """
    words = (words ^ (words >> 16)) * jnp.uint32(0x7FEB352D)
    words = (words ^ (words >> 15)) * jnp.uint32(0x846CA68B)
    return words ^ (words >> 16)


def fast_normal(key: Key, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Standard normal numbers in float32, from a cheaper generator than ``jax.random``'s.

    Each number's counter is mixed twice, with half of the key each time; training spends a good
    part of its time on noise, and needs no cryptography and no far tail (|z| stays below 5.5).
    """
    first, second = jax.random.key_data(key)
    counters = jax.lax.iota(jnp.uint32, math.prod(shape))
    words = mix(mix(counters ^ first) + second)
    uniform = (words >> 8).astype(jnp.float32) * 2.0**-23 + (2.0**-24 - 1.0)
    return (math.sqrt(2.0) * jax.lax.erf_inv(uniform)).reshape(shape)
