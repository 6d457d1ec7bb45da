"""Linear regression with Gaussian residuals."""

import numpy as np
import pytest
from scipy.stats import norm

from twofold.estimators.linear import LinearGaussian


def test_the_density_is_that_of_the_least_squares_fit(rng):
    x, noise = rng.normal(size=(60, 2)), rng.normal(size=60)
    y = 3.0 + x @ [2.0, -1.0] + 0.5 * noise
    found = LinearGaussian.fit(x[:40], y[:40])
    design = np.column_stack([np.ones(40), x[:40]])
    b, squares, *_ = np.linalg.lstsq(design, y[:40], rcond=None)
    mean = b[0] + x[40:] @ b[1:]
    deviation = np.sqrt(squares[0] / 37 + 1e-6 * np.var(y[:40]))
    np.testing.assert_allclose(found.predict(x[40:]), mean)
    np.testing.assert_allclose(
        found.log_likelihood(x[40:], y[40:]), norm.logpdf(y[40:], mean, deviation)
    )


def test_several_outputs_are_scored_together(rng):
    x = rng.normal(size=(50, 1))
    shared = rng.normal(size=50)
    y = np.column_stack([x[:, 0] + shared, x[:, 0] - shared + 0.1 * rng.normal(size=50)])
    found = LinearGaussian.fit(x, y)
    alone = sum(LinearGaussian.fit(x, y[:, i]).log_likelihood(x, y[:, i]).mean() for i in (0, 1))
    assert found.log_likelihood(x, y).mean() > alone + 1.0


def test_an_output_without_noise_has_a_density():
    x = np.arange(10.0)[:, None]
    for y in (2.0 * x[:, 0], np.ones(10)):
        assert np.isfinite(LinearGaussian.fit(x, y).log_likelihood(x, y)).all()


def test_the_linear_reference_is_a_gaussian_around_least_squares(rng):
    """Two outputs with correlated residuals; the last input is a copy of another."""
    x = rng.normal(size=(60, 3)) @ np.array([[1.0, 0, 0], [0, 1, 1], [0, 0, 0]])
    mixing = np.array([[1.0, 0.8], [0.0, 0.6]])
    y = x[:, :1] + rng.normal(size=(60, 2)) @ mixing
    found = LinearGaussian.fit(x[:40], y[:40]).log_likelihood(x[40:], y[40:])
    columns = np.column_stack([np.ones(60), x[:, :2]])
    solution = np.linalg.pinv(columns[:40]) @ y[:40]
    residuals = y - columns @ solution
    covariance = residuals[:40].T @ residuals[:40] / (40 - 3) + 1e-6 * np.diag(y[:40].var(axis=0))
    for row, density in zip(residuals[40:], found, strict=True):
        square = row @ np.linalg.solve(covariance, row)
        expected = -0.5 * square - 0.5 * np.log(np.linalg.det(2 * np.pi * covariance))
        assert density == pytest.approx(expected)
