"""The model's likelihood, and its refusal of impossible shapes."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from twofold.model import bnn
from twofold.model.bnn import BNNLV

VALID = dict(inputs=2, outputs=2, hidden=(4,), latents=1, weight_variance=1.0, latent_variance=2.0)


@pytest.mark.parametrize("latents", [0, 1, 2])
@pytest.mark.parametrize("outputs", [1, 3])
def test_log_likelihood_is_the_sum_of_normal_log_densities(x64, normal, latents, outputs):
    model = BNNLV(2, outputs, (4,), latents, 1.0, 2.0)
    draws, points = 3, 5
    weights = normal(draws, model.num_weights)
    log_noise = normal(draws, outputs)
    x, y = normal(points, 2), normal(points, outputs)
    z = normal(draws, latents, points)
    means = np.asarray(bnn.mean(model, weights, x, z))
    expected = np.zeros((draws, points))
    for k in range(draws):
        for b in range(points):
            for o in range(outputs):
                deviation = np.sqrt(np.exp(log_noise[k, o]))
                expected[k, b] += norm.logpdf(y[b, o], means[k, o, b], deviation)
    result = bnn.log_likelihood(model, weights, log_noise, x, z, y)
    np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_the_latent_inputs_are_extra_columns_after_the_inputs(x64, normal):
    with_latent, without = BNNLV(2, 1, (4,), 1, 1.0, 1.0), BNNLV(3, 1, (4,), 0, 1.0, 1.0)
    assert with_latent.sizes == without.sizes == (3, 4, 1)
    weights = normal(1, with_latent.num_weights)
    x, z = normal(5, 2), normal(1, 1, 5)
    joined = jnp.concatenate([x, z[0].T], axis=1)
    np.testing.assert_allclose(
        bnn.mean(with_latent, weights, x, z),
        bnn.mean(without, weights, joined, jnp.zeros((1, 0, 5))),
        rtol=1e-12,
    )


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
    values = bnn.mean(model, *map(jnp.asarray, (weights, x, z)))[:, 0, 0]
    # Heavier tails than normal: the deviation of 4,000 values errs by about 2 %.
    np.testing.assert_allclose(np.std(values), bnn.prior_deviation(model), rtol=0.08)
