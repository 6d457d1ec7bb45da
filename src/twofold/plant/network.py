"""A policy: a small ReLU network of standardised features whose actions cannot leave their bounds.

a = middle + half · tanh(network(features))
"""

from dataclasses import dataclass
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float, Key
from twofold.model import network
from twofold.model.network import RowLayer

FIRST_ACTIONS = 0.1
DTYPE = jnp.float32


@dataclass(frozen=True)
class PolicyNetwork:
    """Shapes, and the bounds of the actions."""

    features: int
    hidden: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self):
        if len(self.low) != len(self.high) or not np.all(np.less(self.low, self.high)):
            raise ValueError(f"actions need bounds with low < high, got {self.low} and {self.high}")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Layer sizes, from the features to the actions."""
        return (self.features, *self.hidden, len(self.low))


def init(key: Key, shape: PolicyNetwork) -> Float[Array, "P"]:
    """Weights of variance 2 over the number of inputs, biases 0; the last layer a tenth of that,
    so that actions begin near the middle, where tanh has a slope."""
    pairs = list(pairwise(shape.sizes))
    parts = []
    for index, (own, (fan_in, fan_out)) in enumerate(
        zip(jax.random.split(key, len(pairs)), pairs, strict=True)
    ):
        scale = jnp.sqrt(2.0 / fan_in) * (FIRST_ACTIONS if index == len(pairs) - 1 else 1.0)
        kernel = scale * jax.random.normal(own, (fan_out * fan_in,), DTYPE)
        parts += [kernel.astype(DTYPE), jnp.zeros(fan_out, DTYPE)]
    return jnp.concatenate(parts)


def layers_of(shape: PolicyNetwork, weights: Float[Array, "S P"]) -> tuple[RowLayer, ...]:
    """The layers of S policies, for standardised features."""
    return network.for_rows(network.unflatten(shape.sizes, weights))


def act(
    shape: PolicyNetwork, layers: tuple[RowLayer, ...], features: Float[Array, "*M S B F"]
) -> Float[Array, "*M S B A"]:
    """Actions of each of S policies at points of its own."""
    outputs = network.apply_rows(layers, features)
    low, high = (jnp.asarray(bound, features.dtype) for bound in (shape.low, shape.high))
    return 0.5 * (low + high) + 0.5 * (high - low) * jnp.tanh(outputs)
