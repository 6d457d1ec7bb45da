"""How long a run is, and how rows are shuffled and dealt into minibatches."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from twofold.core.arrays import Array, Float, Int, Key
from twofold.core.data import Padded
from twofold.inference.base import Info


class Schedule(NamedTuple):
    """Settings shared by all members: length, rate, and 1 for cosine decay or 0 for none."""

    epochs: Int[Array, ""]
    batches: Int[Array, ""]
    learning_rate: Float[Array, ""]
    decay: Float[Array, ""]


def learning_rate(schedule: Schedule, progress: Float[Array, ""]) -> Float[Array, ""]:
    """The rate at a point of the run (0 start, 1 end): constant, or falling to 0 as a cosine."""
    cosine = 0.5 * (1.0 + jnp.cos(jnp.pi * progress))
    return schedule.learning_rate * (1.0 - schedule.decay + schedule.decay * cosine)


class Batch(NamedTuple):
    """A minibatch of at most B data, ``size`` of them real; empty slots have importance 0."""

    x: Float[Array, "B D"]
    y: Float[Array, "B O"]
    importance: Float[Array, "B"]
    size: Int[Array, ""]
    num_data: Float[Array, ""]


def shuffle(key: Key, data: Padded) -> Int[Array, "N"]:
    """A random order of the data with the padding last; it does not depend on the padding."""
    positions = jnp.arange(data.x.shape[0])
    ranks = jax.random.uniform(key, positions.shape)
    return jnp.argsort(jnp.where(positions < data.size, ranks, 2.0))


def batch_bounds(
    size: Int[Array, ""], batches: Int[Array, ""], index: Int[Array, ""]
) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """Start and length of batch ``index`` when rows are dealt out as evenly as possible."""
    length, longer = size // batches, size % batches
    return index * length + jnp.minimum(index, longer), length + (index < longer)


def deal(
    key: Key, data: Padded, importance: Float[Array, "N"], slots: int
) -> tuple[Int[Array, ""], Callable[[Int[Array, ""]], Batch]]:
    """The number of batches of an epoch, and a function that gives each by its index."""
    order = shuffle(key, data)
    x, y = (jnp.pad(leaf[order], ((0, slots), (0, 0))) for leaf in (data.x, data.y))
    importance = jnp.pad(importance[order], (0, slots))
    batches = -(-data.size // slots)

    def batch(index: Int[Array, ""]) -> Batch:
        start, length = batch_bounds(data.size, batches, index)
        filled = jnp.arange(slots) < length
        cut = partial(jax.lax.dynamic_slice_in_dim, start_index=start, slice_size=slots)
        batch_x, batch_y = (jnp.where(filled[:, None], cut(leaf), 0.0) for leaf in (x, y))
        weights = jnp.where(filled, cut(importance), 0.0)
        return Batch(batch_x, batch_y, weights, length, data.num_data.astype(x.dtype))

    return batches, batch


def each_batch(
    update: Callable[..., tuple[Any, Array, Array]],
    state: Any,
    batches: Int[Array, ""],
    most: Int[Array, ""],
    dtype: Any,
) -> tuple[Any, Info]:
    """``update(state, index, nonempty)`` for each batch; it returns state, energy, finiteness.

    ``most`` is the longest epoch of all members; the batches a member does not have are empty.
    """

    def on_batch(index: Any, carry: Any) -> Any:
        state, total, skipped = carry
        nonempty = index < batches
        state, energy, finite = update(state, index, nonempty)
        total += jnp.where(nonempty & finite, energy, 0.0)
        return state, total, skipped + (nonempty & ~finite).astype(skipped.dtype)

    carry = (state, jnp.zeros((), dtype), jnp.zeros((), int))
    state, total, skipped = jax.lax.fori_loop(0, most, on_batch, carry)
    return state, Info(total / jnp.maximum(batches - skipped, 1), skipped)
