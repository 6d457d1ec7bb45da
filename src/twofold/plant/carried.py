"""First layers for what roll-outs carry, so that nothing is standardised or reordered on the way.

A layer sees ``(v − own mean) / own scale`` of each of its inputs v; carried is
``(v − mean) / scale`` with one mean and one scale for all values of a column:

    kernel · (v − own mean) / own scale + bias
        = kernel · scale / own scale · carried + [kernel · (mean − own mean) / own scale + bias]

Little is lost to rounding if the lags of a column differ little in mean and scale, as they do in
logs that are long beside them.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float
from twofold.model.network import Layer


class Units(NamedTuple):
    """Means and scales."""

    mean: Float[Array, "F"]
    scale: Float[Array, "F"]

    def at(self, places: np.ndarray) -> "Units":
        """Those of some values."""
        return Units(self.mean[places], self.scale[places])

    def of(self, values: Float[Array, "*batch F"]) -> Float[Array, "*batch F"]:
        """Values in these units."""
        return (values - self.mean) / self.scale

    def back(self, values: Float[Array, "*batch F"]) -> Float[Array, "*batch F"]:
        """From these units."""
        return values * self.scale + self.mean


def for_carried(layer: Layer, places: np.ndarray, own: Units, carried: Units) -> Layer:
    """The layer whose inputs are the carried values at some places, for all that is carried; those
    that it does not see have no weight."""
    seen = carried.at(places)
    kernel = layer.kernel * (seen.scale / own.scale)
    bias = layer.bias + layer.kernel @ ((seen.mean - own.mean) / own.scale)
    inverse = np.full(carried.mean.shape[0], len(places))
    inverse[places] = np.arange(len(places))
    unseen = jnp.zeros((*kernel.shape[:-1], 1), kernel.dtype)
    return Layer(jnp.concatenate([kernel, unseen], axis=-1)[..., inverse], bias)
