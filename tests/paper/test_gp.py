"""The Gaussian process against its closed form, and against scikit-learn's."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from paper import gp
from paper.gp import GPRegressor, Hyperparameters

HYPERPARAMETERS = Hyperparameters(np.log(1.3), np.log([0.5, 2.0]), np.log(0.4))


@pytest.fixture
def data(rng):
    x = rng.uniform(-2, 2, (70, 2))
    return x, np.sin(2 * x[:, 0]) + 0.3 * x[:, 1] + 0.2 * rng.normal(size=70)


def covariance(x, points, hyperparameters=HYPERPARAMETERS):
    scales = np.exp(hyperparameters.scales)
    difference = (x[:, None] - points[None]) / scales
    return np.exp(2 * hyperparameters.amplitude - 0.5 * np.sum(difference**2, axis=-1))


def test_marginal_likelihood_is_the_density_of_all_y_whatever_the_padding(data):
    x, y = data
    noise = np.exp(2 * HYPERPARAMETERS.noise) * np.eye(70)
    expected = multivariate_normal.logpdf(y, cov=covariance(x, x) + noise)
    with jax.enable_x64(True):
        for rows in (x, y[:, None]), gp._padded(x, y[:, None]):
            points, targets = map(jnp.asarray, rows)
            found = gp.log_marginal_likelihood(HYPERPARAMETERS, points, targets, 70)
            assert found == pytest.approx(expected, abs=1e-8)
    assert len(points) > 70


def test_predictions_are_the_conditional_gaussian(data):
    x, y = data
    model = GPRegressor(random_state=0).fit(x, y)
    own = Hyperparameters(*(leaf[0] for leaf in model.hyperparameters_))
    points = np.array([[0.0, 0.0], [3.0, -1.0], [-1.0, 1.5]])
    x_scaled = model.x_standardizer_.transform(x)
    scaled = model.x_standardizer_.transform(points)
    scale = y.std()
    noise = np.exp(2 * own.noise)
    across = covariance(scaled, x_scaled, own)
    gram = covariance(x_scaled, x_scaled, own) + noise * np.eye(70)
    mean = y.mean() + scale * across @ np.linalg.solve(gram, (y - y.mean()) / scale)
    reduction = np.einsum("ij,ji->i", across, np.linalg.solve(gram, across.T))
    deviation = scale * np.sqrt(np.exp(2 * own.amplitude) - reduction + noise)
    # tinygp adds the root of the rounding error, 1.5e-8, to every predictive variance.
    found = model.predict(points, return_std=True)
    np.testing.assert_allclose(found[0], mean, rtol=1e-7)
    np.testing.assert_allclose(found[1], deviation, rtol=1e-6)
    np.testing.assert_allclose(model.entropy(points), norm(mean, deviation).entropy(), rtol=1e-6)
    target = np.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(
        model.log_likelihood(points, target), norm.logpdf(target, mean, deviation), rtol=1e-6
    )


def test_hyperparameters_are_as_likely_as_those_of_scikit_learn(data):
    x, y = data
    model = GPRegressor(random_state=0).fit(x, y)
    x, y = model.x_, model.y_[:, 0]
    kernel = ConstantKernel(1.0) * RBF([1.0, 1.0]) + WhiteKernel(0.1)
    peer = GaussianProcessRegressor(kernel, n_restarts_optimizer=3, random_state=0).fit(x, y)
    with jax.enable_x64(True):
        own = Hyperparameters(*(jnp.asarray(leaf[0]) for leaf in model.hyperparameters_))
        found = gp.log_marginal_likelihood(own, jnp.asarray(x), jnp.asarray(y)[:, None], 70)
    assert float(found) > peer.log_marginal_likelihood_value_ - 1e-3


def test_each_output_by_itself(data, rng):
    x, y = data
    both = np.stack([y, 5.0 + rng.normal(size=70)], axis=1)
    joint = GPRegressor(random_state=0).fit(x, both)
    alone = [GPRegressor(random_state=0).fit(x, column) for column in both.T]
    mean, deviation = joint.predict(x[:9], return_std=True)
    for output, model in enumerate(alone):
        expected = model.predict(x[:9], return_std=True)
        np.testing.assert_allclose(mean[:, output], expected[0], rtol=1e-6)
        np.testing.assert_allclose(deviation[:, output], expected[1], rtol=1e-6)
    np.testing.assert_allclose(
        joint.entropy(x[:9]), sum(model.entropy(x[:9]) for model in alone), rtol=1e-6
    )


def test_outputs_that_share_their_hyperparameters(data, rng):
    x, y = data
    other = 5.0 + np.cos(2 * x[:, 0]) + 0.2 * rng.normal(size=70)
    both = np.stack([y, other], axis=1)
    model = GPRegressor(shared=True, random_state=0).fit(x, both)
    assert model.hyperparameters_.noise.shape == (1,)
    kernel = ConstantKernel(1.0) * RBF([1.0, 1.0]) + WhiteKernel(0.1)
    peer = GaussianProcessRegressor(kernel, n_restarts_optimizer=3, random_state=0)
    peer.fit(model.x_, model.y_)  # scikit-learn shares a kernel among outputs
    with jax.enable_x64(True):
        own = Hyperparameters(*(jnp.asarray(leaf[0]) for leaf in model.hyperparameters_))
        found = gp.log_marginal_likelihood(own, jnp.asarray(model.x_), jnp.asarray(model.y_), 70)
    assert float(found) > peer.log_marginal_likelihood_value_ - 1e-3
    mean, deviation = model.predict(x[:9], return_std=True)
    expected, scaled = peer.predict(model.x_[:9], return_std=True)
    np.testing.assert_allclose(mean, both.mean(axis=0) + both.std(axis=0) * expected, rtol=1e-2)
    np.testing.assert_allclose(deviation, both.std(axis=0) * scaled, rtol=1e-2)


def test_other_data_with_the_same_hyperparameters(data):
    x, y = data
    model = GPRegressor(random_state=0).fit(x[:40], y[:40])
    before, far = model.hyperparameters_, model.entropy(x[60:61])
    model.condition(x, y)
    assert model.hyperparameters_ is before
    assert model.entropy(x[60:61]) < far
    assert model.predict(x[:1]).shape == (1,)
    with pytest.raises(ValueError, match="features"):
        model.condition(x[:, :1], y)
    with pytest.raises(ValueError, match="y must have shape"):
        model.condition(x, np.stack([y, y], axis=1))
    with pytest.raises(ValueError, match="too large or too close together to standardise"):
        GPRegressor().fit(x, y * 1e300)


def test_hyperparameters_from_some_of_the_rows(data):
    x, y = data
    few = GPRegressor(hyperparameter_rows=30, random_state=0).fit(x, y)
    every = GPRegressor(random_state=0).fit(x, y)
    assert len(few.x_) == 70
    assert not np.allclose(few.hyperparameters_.noise, every.hyperparameters_.noise)
    with pytest.raises(ValueError, match="hyperparameter_rows must be an integer of at least 2"):
        GPRegressor(hyperparameter_rows=1).fit(x, y)


def test_bad_input_and_a_missing_library_are_said(data, monkeypatch):
    x, y = data
    with pytest.raises(ValueError, match="contains NaN"):
        GPRegressor().fit(np.where(x > 1.9, np.nan, x), y)
    monkeypatch.setitem(sys.modules, "tinygp", None)
    with pytest.raises(ImportError, match=r"twofold\[gp\]"):
        GPRegressor().fit(x, y)
