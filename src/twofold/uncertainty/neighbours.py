"""Exact nearest neighbours of each sample: by sorting in one dimension, by all pairs in more.

There are ``n`` samples of dimension ``d``; a sample is not its own neighbour, but its duplicates
are. Memory is bounded for one set of samples; ``vmap`` multiplies it by the number of sets.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from twofold.core import numerics
from twofold.core.arrays import Array, Float, Int, Scalar

CHUNK_VALUES = 2**24
GPU_WINDOWS = 32


def log_ball_volume(d: int) -> float:
    """Log of the volume of the unit ball."""
    return 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1.0)


def check_neighbours(k: int, n: int) -> None:
    if not 1 <= k < n:
        raise ValueError(
            f"k must be at least 1 and less than the number of samples, got k={k} for {n} samples; "
            "lower k or draw more samples (more latent draws)"
        )


def smallest_distance(samples: Float[Array, "n d"]) -> Scalar:
    """The widest range of the samples times the precision of their dtype: a floor for distances
    between duplicates. Positive even if all samples are equal.
    """
    precision = jnp.finfo(samples.dtype)
    extent = jnp.max(jnp.max(samples, axis=0) - jnp.min(samples, axis=0))
    return jnp.maximum(precision.eps * extent, precision.tiny / precision.eps)


def rows_in_chunks(row: Callable[[Any], Any], n: int) -> Any:
    """``row(i)`` for all samples, as many at once as fit in memory with ``n`` values each."""
    return jax.lax.map(row, jnp.arange(n), batch_size=min(n, max(1, CHUNK_VALUES // n)))


def squared_distances(samples: Float[Array, "n d"], i: Int[Array, ""]) -> Float[Array, "n"]:
    """Squared distances from the i-th sample to the others; infinite to itself."""
    squares = sum(jnp.square(column - column[i]) for column in samples.T)
    return jnp.where(jnp.arange(samples.shape[0]) == i, jnp.inf, squares)


def nearest(
    samples: Float[Array, "n d"], i: Int[Array, ""], k: int
) -> tuple[Float[Array, "k"], Int[Array, "k"]]:
    """Distances to the ``k`` nearest neighbours of one sample, and their indices, nearest first."""
    negated, places = jax.lax.top_k(-squared_distances(samples, i), k)
    return jnp.sqrt(-negated), places


def rank(values: Float[Array, "n"]) -> tuple[Float[Array, "n"], Int[Array, "n"]]:
    """The values in ascending order, and the rank of each. Integers sort several times as fast as
    floats: on a GPU, also in pairs; on a CPU, only alone."""
    keys = ordered_keys(values)
    if not numerics.on_cpu():
        places = jnp.arange(values.shape[0])
        ascending, order = jax.lax.sort((keys, places), num_keys=1, is_stable=False)
        ranks = jnp.zeros_like(order).at[order].set(places, unique_indices=True)
        return ordered_values(ascending, values.dtype), ranks
    ascending = jax.lax.sort(keys, is_stable=False)
    return ordered_values(ascending, values.dtype), jnp.searchsorted(ascending, keys)


def ordered_keys(values: Float[Array, "*n"]) -> Int[Array, "*n"]:
    """Integers with the same order: the bit patterns, with the order of negative ones reversed."""
    integer = jnp.int64 if values.dtype.itemsize == 8 else jnp.int32
    bits = jax.lax.bitcast_convert_type(values, integer)
    return jnp.where(bits < 0, bits ^ jnp.iinfo(integer).max, bits)


def ordered_values(keys: Int[Array, "*n"], dtype: Any) -> Float[Array, "*n"]:
    """Inverse of ``ordered_keys``, which is its own inverse up to the dtype."""
    bits = jnp.where(keys < 0, keys ^ jnp.iinfo(keys.dtype).max, keys)
    return jax.lax.bitcast_convert_type(bits, dtype)


def pad_ends(values: Float[Array, "n"], k: int) -> Float[Array, "n+2*{k}"]:
    """Sorted values, padded by ``k`` infinite ones at either end."""
    ends = jnp.full(k, jnp.inf, values.dtype)
    return jnp.concatenate([-ends, values, ends])


def ranked_distances(values: Float[Array, "n"], k: int) -> Float[Array, "n"]:
    """Distance from each of the sorted values to its k-th neighbour. The k nearest are consecutive:
    j on the left, k − j on the right, for the least larger distance."""
    n, around = values.shape[0], pad_ends(values, k)

    def narrow(j: Int[Array, ""], distance: Float[Array, "n"]) -> Float[Array, "n"]:
        left = jax.lax.dynamic_slice_in_dim(around, k - j, n)
        right = jax.lax.dynamic_slice_in_dim(around, 2 * k - j, n)
        return jnp.minimum(distance, jnp.maximum(values - left, right - values))

    return each_window(k + 1, narrow, jnp.full(n, jnp.inf, values.dtype))


def each_window(windows: int, add: Callable[..., Any], start: Any) -> Any:
    """Loop over windows; a GPU processes many in one kernel."""
    unroll = 1 if numerics.on_cpu() else GPU_WINDOWS
    return jax.lax.fori_loop(0, windows, add, start, unroll=unroll)


def kth_distances(samples: Float[Array, "n d"], k: int) -> Float[Array, "n"]:
    """Euclidean distance from each sample to its k-th neighbour, ``smallest_distance`` at least."""
    n, d = samples.shape
    check_neighbours(k, n)
    if d == 1:
        values, places = rank(samples[:, 0])
        distances = ranked_distances(values, k)[places]
    else:
        distances = rows_in_chunks(lambda i: nearest(samples, i, k)[0][-1], n)
    return jnp.maximum(distances, smallest_distance(samples))
