"""The split: it adds up, it matches closed forms, and its errors are what they claim."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.inference.meanfield import MeanFieldPosterior
from twofold.model.spec import BNNLV, Draws, SampledPosterior
from twofold.uncertainty.decomposition import (
    ESTIMATORS,
    Decomposition,
    Parts,
    by_entropy,
    by_variance,
    choose_estimator,
    decompose,
    decompose_rows,
)
from twofold.uncertainty.entropies import Entropies
from twofold.uncertainty.predictive import Moments, in_chunks
from twofold.uncertainty.sample_entropy import from_samples, nearest_neighbour


class Independent:
    """``y = w₁x + w₂z + b + ε`` with independent draws of w₁ and b, in one or two outputs."""

    def __init__(self, spread, noise, outputs=1):
        self.model = BNNLV(1, outputs, (), 1, 1.0, 1.0)
        self.spread, self.noise = spread, noise

    def sample(self, key, num):
        outputs = self.model.outputs
        slope, bias = self.spread * jax.random.normal(key, (2, num, outputs))
        kernel = jnp.stack([slope, jnp.full_like(slope, self.noise)], axis=-1)
        weights = jnp.concatenate([kernel.reshape(num, -1), bias], axis=1)
        return Draws(weights, jnp.full((num, outputs), 2 * np.log(self.noise)))

    def epistemic_variance(self, x):
        return self.spread**2 * (1 + x**2)

    @property
    def noise_variance(self):
        return 2 * self.noise**2

    def epistemic_entropy(self, x):
        return 0.5 * np.log1p(self.epistemic_variance(x) / self.noise_variance)


def test_variances_add_up_and_match_the_law_of_total_variance(normal):
    mean, variance = normal(6, 2, 4), normal(6, 2, 4) ** 2
    split = by_variance(Moments(mean, variance)).parts
    np.testing.assert_allclose(split.epistemic, np.var(mean, axis=0), rtol=1e-5)
    np.testing.assert_allclose(split.aleatoric, np.mean(variance, axis=0), rtol=1e-5)
    second = np.mean(np.square(mean) + variance, axis=0)
    np.testing.assert_allclose(split.total, second - np.mean(mean, axis=0) ** 2, rtol=1e-4)


def test_entropies_add_up(normal):
    split = by_entropy(Entropies(normal(6, 2, 4), normal(6, 2, 4))).parts
    np.testing.assert_allclose(split.total, split.epistemic + split.aleatoric, rtol=1e-5)


def test_errors_are_standard_errors_over_draws(normal):
    cross, conditional = normal(6, 3), normal(6, 3)
    errors = by_entropy(Entropies(cross, conditional)).errors
    for error, terms in zip(errors, (cross, cross - conditional, conditional), strict=True):
        np.testing.assert_allclose(error, np.std(terms, axis=0, ddof=1) / np.sqrt(6), rtol=1e-5)


def test_one_draw_says_nothing_about_its_error(normal):
    assert np.isnan(by_entropy(Entropies(normal(1, 3), normal(1, 3))).errors.total).all()


@pytest.mark.parametrize("by", ["entropy", "variance"])
def test_the_claimed_error_is_the_spread_of_repeated_estimates(by):
    posterior = Independent(0.5, 0.3)
    x = np.array([[1.0]])

    def split(seed):
        return decompose_rows(
            jax.random.key(seed), posterior.model, posterior, x, by, weights=60, latents=20
        )

    found = [split(seed) for seed in range(200)]
    for name in ("total", "epistemic", "aleatoric"):
        values = np.array([getattr(one, name)[0, 0] for one in found])
        claimed = np.mean([getattr(one.standard_errors, name)[0, 0] for one in found])
        # Given W everything but its mean is the same here, so the aleatoric part hardly errs. A
        # deviation from 200 repetitions errs by 5 %; the claim itself is of first order.
        np.testing.assert_allclose(values.std(), claimed, rtol=0.25, atol=2e-4)


@pytest.mark.parametrize("estimator", ["quadrature", "mixture"])
def test_epistemic_entropy_of_a_linear_gaussian_model(estimator):
    posterior = Independent(0.4, 0.3)
    x = np.array([[0.0], [1.0], [3.0]])
    split = decompose_rows(
        jax.random.key(0), posterior.model, posterior, x, estimator=estimator,
        weights=1000, latents=100,
    )  # fmt: skip
    expected = posterior.epistemic_entropy(x)
    assert np.all(np.abs(split.epistemic - expected) < 4.5 * split.standard_errors.epistemic)
    assert np.all(split.standard_errors.epistemic < 0.05)


def test_an_estimator_that_sees_draws_only():
    posterior = Independent(0.4, 0.3)
    x = np.array([[0.0], [3.0]])
    split = decompose_rows(
        jax.random.key(0),
        posterior.model,
        posterior,
        x,
        estimator="nearest_neighbour",
        weights=100,
        latents=200,
    )
    expected = posterior.epistemic_entropy(x)
    # Their bias with 200 draws given each W is up to 0.1 nats; see docs/decomposition.md.
    error = 0.1 + 4.5 * split.standard_errors.epistemic
    assert np.all(np.abs(split.epistemic - expected) < error)


def test_without_latent_input_draws_of_y_differ_in_their_noise():
    model = BNNLV(1, 1, (), 0, 1.0, 1.0)
    noise, spread = 0.5, 0.7
    posterior = MeanFieldPosterior(
        jnp.zeros(2), jnp.asarray([0.0, spread**2]), jnp.full(1, 2 * np.log(noise))
    )
    split = decompose_rows(
        jax.random.key(0),
        model,
        posterior,
        np.zeros((1, 1)),
        estimator="nearest_neighbour",
        weights=200,
    )
    # With 100 draws given each W their bias is up to 0.15 nats.
    assert abs(split.epistemic[0, 0] - 0.5 * np.log1p((spread / noise) ** 2)) < 0.15


def test_an_estimator_can_be_a_function():
    posterior = Independent(0.4, 0.3)
    arguments = jax.random.key(0), posterior.model, posterior, np.zeros((1, 1))
    three = from_samples(partial(nearest_neighbour, k=3))
    found = decompose_rows(*arguments, estimator=three, latents=200)
    named = decompose_rows(*arguments, estimator="nearest_neighbour", latents=200)
    assert found.epistemic != named.epistemic
    np.testing.assert_allclose(found.epistemic, named.epistemic, atol=0.1)


def test_stored_draws_are_not_counted_twice():
    stored = Independent(0.4, 0.3).sample(jax.random.key(0), 20)
    model = Independent(0.4, 0.3).model
    arguments = jax.random.key(0), model, SampledPosterior(*stored), np.zeros((1, 1))
    few, many = (decompose_rows(*arguments, weights=number) for number in (20, 500))
    np.testing.assert_allclose(few.standard_errors.epistemic, many.standard_errors.epistemic)


def test_joint_entropy_is_the_sum_over_independent_outputs():
    posterior = Independent(0.4, 0.3, outputs=2)
    x = np.array([[0.5], [2.0]])
    arguments = jax.random.key(0), posterior.model, posterior, x
    joint = decompose_rows(*arguments, joint=True, weights=300, latents=30)
    each = decompose_rows(*arguments, weights=300, latents=30)
    assert joint.total.shape == (2, 1)
    assert joint.joint and not each.joint
    assert each.total.shape == (2, 2)
    # z is shared by the outputs, so given W they are dependent: less than the sum of each.
    noise = np.array([[2.0, 1.0], [1.0, 2.0]]) * posterior.noise**2
    spread = posterior.epistemic_variance(x[:, 0])
    for i in range(2):
        exact = 0.5 * np.linalg.slogdet(noise + spread[i] * np.eye(2))[1]
        exact -= 0.5 * np.linalg.slogdet(noise)[1]
        error = 4.5 * joint.standard_errors.epistemic[i, 0]
        assert abs(joint.epistemic[i, 0] - exact) < error


@pytest.mark.parametrize("by", ["entropy", "variance"])
def test_the_result_does_not_depend_on_chunks_or_other_points(monkeypatch, by):
    posterior = Independent(0.4, 0.3)
    x = np.linspace(-2, 2, 13)[:, None]
    arguments = jax.random.key(0), posterior.model, posterior
    whole = decompose_rows(*arguments, x, by)
    seen = []
    monkeypatch.setattr("twofold.uncertainty.predictive.CHUNK_VALUES", 100 * 100 * 2 * 4)
    chunked = decompose_rows(*arguments, x, by, on_progress=seen.append)
    assert seen == [4, 8, 12, 13]
    alone = decompose_rows(*arguments, x[5:6], by)
    for name in ("total", "epistemic", "aleatoric"):
        np.testing.assert_allclose(getattr(chunked, name), getattr(whole, name), rtol=1e-5)
        np.testing.assert_allclose(getattr(alone, name), getattr(whole, name)[5:6], rtol=1e-5)


@pytest.mark.parametrize("by", ["entropy", "variance"])
def test_decompose_is_pure_and_equals_the_host_under_jit_and_vmap(by):
    """Over two posteriors at once, each as by itself."""
    model = Independent(0.4, 0.3).model
    draws = [Independent(0.4, noise).sample(jax.random.key(3), 8) for noise in (0.3, 0.6)]
    posteriors = SampledPosterior(*map(jnp.stack, zip(*draws, strict=True)))
    x, key = jnp.linspace(-2.0, 2.0, 3)[:, None], jax.random.key(0)
    one = partial(decompose, key, model, by=by, weights=8, latents=10)
    together = jax.jit(jax.vmap(one, in_axes=(0, None)))(posteriors, x)
    assert together.parts.epistemic.shape == (2, 3, 1)
    for place, own in enumerate(draws):
        posterior = SampledPosterior(*own)
        host = decompose_rows(key, model, posterior, x, by, weights=8, latents=10)
        for parts, expected in (
            (together.parts, host.parts),
            (together.errors, host.standard_errors),
        ):
            for found, known in zip(parts, expected, strict=True):
                np.testing.assert_allclose(found[place], known, rtol=2e-4, atol=2e-6)


def test_in_chunks_keeps_integers_and_order():
    x, rows = np.arange(10.0)[:, None], np.arange(10)[:, None]

    @jax.jit
    def function(x, rows):
        assert rows.dtype == jnp.int32
        return x[:, 0] * 2, rows[:, 0]

    doubled, same = in_chunks(function, (), [x, rows], 4, "float32")
    np.testing.assert_array_equal(doubled, 2.0 * np.arange(10))
    np.testing.assert_array_equal(same, np.arange(10))


def test_an_impossible_estimate_is_flagged_not_clipped():
    parts = Parts(np.zeros(3), np.array([-0.5, -0.01, 0.2]), np.zeros(3))
    errors = Parts(*[np.full(3, 0.1)] * 3)
    split = Decomposition("entropy", *parts, errors)
    np.testing.assert_array_equal(split.doubtful, [True, False, False])
    assert split.epistemic[0] == -0.5


def test_standard_deviations_are_roots_with_their_errors():
    parts = Parts(np.array([4.0]), np.array([1.0]), np.array([3.0]))
    split = Decomposition("variance", *parts, Parts(*[np.array([0.4])] * 3))
    roots = split.standard_deviations()
    np.testing.assert_allclose([roots.total[0], roots.epistemic[0]], [2.0, 1.0])
    np.testing.assert_allclose(roots.standard_errors.total, 0.1)
    with pytest.raises(ValueError, match="by='variance'"):
        Decomposition("entropy", *parts, parts).standard_deviations()


def test_equivalent_deviations_of_gaussians_are_their_own():
    """``y = w + ε``: the deviations of y, of w and of ε, and errors of many repetitions."""
    rng = np.random.default_rng(0)
    noise, spread = 0.3, 0.4
    entropy = 0.5 * np.log(2 * np.pi * np.e)
    truth = np.array([entropy + np.log(np.hypot(noise, spread)), entropy + np.log(noise)])
    covariance = np.array([[4.0, 1.5], [1.5, 1.0]]) * 1e-6
    total, aleatoric = rng.multivariate_normal(truth, covariance, 100_000).T
    errors = Parts(*(np.full(len(total), np.sqrt(v)) for v in (4e-6, 2e-6, 1e-6)))
    split = Decomposition("entropy", total, total - aleatoric, aleatoric, errors)
    widths = split.equivalent_deviations()
    assert widths.by == "width"
    for part, error, known in zip(
        widths.parts, widths.standard_errors, (0.5, spread, noise), strict=True
    ):
        np.testing.assert_allclose(part, known, rtol=0.03)
        # A deviation from 100,000 numbers errs by 0.2 %.
        np.testing.assert_allclose(part.std(), error.mean(), rtol=0.015)


def test_an_equivalent_deviation_is_never_negative_and_unknown_stays_so():
    parts = Parts(np.array([1.0, np.nan]), np.array([-0.2, np.nan]), np.array([1.2, np.nan]))
    errors = Parts(*[np.full(2, 0.1)] * 3)
    widths = Decomposition("entropy", *parts, errors).equivalent_deviations()
    np.testing.assert_array_equal(widths.epistemic, [0.0, np.nan])
    for refused in (
        Decomposition("variance", *parts, errors),
        Decomposition("entropy", *parts, errors, joint=True),
    ):
        with pytest.raises(ValueError, match="by='entropy' and joint=False"):
            refused.equivalent_deviations()


def test_clear_errors():
    posterior = Independent(0.4, 0.3, outputs=2)
    arguments = jax.random.key(0), posterior.model, posterior, np.zeros((1, 1))
    with pytest.raises(ValueError, match="by must be"):
        decompose_rows(*arguments, by="range")
    with pytest.raises(ValueError, match="by='entropy'"):
        decompose_rows(*arguments, by="variance", joint=True)
    with pytest.raises(ValueError, match="estimator must be"):
        decompose_rows(*arguments, estimator="tarot")
    with pytest.raises(ValueError, match="at least one row"):
        decompose_rows(*arguments[:3], np.zeros((0, 1)))
    with pytest.raises(ValueError, match="mixture"):
        decompose_rows(*arguments, estimator="quadrature", joint=True)
    single = BNNLV(1, 1, (3,), 1, 1.0, 1.0)
    assert choose_estimator("auto", True, single) is ESTIMATORS["quadrature"]
