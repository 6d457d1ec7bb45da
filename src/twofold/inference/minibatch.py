"""How the rows of a padded data set are shuffled and dealt into minibatches."""

import jax
import jax.numpy as jnp

from twofold.data import Padded
from twofold.typing import Array, Int, Key


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
