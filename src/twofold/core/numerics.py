"""Small numerical functions with more than one user."""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri

from twofold.core.arrays import Array, Float, Key

LOG_TWO_PI = math.log(2.0 * math.pi)


def on_cpu() -> bool:
    """Whether programs run on a CPU, where other ways of writing the same are fast."""
    return jax.default_backend() == "cpu"


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


@partial(jax.jit, static_argnames=("num", "shape", "shuffle"))
def stratified_normal(
    key: Key, num: int, shape: tuple[int, ...], shuffle: bool = True
) -> Float[Array, "num ..."]:
    """``num`` standard normal draws of a shape, spread evenly in each coordinate (Latin hypercube).

    Each coordinate has one draw in each of ``num`` slices of equal probability, in random order,
    or in ascending order without ``shuffle``. Each single draw follows the normal distribution
    exactly; averages over draws err less than those of independent ones, never notably more.
    """
    slice_key, order_key = jax.random.split(key)
    within = jax.random.uniform(slice_key, (num, *shape))
    slices = jnp.arange(num).reshape(num, *([1] * len(shape)))
    if shuffle:
        slices = jnp.argsort(jax.random.uniform(order_key, (num, *shape)), axis=0)
    # Clipped: a rank rounded to 0 or 1 would be an infinite draw.
    return ndtri(jnp.clip((slices + within) / num, 1e-7, 1.0 - 2e-7))
