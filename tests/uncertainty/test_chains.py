"""What is asked of chains, and what is said about them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from twofold.model import density
from twofold.model.spec import BNNLV
from twofold.uncertainty.chains import NODES, Diagnostics, advice, diagnose, predictive_trace


@pytest.mark.parametrize("latents", [0, 1])
def test_predictive_trace_equals_a_loop(x64, normal, latents):
    model = BNNLV(2, 1, (3,), latents, 1.0, 1.0)
    weights, log_noise, x = normal(2, 3, model.num_weights), normal(2, 3, 1), normal(4, 2)
    found = predictive_trace(model, weights, log_noise, x)
    assert found.shape == (2, 3, 8)
    mean = jax.jit(density.mean, static_argnums=0)
    weights, log_noise, x, found = map(np.asarray, (weights, log_noise, x, found))
    medians = norm.ppf((np.arange(NODES) + 0.5) / NODES)[:, None]
    nodes = medians if latents else np.zeros((1, 0))
    for c, r in np.ndindex(2, 3):
        latent = [np.broadcast_to(z[None, :, None], (1, latents, 4)) for z in nodes]
        values = np.array([mean(model, weights[c, r][None], x, z)[0, 0] for z in latent])
        variance = values.var(axis=0) + np.exp(log_noise[c, r, 0])
        np.testing.assert_allclose(found[c, r, :4], values.mean(axis=0))
        np.testing.assert_allclose(found[c, r, 4:], np.log(variance))


def test_independent_draws_are_found_good(rng):
    found = diagnose(jnp.asarray(rng.normal(size=(4, 500, 3))), 0)
    assert found.r_hat_max < 1.02
    assert found.ess_min > 1000
    assert advice(found) is None


def test_chains_that_disagree_are_found_out(rng):
    trace = rng.normal(size=(4, 500, 3))
    trace[1, :, 2] += 3.0
    found = diagnose(jnp.asarray(trace), 0)
    assert found.r_hat_max > 1.3
    assert "disagree" in advice(found)


def test_few_effective_draws_and_divergences_are_said():
    assert "effective sample size is only 12" in advice(Diagnostics(1.01, 12.0, 0))
    assert "7 transitions diverged" in advice(Diagnostics(1.01, 500.0, 7))


def test_too_few_draws_or_constant_predictions_are_a_worry_of_their_own(rng):
    for trace in (rng.normal(size=(2, 3, 4)), np.ones((2, 50, 4))):
        found = diagnose(jnp.asarray(trace), 2)
        assert found == Diagnostics(None, None, 2)
        assert "cannot be judged" in advice(found)


def test_a_constant_prediction_among_others_is_left_out(rng):
    trace = rng.normal(size=(4, 500, 3))
    trace[..., 1] = 7.0
    assert diagnose(jnp.asarray(trace), 0).r_hat_max < 1.02


def test_several_latent_inputs_can_be_diagnosed(x64, normal):
    """Of a linear model both moments are known; the draws of z are few."""
    model = BNNLV(1, 1, (), 2, 1.0, 1.0)
    weights, log_noise, x = map(np.asarray, (normal(2, 5, 4), normal(2, 5, 1), normal(4, 1)))
    trace = np.asarray(predictive_trace(model, *map(jnp.asarray, (weights, log_noise, x))))
    slope, first, second, bias = np.moveaxis(weights[..., None], 2, 0)
    width = np.hypot(first, second)
    assert trace.shape == (2, 5, 8)
    assert (np.abs(trace[..., :4] - slope * x[:, 0] - bias) < 4 * width / np.sqrt(NODES)).all()
    variance = np.exp(trace[..., 4:]) - np.exp(log_noise)
    assert ((0.3 * width**2 < variance) & (variance < 3 * width**2)).all()
