"""Noise that varies and the scaled prior, against plain NumPy."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from twofold.model import density, network
from twofold.model.spec import BNNLV, layers

MODEL = BNNLV(
    inputs=2, outputs=2, hidden=(5, 4), latents=1, weight_variance=1.0, latent_variance=2.0,
    varying_noise=True, scaled_prior=True, activation="tanh",
)  # fmt: skip


def plain_layers(model, weights):
    """Kernels and biases of one draw, entry by entry from the text of ``model.spec``."""
    sizes, start, found = model.sizes, 0, []
    scales = np.exp(0.5 * weights[network.num_weights(sizes) :])
    for index, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        kernel = weights[start : start + fan_in * fan_out].reshape(fan_out, fan_in).copy()
        start += fan_in * fan_out
        bias = weights[start : start + fan_out].copy()
        start += fan_out
        for row in range(fan_out):
            head = 0.3 if index == len(sizes) - 2 and row >= model.outputs else 1.0
            for column in range(fan_in):
                scale = np.sqrt(2.0) * scales[index] * head
                if index:
                    scale /= np.sqrt(fan_in)
                elif column < model.inputs:
                    scale *= scales[len(sizes) - 1 + column] / np.sqrt(model.inputs)
                else:
                    scale /= np.sqrt(model.latent_variance)
                kernel[row, column] *= scale
            bias[row] *= head * (np.sqrt(2.0) if index == 0 else 1.0)
        found.append((kernel, bias))
    return found


def plain_outputs(model, weights, x, z):
    values = np.concatenate([x, z])
    for index, (kernel, bias) in enumerate(plain_layers(model, weights)):
        values = kernel @ (np.tanh(values) if index else values) + bias
    return values


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(3, MODEL.num_weights))
    log_noise = np.concatenate([rng.normal(-1.0, 0.3, (3, 2)), rng.normal(-2.0, 1.0, (3, 1))], 1)
    return weights, log_noise, rng.normal(size=(6, 2)), rng.normal(size=(6, 2))


def plain_log_density(model, weights, log_noise, x, y, z):
    outputs = plain_outputs(model, weights, x, z)
    mean, change = outputs[: model.outputs], outputs[model.outputs :]
    deviation = np.exp(0.5 * log_noise[: model.outputs] + change)
    if model.noise_floor:
        deviation = np.sqrt(deviation**2 + np.square(model.noise_floor))
    share = 1.0 / (1.0 + np.exp(-log_noise[-1]))
    narrow, wide = (norm.pdf(y, mean, width * deviation).prod() for width in (1.0, 10.0))
    return np.log((1.0 - share) * narrow + share * wide)


def test_layers_are_scaled_entry_by_entry(x64, case):
    weights = case[0]
    found = layers(MODEL, jnp.asarray(weights))
    for draw, own in enumerate(weights):
        for layer, (kernel, bias) in zip(found, plain_layers(MODEL, own), strict=True):
            np.testing.assert_allclose(layer.kernel[draw], kernel, rtol=1e-12)
            np.testing.assert_allclose(layer.bias[draw], bias, rtol=1e-12)


@pytest.mark.parametrize("floor", [(), (0.5, 0.1)])
def test_the_likelihood_is_that_of_two_gaussians(x64, case, floor):
    model = MODEL.__class__(**{**MODEL.__dict__, "noise_floor": floor})
    weights, log_noise, x, y = case
    z = np.random.default_rng(1).normal(size=(3, 1, 6))
    arrays = map(jnp.asarray, (weights, log_noise, x, y, z))
    found = jax.jit(density.log_likelihood, static_argnums=0)(model, *arrays)
    for k in range(3):
        for n in range(6):
            expected = plain_log_density(model, weights[k], log_noise[k], x[n], y[n], z[k, :, n])
            assert found[k, n] == pytest.approx(expected, rel=1e-10)


def test_the_marginal_likelihood_is_the_weighted_mean_over_nodes(x64, case):
    weights, log_noise, x, y = case
    nodes = density.latent_nodes(MODEL, 5)
    arrays = map(jnp.asarray, (weights, log_noise, x, y))
    found = jax.jit(density.log_marginal, static_argnums=0)(MODEL, *arrays, nodes)
    for k, n in ((0, 0), (1, 3), (2, 5)):
        terms = [
            np.exp(float(w) + plain_log_density(MODEL, weights[k], log_noise[k], x[n], y[n], z))
            for z, w in zip(np.asarray(nodes.points), nodes.log_weights, strict=True)
        ]
        assert found[k, n] == pytest.approx(np.log(np.sum(terms)), rel=1e-10)


def test_the_prior_of_the_share_is_normal(x64, case):
    weights, log_noise, *_ = case
    found = density.log_prior(MODEL, jnp.asarray(weights[0]), jnp.asarray(log_noise[0]))
    expected = norm.logpdf(weights[0]).sum() + norm.logpdf(log_noise[0, :2], -3.0, 2.0).sum()
    expected += norm.logpdf(log_noise[0, 2], -4.6, 1.0)
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_floor_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="noise_floor needs 2 entries"):
        MODEL.__class__(**{**MODEL.__dict__, "noise_floor": (0.1,)})


def test_a_log_variance_out_of_all_proportion_is_cut(x64):
    outputs = jnp.asarray([[0.0, 0.0, 100.0, -100.0]])
    given = density.conditional(MODEL, outputs, jnp.asarray([[0.0, 0.0, -4.0]]))
    np.testing.assert_array_equal(given.log_variance, [[8.0, -16.0]])
    np.testing.assert_allclose(
        given.variance, np.exp([[8.0, -16.0]]) * (1.0 + 99.0 / (1.0 + np.exp(4.0))), rtol=1e-12
    )
