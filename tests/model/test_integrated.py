"""The likelihood without the latent input, against a loop and against a closed form."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from twofold.model import bnn
from twofold.model.bnn import BNNLV
from twofold.model.integrated import latent_nodes, log_marginal


def test_latent_nodes_are_the_medians_of_slices(x64):
    nodes = latent_nodes(BNNLV(3, 1, (5,), 1, 1.0, 4.0), 20)
    np.testing.assert_allclose(norm.cdf(nodes[:, 0], scale=2.0), (np.arange(20) + 0.5) / 20)


def test_without_latent_input_there_is_one_empty_node():
    assert latent_nodes(BNNLV(3, 1, (5,), 0, 1.0, 1.0), 20).shape == (1, 0)


def test_more_than_one_latent_input_is_refused():
    with pytest.raises(ValueError, match="at most one latent input, got 2"):
        latent_nodes(BNNLV(3, 1, (5,), 2, 1.0, 1.0), 20)


@pytest.mark.parametrize("latents", [0, 1])
def test_log_marginal_equals_a_loop(x64, normal, latents):
    model = BNNLV(2, 2, (4, 3), latents, 1.0, 2.0)
    weights, log_noise = normal(3, model.num_weights), normal(3, 2)
    x, y, nodes = normal(5, 2), normal(5, 2), latent_nodes(model, 6)
    found = log_marginal(model, weights, log_noise, x, y, nodes)
    deviation = np.exp(0.5 * np.asarray(log_noise))
    for k in range(3):
        for b in range(5):
            terms = []
            for z in nodes:
                mean = bnn.mean(model, weights[k : k + 1], x[b : b + 1], z[None, :, None])
                terms.append(norm.logpdf(y[b], mean[0, :, 0], deviation[k]).sum())
            np.testing.assert_allclose(found[k, b], logsumexp(terms) - np.log(len(nodes)))


def test_log_marginal_of_a_linear_model_is_gaussian(x64):
    model = BNNLV(1, 1, (), 1, 1.0, 2.0)
    slope, latent_slope, bias, variance = 0.7, 0.9, -0.2, 0.3
    weights = jnp.asarray([[slope, latent_slope, bias]])
    log_noise = jnp.log(jnp.full((1, 1), variance))
    x, y = jnp.linspace(-1, 1, 5)[:, None], jnp.linspace(-2, 1, 5)[:, None]
    exact = norm.logpdf(y, slope * x + bias, np.sqrt(latent_slope**2 * 2.0 + variance))[:, 0]
    errors = [
        np.abs(log_marginal(model, weights, log_noise, x, y, latent_nodes(model, q))[0] - exact)
        for q in (20, 80, 320)
    ]
    # Medians of slices miss some of the tails' variance; the error falls about as 1/Q.
    assert errors[0].max() < 0.05
    assert errors[2].max() < errors[1].max() < errors[0].max()
    assert errors[2].max() < 0.005
