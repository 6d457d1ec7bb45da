"""First layers for what roll-outs carry, against the layers they stand for."""

import jax.numpy as jnp
import numpy as np

from twofold.model.network import Layer
from twofold.plant.rollout import Units, for_carried


def test_a_layer_for_what_is_carried_gives_what_the_layer_itself_gives(rng, x64):
    """Places out of order and one value that the layer does not see, which may be anything."""
    values = jnp.asarray(rng.normal(size=(7, 4)))
    places = np.array([3, 0, 2], np.int32)
    own = Units(jnp.asarray(rng.normal(size=3)), jnp.asarray(rng.uniform(0.5, 2.0, 3)))
    carried = Units(jnp.asarray(rng.normal(size=4)), jnp.asarray(rng.uniform(0.5, 2.0, 4)))
    layer = Layer(jnp.asarray(rng.normal(size=(2, 5, 3))), jnp.asarray(rng.normal(size=(2, 5))))
    found = for_carried(layer, places, own, carried)
    expected = np.einsum("koi,bi->kbo", layer.kernel, own.of(values[:, places]))
    outputs = np.einsum("koi,bi->kbo", found.kernel, carried.of(values))
    np.testing.assert_allclose(
        outputs + found.bias[:, None], expected + layer.bias[:, None], rtol=1e-12
    )
    np.testing.assert_array_equal(found.kernel[..., 1], 0.0)


def test_units_there_and_back(rng, x64):
    units = Units(jnp.asarray(rng.normal(size=3)), jnp.asarray(rng.uniform(0.5, 2.0, 3)))
    values = jnp.asarray(rng.normal(size=(4, 3)))
    np.testing.assert_allclose(units.back(units.of(values)), values, rtol=1e-12)
    np.testing.assert_array_equal(
        units.at(np.array([2])).of(values[:, 2:]), units.of(values)[:, 2:]
    )
