"""The model's densities, against loops over SciPy's and against closed forms."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from twofold.model import density
from twofold.model.density import (
    WIDENING,
    Nodes,
    default_nodes,
    integration_error,
    latent_nodes,
    nodes_for,
)
from twofold.model.spec import BNNLV

# Each in one program; otherwise every operation would be compiled for every shape.
of_model = partial(jax.jit, static_argnums=0)
log_likelihood, log_marginal, mean = map(
    of_model, (density.log_likelihood, density.log_marginal, density.mean)
)
log_prior = of_model(density.log_prior, static_argnames="log_noise_prior")
log_joint = of_model(density.log_joint)


@pytest.mark.parametrize("latents", [0, 1, 2])
@pytest.mark.parametrize("outputs", [1, 3])
def test_log_likelihood_is_the_sum_of_normal_log_densities(x64, normal, latents, outputs):
    model = BNNLV(2, outputs, (4,), latents, 1.0, 2.0)
    draws, points = 3, 5
    weights = normal(draws, model.num_weights)
    log_noise = normal(draws, outputs)
    x, y = normal(points, 2), normal(points, outputs)
    z = normal(draws, latents, points)
    centres = np.asarray(mean(model, weights, x, z))
    deviations, values = np.exp(0.5 * np.asarray(log_noise)), np.asarray(y)
    expected = np.zeros((draws, points))
    for k in range(draws):
        for b in range(points):
            for o in range(outputs):
                expected[k, b] += norm.logpdf(values[b, o], centres[k, o, b], deviations[k, o])
    result = log_likelihood(model, weights, log_noise, x, y, z)
    np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_the_latent_inputs_are_extra_columns_after_the_inputs(x64, normal):
    with_latent, without = BNNLV(2, 1, (4,), 1, 1.0, 1.0), BNNLV(3, 1, (4,), 0, 1.0, 1.0)
    assert with_latent.sizes == without.sizes == (3, 4, 1)
    weights = normal(1, with_latent.num_weights)
    x, z = normal(5, 2), normal(1, 1, 5)
    joined = jnp.concatenate([x, z[0].T], axis=1)
    np.testing.assert_allclose(
        mean(with_latent, weights, x, z),
        mean(without, weights, joined, jnp.zeros((1, 0, 5))),
        rtol=1e-12,
    )


def test_log_prior_is_that_of_weights_noise_and_latents(x64, rng):
    model = BNNLV(2, 2, (4,), 1, 0.7, 2.0)
    weights, log_noise, z = (rng.normal(size=n) for n in (model.num_weights, 2, (5, 1)))
    of_weights = norm.logpdf(weights, scale=0.7**0.5).sum()
    of_noise = norm.logpdf(log_noise, -1.0, 1.5).sum()
    of_latents = norm.logpdf(z, scale=2.0**0.5).sum()
    arrays = jnp.asarray(weights), jnp.asarray(log_noise)
    found = log_prior(model, *arrays, log_noise_prior=(-1.0, 1.5))
    np.testing.assert_allclose(found, of_weights + of_noise)
    found = log_prior(model, *arrays, jnp.asarray(z), log_noise_prior=(-1.0, 1.5))
    np.testing.assert_allclose(found, of_weights + of_noise + of_latents)
    found = log_prior(model, *arrays, log_noise_prior=(-1.0, 0.0))
    np.testing.assert_allclose(found, of_weights)


@pytest.mark.parametrize("sampled", [True, False])
def test_log_joint_is_prior_and_likelihood_of_the_rows_that_count(x64, normal, sampled):
    model = BNNLV(2, 2, (4,), 1, 0.7, 2.0)
    weights, log_noise = normal(model.num_weights), normal(2)
    x, y, z = normal(5, 2), normal(5, 2), normal(5, 1) if sampled else None
    draws = weights[None], log_noise[None], x, y
    if sampled:
        terms = log_likelihood(model, *draws, z.T[None])[0]
    else:
        terms = log_marginal(model, *draws, latent_nodes(model, default_nodes(model)))[0]
    prior = log_prior(model, weights, log_noise, z)
    found = log_joint(model, weights, log_noise, x, y, z)
    np.testing.assert_allclose(found, terms.sum() + prior)
    found = log_joint(model, weights, log_noise, x, y, z, mask=jnp.arange(5) < 3, power=0.4)
    np.testing.assert_allclose(found, 0.4 * terms[:3].sum() + prior)


def test_a_row_of_weight_two_is_the_row_twice_and_one_of_weight_zero_none(x64, normal):
    model = BNNLV(2, 2, (4,), 1, 0.7, 2.0, varying_noise=True)
    weights, log_noise, x, y = normal(model.num_weights), normal(3), normal(5, 2), normal(5, 2)
    times = np.array([1, 2, 0, 3, 1])
    found = log_joint(model, weights, log_noise, x, y, mask=jnp.asarray(times, float))
    repeated = (leaf[np.repeat(np.arange(5), times)] for leaf in (x, y))
    np.testing.assert_allclose(found, log_joint(model, weights, log_noise, *repeated))
    slope = jax.grad(lambda at: density.log_joint(model, at, log_noise, x, y, mask=jnp.zeros(5)))
    np.testing.assert_allclose(slope(weights), -weights / 0.7)


def test_nodes_are_medians_of_a_wider_normal_weighted_back(x64):
    nodes = latent_nodes(BNNLV(3, 1, (5,), 1, 1.0, 4.0), 20)
    z = nodes.points[:, 0]
    np.testing.assert_allclose(norm.cdf(z, scale=2.0 * WIDENING), (np.arange(20) + 0.5) / 20)
    weights = norm.pdf(z, scale=2.0) / norm.pdf(z, scale=2.0 * WIDENING)
    np.testing.assert_allclose(np.exp(nodes.log_weights), weights / weights.sum())


@pytest.mark.parametrize(("latents", "num"), [(1, 24), (2, 144)])
def test_nodes_have_the_moments_of_the_prior(x64, latents, num):
    nodes = latent_nodes(BNNLV(3, 1, (5,), latents, 1.0, 4.0), num)
    weights = np.exp(nodes.log_weights)
    assert nodes.points.shape == (num, latents)
    np.testing.assert_allclose(weights.sum(), 1.0)
    np.testing.assert_allclose(weights @ nodes.points, 0.0, atol=0.02)
    covariance = (weights[:, None] * nodes.points).T @ nodes.points
    np.testing.assert_allclose(covariance, 4.0 * np.eye(latents), atol=0.1)


def test_without_latent_input_there_is_one_empty_node():
    nodes = latent_nodes(BNNLV(3, 1, (5,), 0, 1.0, 1.0), 20)
    assert nodes.points.shape == (1, 0)
    np.testing.assert_array_equal(nodes.log_weights, [0.0])


def test_more_than_two_latent_inputs_are_refused():
    model = BNNLV(3, 1, (5,), 3, 1.0, 1.0)
    assert default_nodes(model) == 0
    with pytest.raises(ValueError, match="at most 2 latent inputs, got 3"):
        latent_nodes(model, 20)


@pytest.mark.parametrize("latents", [0, 1, 2])
def test_log_marginal_equals_a_loop(x64, normal, latents):
    model = BNNLV(2, 2, (4, 3), latents, 1.0, 2.0)
    weights, log_noise = normal(3, model.num_weights), normal(3, 2)
    x, y, nodes = normal(5, 2), normal(5, 2), latent_nodes(model, 6)
    found = log_marginal(model, weights, log_noise, x, y, nodes)
    weights, log_noise, x, y, nodes = jax.tree.map(np.asarray, (weights, log_noise, x, y, nodes))
    deviation = np.exp(0.5 * log_noise)
    for k in range(3):
        for b in range(5):
            terms = []
            for z, log_weight in zip(*nodes, strict=True):
                centre = mean(model, weights[k : k + 1], x[b : b + 1], z[None, :, None])[0, :, 0]
                terms.append(norm.logpdf(y[b], centre, deviation[k]).sum() + log_weight)
            np.testing.assert_allclose(found[k, b], logsumexp(terms))


def test_a_known_error_adds_its_variance_to_the_noise(x64, normal):
    model = BNNLV(2, 2, (3,), 1, 1.0, 2.0)
    weights, log_noise = normal(4, model.num_weights), normal(4, 2)
    x, y, z, error = normal(5, 2), normal(5, 2), normal(4, 1, 5), np.exp(normal(5, 2))
    means = np.asarray(mean(model, weights, x, z))
    total = np.sqrt(np.exp(log_noise)[:, :, None] + error.T)
    expected = norm.logpdf(np.asarray(y).T, means, total).sum(axis=1)
    found = log_likelihood(model, weights, log_noise, x, y, z, error)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    nodes = Nodes(jnp.zeros((1, 1)), jnp.zeros(1))
    at_zero = log_likelihood(model, weights, log_noise, x, y, 0 * z, error)
    found = log_marginal(model, weights, log_noise, x, y, nodes, error)
    np.testing.assert_allclose(found, at_zero, rtol=1e-9)


def test_log_marginal_of_a_linear_model_is_gaussian(x64):
    model = BNNLV(1, 1, (), 1, 1.0, 2.0)
    slope, latent_slope, bias, variance = 0.7, 0.9, -0.2, 0.3
    weights = jnp.asarray([[slope, latent_slope, bias]])
    log_noise = jnp.log(jnp.full((1, 1), variance))
    x, y = jnp.linspace(-1, 1, 5)[:, None], jnp.linspace(-2, 1, 5)[:, None]
    exact = norm.logpdf(y, slope * x + bias, np.sqrt(latent_slope**2 * 2.0 + variance))[:, 0]
    errors = [
        np.abs(log_marginal(model, weights, log_noise, x, y, latent_nodes(model, q))[0] - exact)
        for q in (6, 12, 24)
    ]
    # The weighted rule gains more than a power of the number of nodes on a smooth f.
    assert errors[0].max() > 3 * errors[1].max() > 9 * errors[2].max()
    assert errors[2].max() < 0.005


def through_latents(noise, latents):
    """A linear model of y ~ N(0, 1), all but its noise through z, and its data."""
    model = BNNLV(1, 1, (), latents, 1.0, 1.0)
    slope = np.sqrt((1.0 - noise**2) / latents)
    weights = jnp.asarray([[0.0, *[slope] * latents, 0.0]])
    log_noise = jnp.full((1, 1), 2.0 * np.log(noise))
    y = norm.ppf((np.arange(400) + 0.5) / 400)[:, None]
    return model, weights, log_noise, jnp.zeros((400, 1)), jnp.asarray(y)


@pytest.mark.parametrize("latents", [1, 2])
@pytest.mark.parametrize("noise", [0.5, 0.25, 0.1, 0.05])
def test_the_number_of_nodes_keeps_the_error_below_a_hundredth(x64, noise, latents):
    model, weights, log_noise, x, y = through_latents(noise, latents)
    num = nodes_for(noise, latents)
    found = log_marginal(model, weights, log_noise, x, y, latent_nodes(model, num))
    error = np.abs(found[0] - norm.logpdf(y[:, 0])).mean()
    assert error < 0.01
    estimate = integration_error(model, weights, log_noise, x, y, num)
    np.testing.assert_allclose(estimate, error, rtol=0.1, atol=1e-4)


def test_too_few_nodes_are_found_out(x64):
    model, weights, log_noise, x, y = through_latents(0.05, 1)
    assert integration_error(model, weights, log_noise, x, y, 24) > 0.3


def test_default_nodes_are_those_of_the_expected_noise():
    found = [default_nodes(BNNLV(3, 1, (5,), latents, 1.0, 1.0)) for latents in (0, 1, 2)]
    assert found == [1, 24, 144]


def test_a_fine_lattice_is_finite_in_single_precision():
    nodes = latent_nodes(BNNLV(1, 1, (), 2, 1.0, 1.0), 8000)
    assert nodes.points.dtype == np.float32
    assert np.isfinite(nodes.points).all() and np.isfinite(nodes.log_weights).all()


def test_medians_of_the_prior_itself_err_many_times_as_much(x64):
    model, weights, log_noise, x, y = through_latents(0.25, 1)
    exact = norm.logpdf(y[:, 0])
    medians = norm.ppf((np.arange(24) + 0.5) / 24)[:, None]
    plain = Nodes(jnp.asarray(medians), jnp.full(24, -np.log(24.0)))
    errors = [
        np.abs(log_marginal(model, weights, log_noise, x, y, nodes)[0] - exact).mean()
        for nodes in (plain, latent_nodes(model, 24))
    ]
    assert errors[0] > 5 * errors[1]
