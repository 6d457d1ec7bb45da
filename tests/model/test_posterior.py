"""A posterior of stored draws."""

import jax
import jax.numpy as jnp
import numpy as np

from twofold.model.posterior import Posterior, SampledPosterior


def make(draws):
    weights = jnp.arange(draws * 3.0).reshape(draws, 3)
    return SampledPosterior(weights, -jnp.arange(float(draws))[:, None])


def test_it_is_a_posterior():
    assert isinstance(make(4), Posterior)


def test_draws_are_stored_ones_none_of_them_twice():
    draws = make(20).sample(jax.random.key(0), 15)
    rows = np.asarray(draws.weights[:, 0] / 3).astype(int)
    assert len(set(rows)) == 15
    np.testing.assert_array_equal(draws.log_noise[:, 0], -rows)


def test_more_draws_than_stored_use_each_equally_often():
    draws = make(4).sample(jax.random.key(0), 12)
    rows = np.asarray(draws.weights[:, 0] / 3).astype(int)
    np.testing.assert_array_equal(np.bincount(rows), [3, 3, 3, 3])


def test_another_key_gives_another_choice():
    first, second = (make(100).sample(jax.random.key(i), 10).weights for i in (0, 1))
    assert not np.array_equal(first, second)
