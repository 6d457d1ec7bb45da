"""The model refuses impossible shapes, and knows how far its prior spreads."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.model import density
from twofold.model.spec import BNNLV, Posterior, SampledPosterior, prior_deviation

VALID = dict(inputs=2, outputs=2, hidden=(4,), latents=1, weight_variance=1.0, latent_variance=2.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("inputs", 0),
        ("outputs", 0),
        ("hidden", (4, 0)),
        ("latents", -1),
        ("weight_variance", 0.0),
        ("weight_variance", float("nan")),
        ("latent_variance", -1.0),
    ],
)
def test_impossible_settings_are_refused_with_the_value(name, value):
    with pytest.raises(ValueError) as error:
        BNNLV(**{**VALID, name: value})
    assert str(value) in str(error.value)


def test_prior_deviation_is_that_of_draws_from_the_prior(rng):
    model = BNNLV(3, 1, (30, 30), 1, 0.8, 2.0)
    draws = 4000
    weights = np.sqrt(0.8) * rng.normal(size=(draws, model.num_weights))
    x = np.array([[1.0, -1.0, 1.0]])
    z = np.sqrt(2.0) * rng.normal(size=(draws, 1, 1))
    values = density.mean(model, *map(jnp.asarray, (weights, x, z)))[:, 0, 0]
    # Heavier tails than normal: the deviation of 4,000 values errs by about 2 %.
    np.testing.assert_allclose(np.std(values), prior_deviation(model), rtol=0.08)


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
