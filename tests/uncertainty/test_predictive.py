"""Nested prediction against loops and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from twofold.core import numerics
from twofold.inference.meanfield import MeanFieldPosterior
from twofold.model import density
from twofold.model.spec import BNNLV
from twofold.uncertainty import decomposition, predictive


def make(latents=1, outputs=2):
    model = BNNLV(2, outputs, (5,), latents, 1.0, 2.0)
    rng = np.random.default_rng(0)
    posterior = MeanFieldPosterior(
        jnp.asarray(rng.normal(size=model.num_weights)),
        jnp.asarray(rng.uniform(0.1, 0.5, model.num_weights)),
        jnp.asarray(rng.normal(size=outputs)),
    )
    nested = predictive.nest(jax.random.key(0), model, posterior, 6, 7)
    return model, posterior, nested, jnp.asarray(rng.normal(size=(4, 2)))


def loop_means(model, nested, x):
    """``[L, M, B, O]`` by explicit loops."""
    mean = jax.jit(density.mean, static_argnums=0)
    nested, x = jax.tree.map(np.asarray, (nested, x))
    latents, draws = nested.latents.shape[:2]
    out = np.empty((latents, draws, len(x), model.outputs))
    for i, m, b in np.ndindex(out.shape[:3]):
        z = nested.latents[i, m][None, :, None]
        found = mean(model, nested.weights[m : m + 1], x[b : b + 1], z)
        out[i, m, b] = np.asarray(found)[0, :, 0]
    return out


def moments_and_means(model, nested, x):
    """In one program, compiled anew: what is computed depends on settings of the module."""

    @jax.jit
    def both(*given):
        return predictive.moments(model, *given), predictive.components(model, *given).mean

    return jax.tree.map(np.asarray, both(nested, x))


@pytest.mark.parametrize("latents", [0, 1, 2])
def test_moments_and_means_equal_a_loop(x64, latents):
    model, _, nested, x = make(latents)
    values = loop_means(model, nested, x)
    moments, every = moments_and_means(model, nested, x)
    noise = np.exp(nested.log_noise)[:, None, :]
    np.testing.assert_allclose(np.swapaxes(moments.mean, 1, 2), values.mean(axis=0))
    np.testing.assert_allclose(np.swapaxes(moments.variance, 1, 2), values.var(axis=0) + noise)
    np.testing.assert_allclose(np.swapaxes(every, 2, 3), values)


@pytest.mark.parametrize("cpu", [True, False])
@pytest.mark.parametrize(("values", "block"), [(1, 1), (5 * 4 * 3, 3), (5 * 4 * 6, 6)])
def test_latent_draws_in_blocks_of_any_size_are_the_same(x64, monkeypatch, values, block, cpu):
    model, posterior, _, x = make()
    nested = predictive.nest(jax.random.key(0), model, posterior, 4, 6)
    expected = moments_and_means(model, nested, x)
    monkeypatch.setattr(numerics, "on_cpu", lambda: cpu)
    monkeypatch.setattr(predictive, "CPU_VALUES", values)
    monkeypatch.setattr(predictive, "GPU_VALUES", 4 * values)  # a GPU takes all draws at once
    assert predictive.latents_at_once(model, 4, len(x), 6) == block
    found = moments_and_means(model, nested, x)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other)


def test_log_density_equals_a_loop(x64):
    model, _, nested, x = make()
    y = np.random.default_rng(1).normal(size=(4, 2))
    values = loop_means(model, nested, x)
    deviation = np.exp(0.5 * np.asarray(nested.log_noise))[:, None, :]
    terms = norm.logpdf(y, values, deviation).sum(axis=-1).reshape(-1, 4)
    expected = logsumexp(terms, axis=0) - np.log(len(terms))
    np.testing.assert_allclose(
        predictive.log_density(model, nested, x, jnp.asarray(y), jnp.zeros_like(y)), expected
    )


def test_latent_draws_follow_the_prior_and_are_stratified():
    model = BNNLV(3, 1, (5,), 1, 1.0, 4.0)
    z = np.asarray(predictive.latent_draws(jax.random.key(0), model, 50, 400))[..., 0]
    ranks = norm.cdf(z / 2.0)
    strata = np.floor(ranks * 50).astype(int)
    np.testing.assert_array_equal(strata, np.broadcast_to(np.arange(50)[:, None], strata.shape))
    # The mean of 50 stratified draws has a far smaller error than 2/sqrt(50).
    assert np.abs(z.mean(axis=0)).max() < 0.5 * 2.0 / np.sqrt(50)
    np.testing.assert_allclose(z.var(), 4.0, rtol=0.02)


@pytest.mark.parametrize("latents", [2, 3])
def test_several_latent_inputs_are_stratified_each(latents):
    model = BNNLV(3, 1, (5,), latents, 1.0, 4.0)
    z = np.asarray(predictive.latent_draws(jax.random.key(0), model, 50, 20))
    strata = np.floor(norm.cdf(z / 2.0) * 50).astype(int)
    ordered = np.sort(strata, axis=0)
    np.testing.assert_array_equal(
        ordered, np.broadcast_to(np.arange(50)[:, None, None], strata.shape)
    )
    # In random order, or the inputs would move together: |correlation| < 4.5 / sqrt(draws).
    together = np.corrcoef(z[:, :, 0].ravel(), z[:, :, 1].ravel())[0, 1]
    assert abs(together) < 4.5 / np.sqrt(z[:, :, 0].size)


def test_many_latent_draws_are_finite():
    model = BNNLV(1, 1, (5,), 1, 1.0, 1.0)
    for seed in range(20):
        z = predictive.latent_draws(jax.random.key(seed), model, 10_000, 4)
        assert np.isfinite(z).all()


def test_samples_have_the_predictive_moments(x64):
    model, posterior, _, x = make()
    nested = predictive.nest(jax.random.key(1), model, posterior, 4000, 20)
    moments = jax.jit(predictive.moments, static_argnums=0)(model, nested, x)
    total = np.asarray(decomposition.by_variance(moments).parts.total).T
    num = 20_000
    draws = posterior.sample(jax.random.key(3), num)
    rows = jnp.arange(len(x))[:, None]
    values = np.asarray(predictive.sample(jax.random.key(2), model, draws, x, rows))
    error = np.sqrt(total * (1 / num + 1 / 4000))
    mean = np.asarray(moments.mean).mean(axis=0).T
    assert np.all(np.abs(values.mean(axis=1) - mean) < 4.5 * error)
    # Kurtosis of these mixtures is below 12, so a variance errs by less than sqrt(11/n).
    tolerance = 4.5 * np.sqrt(11 / num + 11 / 4000)
    np.testing.assert_allclose(values.var(axis=1), total, rtol=tolerance)


def test_a_sample_depends_on_its_row_alone(x64):
    model, posterior, _, x = make()
    draws, rows = posterior.sample(jax.random.key(3), 5), jnp.arange(len(x))[:, None]
    whole = predictive.sample(jax.random.key(2), model, draws, x, rows)
    part = predictive.sample(jax.random.key(2), model, draws, x[2:], rows[2:])
    np.testing.assert_allclose(whole[2:], part, rtol=1e-12)
    assert not np.allclose(whole[0], whole[1])
