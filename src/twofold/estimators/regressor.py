"""``BNNLVRegressor``: the scikit-learn face of the Bayesian neural network with latent inputs.

Validate, standardise, build, run, store; the mathematics lives in ``model``, ``inference`` and
``uncertainty``. Everything a user sees is in raw units.
"""

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from twofold import persistence
from twofold.estimators import storage, validation
from twofold.estimators.fitting import fit_many, key_of
from twofold.inference.meanfield import MeanFieldPosterior
from twofold.uncertainty import decomposition, predictive, quadrature
from twofold.uncertainty.decomposition import Decomposition

CHUNK_VALUES = 2**27
PREDICTION_STREAM, SAMPLE_STREAM = 0, 1

_moments = jax.jit(predictive.moments, static_argnames="model")
_log_density = jax.jit(predictive.log_density, static_argnames="model")
_entropies = jax.jit(quadrature.entropies, static_argnames=("model", "points"))
_sharpness = jax.jit(quadrature.sharpness, static_argnames="model")
_nest = jax.jit(predictive.nest, static_argnames=("model", "weights", "latents"))
_sample = jax.jit(predictive.sample, static_argnames=("model", "num"))


class BNNLVRegressor(RegressorMixin, BaseEstimator):
    """Bayesian neural network with latent inputs, fitted by α-divergence minimisation.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of each hidden layer (ReLU); ``()`` gives a linear model.
    alpha : float in (0, 1]
        The divergence: 1 is the paper's choice, 1e-6 is variational Bayes.
    latent_dim : int
        Number of latent inputs; 0 gives a plain Bayesian neural network.
    weight_variance, latent_variance : float
        Prior variances λ and γ_z (None: the number of input columns, as in the paper).
    epochs : int or None
        Passes over the data; None gives at least 60,000 updates and 100 passes.
    batch_size, draws : int
        Size of a minibatch, and number K of joint draws of weights and latents per update.
    learning_rate, learning_rate_decay : float, bool
        Adam's rate, and whether it falls to zero along half a cosine.
    n_weight_draws, n_latent_draws : int
        M and L, the nested draws behind every prediction.
    dtype : "float32" or "float64"
    random_state : int, RandomState or None
    checkpoint : path or None
        File that holds the state of the run; a fit that finds it continues from there, exactly.
    checkpoint_seconds : float
        Time between two writes of that file.
    verbose : bool or "auto"
        Show a progress bar; "auto" shows it on a terminal.

    Attributes
    ----------
    posterior_ : the fitted q(W) and noise, in standardised units; ``posterior_.sample(key, num)``
    model_ : shapes and priors
    noise_std_ : standard deviation of the additive noise, in units of y
    energies_ : energy per datum after each epoch
    convergence_ : report on the trend of the energy
    """

    def __init__(
        self,
        hidden_layer_sizes: tuple[int, ...] = (20, 20),
        *,
        alpha: float = 1.0,
        latent_dim: int = 1,
        weight_variance: float = 1.0,
        latent_variance: float | None = None,
        epochs: int | None = None,
        batch_size: int = 75,
        draws: int = 50,
        learning_rate: float = 5e-3,
        learning_rate_decay: bool = True,
        n_weight_draws: int = 100,
        n_latent_draws: int = 100,
        dtype: Literal["float32", "float64"] = "float32",
        random_state: Any = None,
        checkpoint: Any = None,
        checkpoint_seconds: float = 30.0,
        verbose: bool | str = "auto",
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.alpha = alpha
        self.latent_dim = latent_dim
        self.weight_variance = weight_variance
        self.latent_variance = latent_variance
        self.epochs = epochs
        self.batch_size = batch_size
        self.draws = draws
        self.learning_rate = learning_rate
        self.learning_rate_decay = learning_rate_decay
        self.n_weight_draws = n_weight_draws
        self.n_latent_draws = n_latent_draws
        self.dtype = dtype
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "posterior_")

    def fit(self, X: Any, y: Any) -> "BNNLVRegressor":
        """Fit to inputs ``[N, D]`` and outputs ``[N]`` or ``[N, O]``."""
        fit_many([self], [X], [y])
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictive mean, and the total standard deviation where asked for."""
        mean, deviation = self._by_point(X, self._mean_and_deviation)
        mean = self._shaped(self.y_standardizer_.inverse(mean))
        if not return_std:
            return mean
        return mean, self._shaped(deviation * self.y_standardizer_.scale)

    def sample(self, X: Any, n_samples: int = 1, random_state: int | None = None) -> np.ndarray:
        """Draws from the predictive distribution, ``[n_samples, N]`` or ``[n_samples, N, O]``.

        The same call gives the same draws; another ``random_state`` (an integer) gives others.
        """
        validation.check_integer("n_samples", n_samples, 1)
        if random_state is not None:
            validation.check_integer("random_state", random_state, 0)
        check_is_fitted(self)
        x = self._standardised(X)
        with jax.enable_x64(self.dtype == "float64"):
            streams = () if random_state is None else (random_state,)
            key = key_of(self.seed_, SAMPLE_STREAM, *streams)
            values = _sample(key, self.model_, self._posterior(), n_samples, self._array(x))
        values = self.y_standardizer_.inverse(np.asarray(values, np.float64))
        return values[..., 0] if self.y_ndim_ == 1 else values

    def log_likelihood(self, X: Any, y: Any) -> np.ndarray:
        """``log p(y | x)`` of each row, in raw units (joint over outputs), ``[N]``."""
        check_is_fitted(self)
        x = self._standardised(X)
        y = validation.check_outputs(y, len(x), self.model_.outputs)
        y = self.y_standardizer_.transform(y)
        (density,) = self._chunked(
            lambda nested, x, y: (_log_density(self.model_, nested, x, y),), x, y
        )
        return density - np.log(self.y_standardizer_.scale).sum()

    def decompose(self, X: Any, by: Literal["entropy", "variance"] = "entropy") -> Decomposition:
        """Split the predictive uncertainty at each row: total, epistemic, aleatoric.

        By entropy (nats, one output) or by variance (squared units of y, each output).
        """
        if by == "variance":
            parts = self._by_point(X, self._variance_split)
            scale = np.square(self.y_standardizer_.scale)
            return Decomposition(*(self._shaped(part * scale) for part in parts))
        if by != "entropy":
            raise ValueError(f"by must be 'entropy' or 'variance', got {by!r}")
        check_is_fitted(self)
        if self.model_.outputs > 1:
            raise NotImplementedError(
                "the split by entropy needs a single output for now; use by='variance', or fit "
                "one model for each output"
            )
        total, aleatoric = self._by_point(X, self._entropies)
        shift = np.log(self.y_standardizer_.scale[0])
        entropies = quadrature.Entropies(total + shift, aleatoric + shift)
        return decomposition.by_entropy(entropies)

    @property
    def noise_std_(self) -> np.ndarray:
        """Standard deviation of the additive noise ε of each output, in units of y."""
        deviation = np.exp(0.5 * self.posterior_.log_noise.astype(np.float64))
        return deviation * self.y_standardizer_.scale

    def save(self, path: Any) -> None:
        """Write the fitted model to one file; ``twofold.load`` reads it back."""
        check_is_fitted(self)
        stored = storage.pack(self)
        persistence.write(path, "model", stored.arrays, stored.metadata)

    def _mean_and_deviation(self, nested: predictive.Nested, x: jax.Array) -> tuple:
        moments = _moments(self.model_, nested, x)
        split = decomposition.by_variance(moments)
        return moments.mean.mean(axis=0).T, jnp.sqrt(split.total).T

    def _variance_split(self, nested: predictive.Nested, x: jax.Array) -> tuple:
        split = decomposition.by_variance(_moments(self.model_, nested, x))
        return tuple(part.T for part in split)

    def _entropies(self, nested: predictive.Nested, x: jax.Array) -> quadrature.Entropies:
        points = quadrature.grid_points(float(_sharpness(self.model_, nested, x)))
        return _entropies(self.model_, nested, x, points)

    def _by_point(self, X: Any, function: Callable) -> tuple[np.ndarray, ...]:
        check_is_fitted(self)
        return self._chunked(function, self._standardised(X))

    def _chunked(self, function: Callable, *columns: np.ndarray) -> tuple[np.ndarray, ...]:
        """Apply to equal chunks of rows (the last one padded), so that memory stays bounded."""
        rows = len(columns[0])
        values_per_row = self.n_weight_draws * self.n_latent_draws * max(self.model_.sizes)
        limit = max(1, CHUNK_VALUES // values_per_row)
        size = min(limit, 2 ** max(0, rows - 1).bit_length())
        parts = []
        with jax.enable_x64(self.dtype == "float64"):
            nested = self._nested()
            for start in range(0, rows, size):
                chunk = [column[start : start + size] for column in columns]
                missing = size - len(chunk[0])
                padded = [self._array(np.pad(c, ((0, missing), (0, 0)), "edge")) for c in chunk]
                values = function(nested, *padded)
                parts.append([np.asarray(v, np.float64)[: size - missing] for v in values])
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))

    def _nested(self) -> predictive.Nested:
        key = key_of(self.seed_, PREDICTION_STREAM)
        return _nest(key, self.model_, self._posterior(), self.n_weight_draws, self.n_latent_draws)

    def _posterior(self) -> MeanFieldPosterior:
        return MeanFieldPosterior(*map(self._array, self.posterior_))

    def _array(self, values: np.ndarray) -> jax.Array:
        return jnp.asarray(values, self.dtype)

    def _standardised(self, X: Any) -> np.ndarray:
        return self.x_standardizer_.transform(validation.check_inputs(self, X))

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        return values[:, 0] if self.y_ndim_ == 1 else values


def load(path: Any) -> BNNLVRegressor:
    """Read a model that ``BNNLVRegressor.save`` wrote; it predicts exactly as before."""
    return storage.unpack(persistence.read(path, "model"), BNNLVRegressor)
