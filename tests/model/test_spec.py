"""The model refuses impossible shapes; its skip connection, and the levels of its latent input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtri

from twofold.model import density, network
from twofold.model.spec import BNNLV, Posterior, SampledPosterior, latent_values, layers
from twofold.uncertainty import predictive

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


def test_a_skip_connection_adds_a_linear_function_with_the_inputs_scales(x64, rng):
    model = BNNLV(3, 2, (4,), 0, 1.0, 1.0, varying_noise=True, scaled_prior=True, linear_skip=True)
    weights = jnp.asarray(rng.normal(size=(5, model.num_weights)))
    x = jnp.asarray(rng.normal(size=(7, 3)))
    z = jnp.zeros((5, 0, 7))
    without = weights.at[:, -6:].set(0.0)
    outputs = [network.apply(layers(model, w), x, z) for w in (weights, without)]
    scales = np.exp(0.5 * np.asarray(weights[:, -9:-6]))
    kernel = np.asarray(weights[:, -6:]).reshape(5, 2, 3) * scales[:, None] / np.sqrt(3.0)
    added = np.einsum("koi,bi->kob", kernel, x)
    np.testing.assert_allclose((outputs[0] - outputs[1])[:, :2], added, atol=1e-12)
    np.testing.assert_allclose(outputs[0][:, 2:], outputs[1][:, 2:])
    nested = network.apply_nested(layers(model, weights), x, jnp.zeros((2, 5, 0)))
    np.testing.assert_allclose(nested[:, :, 1], outputs[0], atol=1e-12)


def test_levels_of_the_latent_input_are_equally_probable_medians(x64, rng):
    model = BNNLV(1, 1, (4,), 1, 1.0, 4.0, latent_levels=5)
    values = 2.0 * ndtri((np.arange(5) + 0.5) / 5)
    nodes = density.latent_nodes(model, 99)
    np.testing.assert_allclose(nodes.points[:, 0], values)
    np.testing.assert_allclose(np.exp(nodes.log_weights), 0.2)
    drawn = np.asarray(latent_values(model, jnp.asarray(rng.normal(size=20_000))))
    assert set(np.round(drawn, 6)) == set(np.round(values, 6))
    # A share of 0.2 of 20,000 draws has a standard error of 0.003.
    assert np.abs([np.mean(np.isclose(drawn, v)) - 0.2 for v in values]).max() < 0.012
    once = predictive.latent_draws(jax.random.key(0), model, 100, 3)
    np.testing.assert_allclose(np.sort(once[:, 1, 0]), values, atol=1e-9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"latents": 2}, "latent_levels=3 needs latents=1, got latents=2")],
)
def test_levels_need_one_latent_input(changes, message):
    with pytest.raises(ValueError, match=message):
        BNNLV(**{**VALID, "latent_levels": 3, **changes})
    with pytest.raises(ValueError, match="linear_skip needs scaled_prior"):
        BNNLV(**VALID, linear_skip=True)


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
