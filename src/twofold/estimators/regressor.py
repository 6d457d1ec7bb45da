"""``BNNLVRegressor``: the scikit-learn interface of the Bayesian neural network with latent inputs.

Validate, standardise, build, run, store; the mathematics lives in ``model``, ``inference`` and
``uncertainty``. Everything a user sees is in raw units.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from twofold.core import memory, persistence, sharding
from twofold.core.numerics import key_of
from twofold.estimators.fitting import fit_many
from twofold.estimators.plots import Plots
from twofold.estimators.storage import pack, unpack
from twofold.estimators.training import show_row_progress
from twofold.estimators.validation import check_errors, check_inputs, check_outputs
from twofold.inference.method import (
    Method,
    check_flag,
    check_integer,
    number,
    option_names,
    replace_options,
    resolve_method,
)
from twofold.model.spec import SampledPosterior
from twofold.uncertainty import predictive
from twofold.uncertainty.decomposition import Decomposition, Parts, by_variance, decompose_rows
from twofold.uncertainty.predictive import in_chunks, nest, rows_at_once
from twofold.uncertainty.quantiles import Levels, quantiles

PREDICTION_STREAM, SAMPLE_STREAM = 0, 1

_by_row = partial(sharding.by_rows, static=["model"])
_sample = _by_row(rows=["x", "rows"])(predictive.sample)
_log_density = _by_row(rows=["x", "y", "error"])(predictive.log_density)
_quantiles = _by_row(rows=["x"])(quantiles)


@_by_row(rows=["x"])
def _mean_and_deviation(model, nested, x):
    moments = predictive.moments(model, nested, x)
    return moments.mean.mean(axis=0).T, jnp.sqrt(by_variance(moments).parts.total).T


@_by_row(rows=["x"])
def _conditional_moments(model, nested, x):
    moments = predictive.moments(model, nested, x)
    return jnp.moveaxis(moments.mean, -1, 0), jnp.moveaxis(moments.variance, -1, 0)


class BNNLVRegressor(Plots, RegressorMixin, BaseEstimator):
    """Bayesian neural network with latent inputs: predicts, and splits its uncertainty in two.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int or "auto"
        Units of each hidden layer; ``()`` gives a linear model. "auto" is (20, 20), or, for methods
        that hold rows out, (20,) for small tables and (50, 50) for large ones.
    inference : method, name or mapping
        Inference method: ``Langevin()``, microcanonical Langevin chains (the default);
        ``Ensemble()``, the networks they start from, which takes seconds; ``Alpha()``, a mean field
        by α-divergence minimisation (the paper's); ``NUTS()`` or ``HMC()``, Hamiltonian chains, the
        slow reference. Each has its own options (``Alpha(alpha=0.5, epochs=1000)``); a name
        (``"alpha"``) selects their defaults, and a mapping (``{"method": "alpha", "alpha": 0.5}``)
        is for files. How to choose: ``docs/posteriors.md``.
    latent_dim : int or "auto"
        Number of latent inputs; 0 gives a plain Bayesian neural network. "auto" is 1, or, for
        methods that hold rows out, 0 or 1, whichever predicts these better.
    noise : "constant", "varying" or "auto"
        Whether the additive noise is the same everywhere, as in the paper, or an output of the
        network with a small share of outliers; "auto" chooses by the method.
    prior : "constant", "scaled" or "auto"
        Whether all weights have the same prior, as in the paper, or one that follows the network's
        width, with a scale for each layer and input that is learnt; "auto" as for ``noise``.
    weight_variance : float
        Prior variance λ of a weight.
    latent_variance : float or None
        Prior variance γ_z of a latent input (None: the number of input columns, as in the paper).
    activation : "relu", "tanh" or "auto"
        Activation function; "auto" as for ``noise``.
    n_weight_draws : int
        M, the number of weight draws of a prediction; for ensembles and chains, at most the number
        they have.
    n_latent_draws : int
        L, the number of latent draws per weight draw.
    dtype : "float32" or "float64"
    random_state : int, RandomState or None
    warm_start : bool
        Let ``fit`` continue the Langevin chains of an earlier fit of the same network.
    checkpoint : path or None
        File for the state of the run; if it exists, ``fit`` resumes from it, with bit-identical
        results.
    checkpoint_seconds : float
        Time between writes of that file.
    verbose : bool or "auto"
        Show a progress bar; "auto" shows it on a terminal.

    Attributes
    ----------
    posterior_ : weights and noise, in standardised units; ``posterior_.sample(key, num)``
    model_ : shapes and priors
    noise_std_ : standard deviation of the additive noise, in units of y (of varying noise: its
        reference level)
    energies_ : energy per datum after each epoch (for chains: −log density of each transition)
    convergence_ : summary of the trend of the energy (None for chains)
    integration_error_ : mean error of ``log p(y | x, W)`` in nats if the latent input was
        integrated out (else None)
    out_of_bag_ : expected log-density of a new row, in nats, estimated from held-out rows, its
        standard error, and the number of rows (None for methods that hold none out)
    comparison_ : gain over a linear model on these rows, with ``verdict`` and ``sentence``
    diagnostics_ : R-hat, effective sample size and divergences of chains (else None)
    """

    def __init__(
        self,
        hidden_layer_sizes: tuple[int, ...] | Literal["auto"] = "auto",
        *,
        inference: Method | str | Mapping[str, Any] = "langevin",
        latent_dim: int | Literal["auto"] = "auto",
        noise: Literal["auto", "constant", "varying"] = "auto",
        prior: Literal["auto", "constant", "scaled"] = "auto",
        activation: Literal["auto", "relu", "tanh"] = "auto",
        weight_variance: float = 1.0,
        latent_variance: float | None = None,
        n_weight_draws: int = 100,
        n_latent_draws: int = 100,
        dtype: Literal["float32", "float64"] = "float32",
        random_state: Any = None,
        warm_start: bool = False,
        checkpoint: Any = None,
        checkpoint_seconds: float = 30.0,
        verbose: bool | str = "auto",
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.inference = inference
        self.latent_dim = latent_dim
        self.noise = noise
        self.prior = prior
        self.activation = activation
        self.weight_variance = weight_variance
        self.latent_variance = latent_variance
        self.n_weight_draws = n_weight_draws
        self.n_latent_draws = n_latent_draws
        self.dtype = dtype
        self.random_state = random_state
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds
        self.verbose = verbose

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Settings by name; ``deep`` adds the method's options as ``inference__alpha``."""
        params = super().get_params(deep=False)
        # An invalid method is refused by ``fit``; until then it may be replaced.
        with suppress(ValueError):
            method = resolve_method(self.inference)
            names = option_names(method) if deep else []
            params |= {f"inference__{name}": getattr(method, name) for name in names}
        return params

    def set_params(self, **params: Any) -> "BNNLVRegressor":
        """Change settings; ``inference__alpha=0.5`` changes an option of the method."""
        prefix = "inference__"
        settings = {name: value for name, value in params.items() if not name.startswith(prefix)}
        options = {n.removeprefix(prefix): params[n] for n in params if n not in settings}
        super().set_params(**settings)
        if options:
            self.inference = replace_options(resolve_method(self.inference), options)
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "posterior_")

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, y_error: Any = None, groups: Any = None
    ) -> "BNNLVRegressor":
        """Fit to inputs ``[N, D]`` and outputs ``[N]`` or ``[N, O]``.

        ``sample_weight`` ``[N]`` multiplies the log-likelihood of each row: a row of weight 2
        counts twice, one of weight 0 is left out. Weights are not normalised. ``y_error``, with the
        shape of y, is the known standard deviation of each measurement, in units of y; predictions
        then exclude this error. Rows with the same entry in ``groups`` ``[N]`` (replicates,
        batches) are held out together.
        """
        fit_many(
            [self], [X], [y], sample_weight=[sample_weight], y_error=[y_error], groups=[groups]
        )
        return self

    def predict(
        self, X: Any, return_std: bool = False, quantiles: Sequence[float] | None = None
    ) -> Any:
        """Predictive mean, optionally with the total standard deviation.

        With ``quantiles``, such as ``[0.05, 0.5, 0.95]``, returns these quantiles of the predictive
        distribution instead, noise included, ``[N, Q]`` or ``[N, O, Q]``.
        """
        if quantiles is not None:
            if return_std:
                raise ValueError("give either quantiles or return_std=True, not both")
            return self._quantiles(X, quantiles)
        mean, deviation = self._by_row(_mean_and_deviation, self._standardised(X))
        mean = self._shaped(self.y_standardizer_.inverse(mean))
        if not return_std:
            return mean
        return mean, self._shaped(deviation * self.y_standardizer_.scale)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the central interval that contains y with probability ``coverage``."""
        tail = 0.5 * (1.0 - number("(0, 1)")("coverage", coverage))
        low, high = np.moveaxis(self._quantiles(X, [tail, 1.0 - tail]), -1, 0)
        return low, high

    def sample(self, X: Any, n_samples: int = 1, random_state: int | None = None) -> np.ndarray:
        """Draws from the predictive distribution, ``[n_samples, N]`` or ``[n_samples, N, O]``.

        The same call gives the same draws; a different ``random_state`` (an integer) gives
        different ones.
        """
        check_integer("n_samples", n_samples, 1)
        if random_state is not None:
            check_integer("random_state", random_state, 0)
        x = self._standardised(X)
        columns = x, np.arange(len(x))[:, None]
        streams = () if random_state is None else (random_state,)
        with self._work("sampling", len(x), n_samples, 1) as (posterior, limit, on_progress):
            weight_key, row_key = jax.random.split(key_of(self.seed_, SAMPLE_STREAM, *streams))
            shared = row_key, self.model_, posterior.sample(weight_key, n_samples)
            values = in_chunks(_sample, shared, columns, limit, self.dtype, on_progress)
        _warn_of_overflow(values, self.dtype, stacklevel=3)
        values = np.swapaxes(self.y_standardizer_.inverse(values), 0, 1)
        return values[..., 0] if self.y_ndim_ == 1 else values

    def log_likelihood(self, X: Any, y: Any, y_error: Any = None) -> np.ndarray:
        """``log p(y | x)`` ``[N]``, joint over outputs, raw units; ``y_error`` as for ``fit``."""
        x = self._standardised(X)
        targets = check_outputs(y, len(x), self.model_.outputs)
        error = np.zeros_like(targets)
        if y_error is not None:
            error = np.square(check_errors(y_error, np.asarray(y)) / self.y_standardizer_.scale)
        y = self.y_standardizer_.transform(targets)
        return self._by_row(_log_density, x, y, error) - np.log(self.y_standardizer_.scale).sum()

    def conditional_moments(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """``E[y|x,W]`` and ``Var[y|x,W]`` for each weight draw, ``[M, O, N]``, in raw units."""
        moments = self._by_row(_conditional_moments, self._standardised(X))
        scale, shift = self.y_standardizer_.scale[:, None], self.y_standardizer_.mean[:, None]
        mean, variance = (np.moveaxis(part, 0, -1) for part in moments)
        return mean * scale + shift, variance * np.square(scale)

    def decompose(
        self,
        X: Any,
        by: Literal["entropy", "variance"] = "entropy",
        *,
        joint: bool = False,
        estimator: Any = "auto",
    ) -> Decomposition:
        """Split the predictive uncertainty at each row: total, epistemic, aleatoric.

        By entropy (nats) or by variance (squared units of y), for each output; ``joint`` gives
        joint entropies of all outputs. ``estimator`` names an entropy estimator: "auto" is
        "quadrature" for one output and "mixture" for several jointly; "nearest_neighbour" (the
        paper's) uses draws of y only. A function like those in ``twofold.uncertainty.ESTIMATORS``
        is accepted too.
        """
        joint = check_flag("joint", joint)
        x, weights, latents = self._standardised(X), self.n_weight_draws, self.n_latent_draws
        with self._work("splitting", len(x), weights, latents) as (posterior, _, on_progress):
            key = key_of(self.seed_, PREDICTION_STREAM)
            options: Any = {"joint": joint, "estimator": estimator, "weights": weights}
            options |= {"latents": latents, "on_progress": on_progress}
            split = decompose_rows(key, self.model_, posterior, x, by, **options)
        _warn_of_doubts(split)
        return self._in_raw_units(split, joint)

    @property
    def noise_std_(self) -> np.ndarray:
        """Standard deviation of the additive noise ε of each output, in units of y."""
        log_noise = self.posterior_.log_noise[..., : self.model_.outputs].astype(np.float64)
        deviation = np.exp(0.5 * log_noise)
        return deviation.reshape(-1, self.model_.outputs).mean(axis=0) * self.y_standardizer_.scale

    def save(self, path: Any) -> None:
        """Write the fitted model to one file; ``twofold.load`` reads it back."""
        check_is_fitted(self)
        stored = pack(self)
        persistence.write(path, "model", stored.arrays, stored.metadata)

    def _in_raw_units(self, split: Decomposition, joint: bool) -> Decomposition:
        scale: Any = self.y_standardizer_.scale
        shift = np.log(scale).sum() if joint else np.log(scale)
        factor, shift = (np.square(scale), 0.0) if split.by == "variance" else (1.0, shift)
        shaped = (lambda part: part[:, 0]) if joint else self._shaped
        total, epistemic, aleatoric = (part * factor for part in split.parts)
        parts = Parts(*map(shaped, (total + shift, epistemic, aleatoric + shift)))
        errors = Parts(*(shaped(error * factor) for error in split.standard_errors))
        return replace(split, **parts._asdict(), standard_errors=errors)

    def _quantiles(self, X: Any, quantiles: Sequence[float]) -> np.ndarray:
        if np.ndim(quantiles) != 1 or not len(quantiles):
            raise ValueError(f"quantiles must be a list such as [0.05, 0.95], got {quantiles!r}")
        check = number("(0, 1)")
        levels = np.array([check("every entry of quantiles", level) for level in quantiles])
        shared = Levels.of(levels, self.dtype)
        standardised = self._by_row(_quantiles, self._standardised(X), shared=(shared,))
        values = np.moveaxis(self.y_standardizer_.inverse(np.moveaxis(standardised, 2, 0)), 0, 2)
        return self._shaped(values)

    def _by_row(self, function: Any, *columns: np.ndarray, shared: Sequence[Any] = ()) -> Any:
        """Apply ``function(model, nested draws, *shared, *rows)`` in chunks, to bound memory."""
        draws = self.n_weight_draws, self.n_latent_draws
        with self._work("predicting", len(columns[0]), *draws) as (posterior, limit, on_progress):
            key = key_of(self.seed_, PREDICTION_STREAM)
            given = self.model_, nest(key, self.model_, posterior, *draws), *shared
            result = in_chunks(function, given, columns, limit, self.dtype, on_progress)
        _warn_of_overflow(result, self.dtype, stacklevel=4)
        return result

    @contextmanager
    def _work(self, what: str, rows: int, weights: int, latents: int) -> Iterator[Any]:
        """Set precision and progress bar, and check memory; yields the posterior on the device, the
        number of rows per chunk, and a progress callback."""
        model, limit = self.model_, rows_at_once(self.model_, weights, latents)
        if isinstance(self.posterior_, SampledPosterior) and what != "sampling":
            weights = min(weights, len(self.posterior_.weights))
        numbers = weights * (model.num_weights + model.outputs + latents * model.latents)
        memory.refuse_beyond(
            np.dtype(self.dtype).itemsize * numbers,
            f"{weights:,} weight draws of {latents:,} latent draws each",
            "ask for fewer draws (n_weight_draws, n_latent_draws, n_samples)",
            surely=1.0,
        )
        progress = show_row_progress(self.verbose, what, rows, limit)
        with jax.enable_x64(self.dtype == "float64"), progress as on_progress:
            leaves = (jnp.asarray(leaf, self.dtype) for leaf in self.posterior_)
            yield type(self.posterior_)(*leaves), limit, on_progress

    def _standardised(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.x_standardizer_.transform(check_inputs(self, X))

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        return values[:, 0] if self.y_ndim_ == 1 else values


def _warn_of_overflow(predictions: Any, dtype: str, stacklevel: int) -> None:
    leaves = jax.tree.leaves(predictions)
    finite = [np.isfinite(part).reshape(len(part), -1).all(axis=1) for part in leaves]
    unknown = int((~np.logical_and.reduce(finite)).sum())
    if unknown:
        sentence = f"{unknown} of {len(finite[0])} rows have no finite prediction: they are too "
        sentence += f"far from the training data for dtype={dtype!r}"
        warnings.warn(sentence, RuntimeWarning, stacklevel=stacklevel)


def _warn_of_doubts(split: Decomposition) -> None:
    sentences = {
        "the entropies of {} points could not be computed (NaN): the noise there is thousands of "
        "times narrower than the range of the predictions; use by='variance' or "
        "estimator='mixture'": (~np.isfinite(split.total)),
        "the epistemic part of {} points is negative beyond its Monte Carlo error: there the "
        "entropy estimator's bias is larger than the epistemic part; use estimator='auto', or more "
        "n_latent_draws": split.doubtful,
    }
    for sentence, points in sentences.items():
        if points.any():
            warnings.warn(sentence.format(points.sum()), RuntimeWarning, stacklevel=3)


def load(path: Any) -> BNNLVRegressor:
    """Read a model that ``BNNLVRegressor.save`` wrote; it predicts exactly as before."""
    return persistence.load(path, "model", lambda stored: unpack(stored, BNNLVRegressor))
