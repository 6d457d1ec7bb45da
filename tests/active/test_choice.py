"""Scores and choices of points to measure; batches against determinants and brute force."""

import warnings

import jax
import numpy as np
import pytest

from twofold import Ensemble
from twofold.active import (
    assess,
    choose_batch,
    choose_best,
    epistemic_score,
    expected_information,
    random_score,
    total_score,
)
from twofold.active.choice import (
    Assessment,
    conditional_variance,
    epistemic_share,
    information_left,
    left_to_learn,
)
from twofold.estimators.regressor import BNNLVRegressor
from twofold.model.spec import BNNLV, SampledPosterior
from twofold.uncertainty.decomposition import Decomposition, Parts, decompose_rows


@pytest.fixture(scope="module")
def tiny_model():
    """A fitted model and rows of its inputs."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(10, 3))
    model = BNNLVRegressor(inference=Ensemble(members=2, updates=20), latent_dim=0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(x, rng.normal(size=10)), x


def split(epistemic, aleatoric):
    epistemic, aleatoric = np.asarray(epistemic), np.asarray(aleatoric)
    zeros = np.zeros_like(epistemic)
    parts = Parts(epistemic + aleatoric, epistemic, aleatoric)
    return Decomposition("entropy", *parts, Parts(zeros, zeros, zeros))


def test_scores_are_the_parts_they_are_named_after():
    found = split([0.1, 0.3], [2.0, 1.0])
    np.testing.assert_array_equal(epistemic_score(found), [0.1, 0.3])
    np.testing.assert_allclose(total_score(found), [2.1, 1.3])


def test_several_outputs_are_summed():
    found = split([[0.1, 0.2], [0.3, 0.4]], [[1.0, 1.0], [2.0, 2.0]])
    np.testing.assert_allclose(epistemic_score(found), [0.3, 0.7])
    np.testing.assert_allclose(total_score(found), [2.3, 4.7])


def test_random_scores_repeat_for_a_seed_only():
    np.testing.assert_array_equal(random_score(1, 5), random_score(1, 5))
    assert not np.array_equal(random_score(1, 5), random_score(2, 5))


def test_the_best_are_the_largest_in_order_and_no_more_than_there_are():
    np.testing.assert_array_equal(choose_best(np.array([0.2, 0.9, 0.5, 0.9]), 3), [1, 3, 2])
    with pytest.raises(ValueError, match="num must lie between 1 and 2 candidates, got 3"):
        choose_best(np.zeros(2), 3)


def test_entropies_that_are_unknown_are_those_of_gaussians():
    class Narrow:
        """A model whose entropies are not known at the first of two points."""

        def decompose(self, x, by="entropy"):
            known = np.array([[np.nan, 0.1], [0.3, -0.2]])
            if by == "entropy":
                return split(known, np.ones((2, 2)))
            assert len(x) == 1, "only the points in question are split by variance"
            zeros = np.zeros((1, 2))
            parts = np.array([[4.0, 2.0]]), np.array([[3.0, 1.0]]), np.ones((1, 2))
            return Decomposition(by, *parts, Parts(zeros, zeros, zeros))

    found = expected_information(Narrow(), np.zeros((2, 1)))
    np.testing.assert_allclose(found, [0.5 * np.log(4.0) + 0.1, 0.3])


def test_the_epistemic_share_is_that_of_the_variance_of_gaussians():
    epistemic, aleatoric = np.array([0.0, 1.0, 3.0]), np.array([1.0, 2.0, 0.1])
    nats = 0.5 * np.log1p(epistemic / aleatoric)
    np.testing.assert_allclose(epistemic_share(nats), epistemic / (epistemic + aleatoric))


def test_what_is_left_to_learn_is_averaged_over_points_and_outputs():
    nats = np.array([[0.2, -0.1], [0.4, 0.0]])
    moments = np.zeros((2, 2, 2)), np.ones((2, 2, 2))
    found = left_to_learn(Assessment(split(nats, np.ones((2, 2))), *moments))
    share = np.mean(1 - np.exp(-2 * nats))
    assert found == pytest.approx({"epistemic_nats": 0.3, "epistemic_share": share})
    nothing = left_to_learn(Assessment(split(-nats, np.ones((2, 2))), *moments))
    assert nothing["epistemic_share"] == 0.0


def test_a_wild_draw_hides_neither_noise_nor_what_is_left_to_learn():
    """One of 50 draws of W has huge noise; the others differ by as much as their noise is wide."""
    rng = np.random.default_rng(0)
    model = BNNLV(
        inputs=1, outputs=1, hidden=(), latents=0, weight_variance=1.0, latent_variance=1.0
    )
    weights = np.column_stack([np.zeros(50), rng.normal(size=50)])
    log_noise = np.zeros((50, 1))
    log_noise[0] = 2 * np.log(300.0)
    posterior = SampledPosterior(weights, log_noise)
    found = decompose_rows(jax.random.key(0), model, posterior, np.zeros((1, 1)), weights=50)
    by_variance = decompose_rows(
        jax.random.key(0), model, posterior, np.zeros((1, 1)), "variance", weights=50
    )
    assert by_variance.epistemic / by_variance.total < 0.001
    # Without that draw it is a half.
    assert 0.35 < epistemic_share(found.epistemic) < 0.55
    assert 0.9 < found.equivalent_deviations().aleatoric < 1.2


def test_an_assessment_splits_variances_as_decompose_does(tiny_model):
    model, x = tiny_model
    known, split = assess(model, x), model.decompose(x, by="variance")
    np.testing.assert_allclose(known.epistemic[0], split.epistemic, rtol=1e-5)
    np.testing.assert_allclose(known.aleatoric[0], split.aleatoric, rtol=1e-5)
    expected = np.maximum(model.decompose(x).epistemic, 0.0)
    np.testing.assert_allclose(known.information, expected, rtol=1e-6)


def linear_model(rng, points=12, weights=3):
    """Features, noise and the prior covariance of ``E[y|x,W]`` for standard normal weights."""
    features = rng.normal(size=(points, weights))
    noise = rng.uniform(0.2, 2.0, points)
    return features, noise, features @ features.T


def joint_information(covariance, noise, chosen):
    """``I(W; y_S)`` of a Gaussian model, from the determinant of signal and noise over noise."""
    gram = covariance[np.ix_(chosen, chosen)]
    return 0.5 * np.linalg.slogdet(np.eye(len(chosen)) + gram / noise[chosen][:, None])[1]


def test_information_left_is_what_a_determinant_grows_by(rng):
    _, noise, covariance = linear_model(rng)
    measured = np.array([2, 5, 7])
    found = information_left(covariance, noise, measured)
    for point in (0, 1, 11):
        both = joint_information(covariance, noise, np.append(measured, point))
        np.testing.assert_allclose(
            found[point], both - joint_information(covariance, noise, measured)
        )


def test_conditioning_is_bayesian_linear_regression(rng):
    features, noise, covariance = linear_model(rng)
    measured = np.array([0, 3, 4])
    rows = features[measured]
    posterior = np.linalg.inv(np.eye(3) + rows.T @ (rows / noise[measured][:, None]))
    np.testing.assert_allclose(
        conditional_variance(covariance, noise, measured),
        np.diag(features @ posterior @ features.T),
    )


def test_points_that_cannot_be_compared_are_refused(rng):
    means, noise = rng.normal(size=(9, 1, 4)), np.ones((1, 4))
    with pytest.raises(ValueError, match="scores and means must be finite"):
        choose_batch(np.array([1.0, np.nan, 0.5, 0.2]), means, noise, 2)
    with pytest.raises(ValueError, match="noise positive"):
        choose_batch(np.ones(4), means, 0.0 * noise, 2)
    with pytest.raises(ValueError, match="at least 2 weight draws"):
        choose_batch(np.ones(4), means[:1], noise, 2)


def test_a_negative_score_is_an_estimate_of_nothing(rng):
    """Were it negative still, a copy, which leaves little of it, would look best."""
    means = rng.normal(size=(50, 1, 4))
    means[:, :, 1] = means[:, :, 0]
    scores = np.array([1.0, -0.5, -0.4, 0.1])
    assert list(choose_batch(scores, means, np.full((1, 4), 0.01), 2)) == [0, 3]


def test_the_choice_is_the_greedy_one_by_brute_force(rng):
    features, noise, covariance = linear_model(rng)
    # As many draws of the weights as make their sample covariance the exact one.
    draws = np.sqrt(3.0) * np.vstack([np.eye(3), -np.eye(3)]) * np.sqrt(5 / 6)
    means = (draws @ features.T)[:, None, :]
    np.testing.assert_allclose(np.cov(means[:, 0], rowvar=False), covariance)
    alone = 0.5 * np.log1p(np.diag(covariance) / noise)
    found = choose_batch(alone, means, noise[None], 4)
    chosen = []
    for _ in range(4):
        others = [p for p in range(12) if p not in chosen]
        gains = [joint_information(covariance, noise, [*chosen, p]) for p in others]
        chosen.append(others[int(np.argmax(gains))])
    np.testing.assert_array_equal(found, chosen)


def test_near_copies_of_the_best_point_are_passed_over(rng):
    features = np.vstack([np.tile([3.0, 0.0], (4, 1)), [[0.0, 2.0]]])
    features[:4] += 1e-3 * rng.normal(size=(4, 2))
    means = (rng.normal(size=(500, 2)) @ features.T)[:, None, :]
    noise = np.full((1, 5), 0.1)
    scores = np.array([1.0, 0.99, 0.98, 0.97, 0.5])
    assert 4 not in choose_best(scores, 2)
    np.testing.assert_array_equal(choose_batch(scores, means, noise, 2), [0, 4])


def test_what_is_underway_counts_as_measured(rng):
    features = np.array([[3.0, 0.0], [3.0, 0.001], [0.0, 2.0]])
    means = (rng.normal(size=(500, 2)) @ features.T)[:, None, :]
    scores, noise = np.array([1.0, 0.9, 0.5]), np.full((1, 3), 0.1)
    np.testing.assert_array_equal(choose_batch(scores, means, noise, 1), [0])
    np.testing.assert_array_equal(choose_batch(scores, means, noise, 1, underway=[0]), [2])


def test_outputs_add_what_each_of_them_teaches(rng):
    # The second output tells points 0 and 1 apart, the first does not.
    first = np.array([[2.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    second = np.array([[1.5, 0.0, 0.0], [0.0, 1.5, 0.0]])
    weights = rng.normal(size=(4000, 4))
    means = np.stack([weights[:, :2] @ first, weights[:, 2:] @ second], axis=1)
    scores = np.array([1.0, 0.9, 0.4])
    one = choose_batch(scores, means[:, :1], np.full((1, 3), 0.1), 2)
    both = choose_batch(scores, means, np.full((2, 3), 0.1), 2)
    np.testing.assert_array_equal(one, [0, 2])
    np.testing.assert_array_equal(both, [0, 1])


def test_more_than_there_are_is_refused():
    with pytest.raises(ValueError, match="num must lie between"):
        choose_batch(np.ones(2), np.ones((3, 1, 2)), np.ones((1, 2)), 3)
