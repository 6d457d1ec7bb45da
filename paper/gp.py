"""A Gaussian process with an RBF kernel: homoscedastic noise, entropy in closed form.

    y ~ N(0, K + s² I),   k(x, x') = a² exp(−½ Σ_d (x_d − x'_d)² / ℓ_d²)

for each output, in standardised units; a, ℓ and s maximise the marginal likelihood, per output or
jointly. tinygp does the algebra (extra ``gp``): small, plain JAX, with ``vmap`` over outputs and
automatic gradients.

Programs are compiled for padded data. Padding rows are so far away that their covariance with all
others is exactly 0; their known contribution to the likelihood is subtracted.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from twofold.core.arrays import Array, Float, Int
from twofold.core.numerics import LOG_TWO_PI, Standardizer, padded_size
from twofold.estimators.validation import (
    check_inputs,
    check_outputs,
    check_training_data,
    refuse_huge,
)
from twofold.inference.method import check_integer

FAR = 1e6
BOUNDS = (-7.0, 7.0)
HYPERPARAMETER_ROWS = 2000


class Hyperparameters(NamedTuple):
    """Logarithms of a, of ℓ for each input, and of s."""

    amplitude: Float[Array, ""]
    scales: Float[Array, "D"]
    noise: Float[Array, ""]


def process(hyperparameters: Hyperparameters, x: Float[Array, "N D"]) -> Any:
    """The tinygp process at some inputs."""
    tinygp = _tinygp()
    shape = tinygp.kernels.ExpSquared()
    kernel = tinygp.transforms.Linear(jnp.exp(-hyperparameters.scales), shape)
    variance = jnp.exp(2.0 * hyperparameters.amplitude)
    return tinygp.GaussianProcess(variance * kernel, x, diag=jnp.exp(2.0 * hyperparameters.noise))


def log_marginal_likelihood(
    hyperparameters: Hyperparameters,
    x: Float[Array, "N D"],
    y: Float[Array, "N S"],
    size: Int[Array, ""],
) -> Float[Array, ""]:
    """``log p(y | X)`` of the first ``size`` rows; the others are padding, with y = 0.

    Outputs that share hyperparameters are independent given them, so their terms add up.
    """
    amplitude, noise = hyperparameters.amplitude, hyperparameters.noise
    log_variance = jnp.logaddexp(2.0 * amplitude, 2.0 * noise)
    padding = -0.5 * (x.shape[0] - size) * (LOG_TWO_PI + log_variance)
    of_output = jax.vmap(process(hyperparameters, x).log_probability, in_axes=1)
    return jnp.sum(of_output(y) - padding)


@jax.jit
def _negative(
    point: Float[Array, "P"], x: Float[Array, "N D"], y: Float[Array, "N S"], size: Int[Array, ""]
) -> tuple[Float[Array, ""], Float[Array, "P"]]:
    """The objective per datum, and its gradient, in a flat vector of hyperparameters."""

    def value(point):
        return -log_marginal_likelihood(_unpacked(point), x, y, size) / size

    return jax.value_and_grad(value)(point)


def _unpacked(point: Float[Array, "P"]) -> Hyperparameters:
    return Hyperparameters(point[0], point[1:-1], point[-1])


def maximise(x: Float[Array, "N D"], y: Float[Array, "N S"], size: int) -> Hyperparameters:
    """Maximum-likelihood hyperparameters shared by the outputs, by L-BFGS-B from a = ℓ = 1 and s =
    0.3."""
    start = np.log([1.0, *np.ones(x.shape[1]), 0.3])
    optimum: Any = minimize(
        lambda point: jax.device_get(_negative(point, x, y, size)),
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[BOUNDS] * len(start),
    )
    if not np.isfinite(optimum.fun):
        raise ArithmeticError(
            "the marginal likelihood is not finite; look for extreme or repeated inputs"
        )
    return _unpacked(optimum.x)


@jax.jit
def predictive(
    hyperparameters: Hyperparameters,
    x: Float[Array, "N D"],
    y: Float[Array, "N G S"],
    points: Float[Array, "B D"],
) -> tuple[Float[Array, "B G S"], Float[Array, "B G S"]]:
    """Mean and variance of a new y at each point, noise included.

    Each of G groups has its own hyperparameters, shared by its S outputs.
    """

    def of_group(fitted: Hyperparameters, targets: Array) -> tuple[Array, Array]:
        known = process(fitted, x)

        def of_output(column: Array) -> tuple[Array, Array]:
            mean, variance = known.predict(column, points, return_var=True)
            return mean, variance + jnp.exp(2.0 * fitted.noise)

        return jax.vmap(of_output, in_axes=1, out_axes=1)(targets)

    return jax.vmap(of_group, in_axes=(0, 1), out_axes=1)(hyperparameters, y)


class GPRegressor(RegressorMixin, BaseEstimator):
    """Gaussian-process regression.

    Parameters
    ----------
    shared : bool
        One set of hyperparameters, noise included, for all outputs (in standardised units), as in
        GPy and the paper; otherwise each output has its own. With its own, an output that is almost
        noise-free at the data gets almost no noise, and jumps elsewhere have a very low likelihood.
    hyperparameter_rows : int
        The marginal likelihood is maximised over this many rows at most, chosen at random;
        predictions use all of them.
    random_state : int, RandomState or None
    """

    def __init__(
        self,
        *,
        shared: bool = False,
        hyperparameter_rows: int = HYPERPARAMETER_ROWS,
        random_state: Any = None,
    ):
        self.shared = shared
        self.hyperparameter_rows = hyperparameter_rows
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> "GPRegressor":
        """Find the hyperparameters for inputs ``[N, D]`` and outputs ``[N]`` or ``[N, O]``."""
        _tinygp()
        check_integer("hyperparameter_rows", self.hyperparameter_rows, 2)
        x, y = check_training_data(self, X, y)
        rng = check_random_state(self.random_state)
        few = rng.permutation(len(x))[: self.hyperparameter_rows]
        standardizers = Standardizer.fit(x), Standardizer.fit(y.reshape(len(y), -1))
        for name, standardizer in zip("Xy", standardizers, strict=True):
            refuse_huge(name, standardizer.scale)
        with jax.enable_x64(True):
            columns = y.reshape(len(y), -1)
            scaled = [
                s.transform(rows) for s, rows in zip(standardizers, (x, columns), strict=True)
            ]
            points, targets = _padded(scaled[0][few], scaled[1][few])
            groups = self._grouped(targets)
            fitted = [maximise(points, groups[:, g], len(few)) for g in range(groups.shape[1])]
        self.y_ndim_ = y.ndim
        self.x_standardizer_, self.y_standardizer_ = standardizers
        self.hyperparameters_ = jax.tree.map(lambda *leaves: np.stack(leaves), *fitted)
        self.x_, self.y_ = scaled
        return self

    def condition(self, X: Any, y: Any) -> "GPRegressor":
        """Condition on other data, with the same hyperparameters and units."""
        check_is_fitted(self)
        x = check_inputs(self, X)
        y = check_outputs(y, len(x), self.y_.shape[1])
        self.x_, self.y_ = self.x_standardizer_.transform(x), self.y_standardizer_.transform(y)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictive mean, optionally with the standard deviation."""
        mean, variance = self._moments(X)
        mean = self._shaped(mean)
        return (mean, self._shaped(np.sqrt(variance))) if return_std else mean

    def log_likelihood(self, X: Any, y: Any) -> np.ndarray:
        """``log p(y | x)`` of each row, in raw units, summed over outputs."""
        mean, variance = self._moments(X)
        y = check_outputs(y, len(mean), mean.shape[1])
        terms = LOG_TWO_PI + np.log(variance) + np.square(y - mean) / variance
        return -0.5 * terms.sum(axis=1)

    def entropy(self, X: Any) -> np.ndarray:
        """``H(y | x)`` in nats: ``½ log(2πe σ²)``, summed over outputs."""
        _, variance = self._moments(X)
        return 0.5 * (1.0 + LOG_TWO_PI + np.log(variance)).sum(axis=1)

    def _moments(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        points = self.x_standardizer_.transform(check_inputs(self, X))
        with jax.enable_x64(True):
            hyperparameters = Hyperparameters(*map(jnp.asarray, self.hyperparameters_))
            x, y = _padded(self.x_, self.y_)
            moments = predictive(hyperparameters, x, self._grouped(y), jnp.asarray(points))
            mean, variance = (np.asarray(part).reshape(len(points), -1) for part in moments)
        scale = self.y_standardizer_.scale
        return self.y_standardizer_.inverse(mean), variance * np.square(scale)

    def _grouped(self, y: Array) -> Float[Array, "N G S"]:
        return y[:, None, :] if self.shared else y[:, :, None]

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        return values[:, 0] if self.y_ndim_ == 1 else values


def _padded(x: np.ndarray, y: np.ndarray) -> tuple[Array, Array]:
    """Pad rows to one of a few sizes; padding rows are far from all others and from each other."""
    missing = padded_size(len(x)) - len(x)
    far = FAR * (1.0 + np.arange(missing))[:, None] * np.ones(x.shape[1])
    zeros = np.zeros((missing, y.shape[1]))
    return jnp.asarray(np.concatenate([x, far])), jnp.asarray(np.concatenate([y, zeros]))


def _tinygp() -> Any:
    try:
        import tinygp
    except ImportError as error:
        raise ImportError(
            "Gaussian processes need tinygp, which is not installed; pip install 'twofold[gp]'"
        ) from error
    return tinygp
