"""A block of a larger table weighs its prior as one part of all rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.core.data import Place, pad
from twofold.inference import alpha
from twofold.inference.minibatch import Schedule, deal
from twofold.model.spec import BNNLV

ROWS, TOTAL = 20, 500


@pytest.fixture
def block(rng):
    x, y = rng.normal(size=(ROWS, 2)), rng.normal(size=(ROWS, 1))
    place = Place(jnp.arange(64, dtype=jnp.int32), jnp.asarray(TOTAL, jnp.int32))
    return jax.device_put(pad(x, y, 64, "float32"))._replace(place=place)


def test_batches_of_a_block_know_all_rows(block):
    batches, batch = deal(jax.random.key(0), block, jnp.ones(64), 8)
    assert int(batches) == 3
    assert [float(batch(jnp.int32(i)).num_data) for i in range(3)] == [TOTAL] * 3
    _, lone = deal(jax.random.key(0), block._replace(place=None), jnp.ones(64), 8)
    assert float(lone(jnp.int32(0)).num_data) == ROWS


def test_the_energy_of_a_block_is_that_of_its_rows_among_all(block):
    config = alpha.Alpha(draws=6, nodes=5).config(BNNLV(2, 1, (4,), 1, 1.0, 2.0), ROWS)
    problem = alpha.Problem(block, jnp.float32(1.0))
    key = jax.random.key(3)
    state = alpha.init(config, key, problem)
    schedule = Schedule(jnp.int32(1), jnp.int32(1), jnp.float32(0.0), jnp.float32(0.0))
    _, info = alpha.step(config, key, state, problem, schedule, jnp.int32(0))
    noise = alpha.draw_noise(config, jax.random.fold_in(jax.random.split(key)[1], 0), jnp.float32)
    batch = alpha.Batch(block.x[:ROWS], block.y[:ROWS], jnp.ones(ROWS), jnp.float32(TOTAL))
    expected = alpha.batch_energy(config, state.shared, state.latents, batch, 1.0, noise) / TOTAL
    np.testing.assert_allclose(float(info.energy), float(expected), rtol=1e-5)
    alone = alpha.batch_energy(
        config, state.shared, state.latents, batch._replace(num_data=jnp.float32(ROWS)), 1.0, noise
    )
    assert abs(float(info.energy) - float(alone) / ROWS) > 0.1
