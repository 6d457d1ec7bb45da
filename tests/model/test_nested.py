"""The network at every pair of point and latent draw is the network at each of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.core import numerics
from twofold.model import network


@pytest.mark.parametrize(("inputs", "latents"), [(1, 1), (3, 2), (2, 0)])
@pytest.mark.parametrize("hidden", [(7, 5), (4,), ()])
@pytest.mark.parametrize("cpu", [True, False])
def test_nested_equals_one_latent_draw_after_another(inputs, latents, hidden, cpu, monkeypatch):
    monkeypatch.setattr(numerics, "on_cpu", lambda: cpu)
    sizes = (inputs + latents, *hidden, 2)
    keys = jax.random.split(jax.random.key(0), 3)
    weights = jax.random.normal(keys[0], (4, network.num_weights(sizes)))
    x = jax.random.normal(keys[1], (6, inputs))
    z = jax.random.normal(keys[2], (3, 4, latents))
    found = network.apply_nested(sizes, weights, x, z)
    assert found.shape == (4, 2, 3, 6)
    for place in range(3):
        every = jnp.broadcast_to(z[place][..., None], (4, latents, 6))
        expected = network.apply(sizes, weights, x, every)
        np.testing.assert_allclose(found[:, :, place], expected, rtol=1e-4, atol=1e-5)
