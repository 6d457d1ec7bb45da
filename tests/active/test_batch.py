"""What several measurements teach together, against determinants and brute force."""

import numpy as np
import pytest

from twofold.active.acquisition import best
from twofold.active.batch import best_together, conditional_variance, information_left


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
        best_together(np.array([1.0, np.nan, 0.5, 0.2]), means, noise, 2)
    with pytest.raises(ValueError, match="noise positive"):
        best_together(np.ones(4), means, 0.0 * noise, 2)
    with pytest.raises(ValueError, match="at least 2 weight draws"):
        best_together(np.ones(4), means[:1], noise, 2)


def test_a_negative_score_is_an_estimate_of_nothing(rng):
    """Were it negative still, a copy, which leaves little of it, would look best."""
    means = rng.normal(size=(50, 1, 4))
    means[:, :, 1] = means[:, :, 0]
    scores = np.array([1.0, -0.5, -0.4, 0.1])
    assert list(best_together(scores, means, np.full((1, 4), 0.01), 2)) == [0, 3]


def test_the_choice_is_the_greedy_one_by_brute_force(rng):
    features, noise, covariance = linear_model(rng)
    # As many draws of the weights as make their sample covariance the exact one.
    draws = np.sqrt(3.0) * np.vstack([np.eye(3), -np.eye(3)]) * np.sqrt(5 / 6)
    means = (draws @ features.T)[:, None, :]
    np.testing.assert_allclose(np.cov(means[:, 0], rowvar=False), covariance)
    alone = 0.5 * np.log1p(np.diag(covariance) / noise)
    found = best_together(alone, means, noise[None], 4)
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
    assert 4 not in best(scores, 2)
    np.testing.assert_array_equal(best_together(scores, means, noise, 2), [0, 4])


def test_what_is_underway_counts_as_measured(rng):
    features = np.array([[3.0, 0.0], [3.0, 0.001], [0.0, 2.0]])
    means = (rng.normal(size=(500, 2)) @ features.T)[:, None, :]
    scores, noise = np.array([1.0, 0.9, 0.5]), np.full((1, 3), 0.1)
    np.testing.assert_array_equal(best_together(scores, means, noise, 1), [0])
    np.testing.assert_array_equal(best_together(scores, means, noise, 1, underway=[0]), [2])


def test_outputs_add_what_each_of_them_teaches(rng):
    # The second output tells points 0 and 1 apart, the first does not.
    first = np.array([[2.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    second = np.array([[1.5, 0.0, 0.0], [0.0, 1.5, 0.0]])
    weights = rng.normal(size=(4000, 4))
    means = np.stack([weights[:, :2] @ first, weights[:, 2:] @ second], axis=1)
    scores = np.array([1.0, 0.9, 0.4])
    one = best_together(scores, means[:, :1], np.full((1, 3), 0.1), 2)
    both = best_together(scores, means, np.full((2, 3), 0.1), 2)
    np.testing.assert_array_equal(one, [0, 2])
    np.testing.assert_array_equal(both, [0, 1])


def test_more_than_there_are_is_refused():
    with pytest.raises(ValueError, match="num must lie between"):
        best_together(np.ones(2), np.ones((3, 1, 2)), np.ones((1, 2)), 3)
