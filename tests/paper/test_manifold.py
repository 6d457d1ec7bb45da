"""The sheet in sixty dimensions."""

import numpy as np

from paper.off_manifold import INPUTS, NOISE, THICKNESS, Manifold


def test_data_are_noisy_values_of_the_function_on_a_thin_sheet():
    problem = Manifold(3)
    x, y = problem.training_data(4000)
    assert x.shape == (4000, INPUTS) and y.shape == (4000,)
    residual = y - problem.function(x)
    # Four standard errors of a deviation.
    np.testing.assert_allclose(residual.std(), NOISE, rtol=4 / np.sqrt(2 * 4000))
    np.testing.assert_allclose(x.std(axis=0).mean(), 0.85, atol=0.1)
    # Nearly all variance lies in the few directions that a curved sheet of three dimensions needs.
    variances = np.linalg.eigvalsh(np.cov(x.T))[::-1]
    assert variances[20:].max() < 2 * THICKNESS**2 + 0.05
    assert variances[:6].sum() > 0.8 * variances.sum()


def test_function_is_the_formula_written_out():
    problem = Manifold(1)
    x = problem.off(1.0, 2)
    slope, directions = problem._draw(2, (60,)), problem._draw(3, (6, 60))
    phases, heights = np.pi * problem._draw(4, (6,)), problem._draw(5, (6,))
    for row, value in zip(x, problem.function(x), strict=True):
        expected = 1.5 * sum(row * slope) / 60**0.5
        for k in range(6):
            angle = 1.5 * sum(row * directions[k]) / 60**0.5 + phases[k]
            expected += 0.7 * heights[k] * np.sin(angle)
        np.testing.assert_allclose(value, expected)


def test_seeds_draw_other_problems_and_calls_repeat():
    one, other = Manifold(0).training_data(50), Manifold(1).training_data(50)
    np.testing.assert_array_equal(one[0], Manifold(0).training_data(50)[0])
    assert not np.allclose(one[0], other[0])


def test_distances_are_those_asked_for():
    problem = Manifold(0)
    near, far = problem.off(0.0), problem.off(2.0)
    np.testing.assert_allclose((far - near).std(), 2.0, rtol=0.02)
    edge, beyond = problem.beyond(1.0), problem.beyond(3.0)
    assert np.linalg.norm(beyond) > 2 * np.linalg.norm(edge)
