"""Scores and choices of points to measure."""

import numpy as np
import pytest

from twofold.active.acquisition import best, epistemic_score, random_score, total_score
from twofold.uncertainty.decomposition import Decomposition, Parts


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


def test_best_are_the_largest_in_order_and_no_more_than_there_are():
    np.testing.assert_array_equal(best(np.array([0.2, 0.9, 0.5, 0.9]), 3), [1, 3, 2])
    with pytest.raises(ValueError, match="num must lie between 1 and 2 candidates, got 3"):
        best(np.zeros(2), 3)
