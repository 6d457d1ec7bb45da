"""Fit many regressors in one compiled program: seeds, values of α and data sets side by side."""

import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from twofold import persistence
from twofold.data import Padded, Standardizer, pad, padded_size
from twofold.estimators import validation
from twofold.estimators.checkpoint import Checkpoint
from twofold.estimators.training import train
from twofold.inference import alpha
from twofold.inference.convergence import advice, convergence
from twofold.inference.meanfield import MeanFieldPosterior
from twofold.model.bnn import BNNLV

MIN_UPDATES = 60_000
MIN_EPOCHS = 100
Regressor = Any  # a BNNLVRegressor, whose module imports this one
OWN_SETTINGS = ("alpha", "random_state")
TRAINING_SETTINGS = (
    "latent_dim",
    "weight_variance",
    "latent_variance",
    "batch_size",
    "draws",
    "learning_rate",
    "learning_rate_decay",
    "dtype",
)


def fit_many(estimators: Sequence[Regressor], X: Any, y: Any) -> list[Regressor]:
    """Fit all estimators at once, each to its own data, in one compiled program.

    ``X`` and ``y`` are lists with one entry for each estimator. The estimators may differ in
    ``alpha`` and ``random_state`` only; all data sets need the same columns, not the same length.
    Progress and checkpoints follow the first estimator's settings. Returns the same estimators.
    """
    _check_members(estimators, X, y)
    first = estimators[0]
    data = [
        validation.check_training_data(e, a, b) for e, a, b in zip(estimators, X, y, strict=True)
    ]
    _check_columns(data)
    sizes = [len(x) for x, _ in data]
    batches = -(-max(sizes) // first.batch_size)
    epochs = first.epochs or max(MIN_EPOCHS, -(-MIN_UPDATES // batches))
    for estimator, (x, targets) in zip(estimators, data, strict=True):
        _prepare(estimator, x, targets)

    config = alpha.Config(first.model_, first.batch_size, first.draws)
    with jax.enable_x64(first.dtype == "float64"):
        keys = jnp.stack([estimator._key(2) for estimator in estimators])
        problems = alpha.Problem(
            _stack(estimators, data, padded_size(max(sizes)), first.dtype),
            jnp.asarray([e.alpha for e in estimators], first.dtype),
        )
        schedule = alpha.Schedule(
            jnp.int32(epochs),
            jnp.int32(batches),
            jnp.asarray(first.learning_rate, first.dtype),
            jnp.asarray(first.learning_rate_decay, first.dtype),
        )
        checkpoint = _checkpoint(estimators, epochs)
        outcome = train(
            alpha.build(config),
            keys,
            problems,
            schedule,
            epochs,
            batches,
            first.verbose,
            checkpoint,
        )
        fitted = jax.vmap(lambda state: alpha.posterior(config, state))(outcome.states)
        fitted = jax.tree.map(np.asarray, fitted)
    for index, estimator in enumerate(estimators):
        posterior = jax.tree.map(lambda leaf, i=index: leaf[i], fitted)
        _store(estimator, posterior, outcome.energies[:, index], epochs)
    _warn_if_steep(estimators)
    return list(estimators)


def _check_members(estimators: Sequence[Regressor], X: Any, y: Any) -> None:
    if not estimators or not len(estimators) == len(X) == len(y):
        raise ValueError(
            "estimators, X and y must be lists of the same positive length, got "
            f"{len(estimators)}, {len(X)} and {len(y)}"
        )
    for estimator in estimators:
        validation.check_settings(estimator)
    reference = estimators[0].get_params()
    for estimator in estimators[1:]:
        differing = [
            name
            for name, value in estimator.get_params().items()
            if name not in OWN_SETTINGS and value != reference[name]
        ]
        if differing:
            raise ValueError(
                f"estimators fitted together may differ in {' and '.join(OWN_SETTINGS)} only, "
                f"but these differ in {', '.join(differing)}; fit them one by one"
            )


def _check_columns(data: list[tuple[np.ndarray, np.ndarray]]) -> None:
    shapes = {(x.shape[1], y.shape[1:]) for x, y in data}
    if len(shapes) > 1:
        raise ValueError(
            "data sets fitted together need the same numbers of input and output columns, got "
            f"{sorted(shapes)}"
        )


def _prepare(estimator: Regressor, x: np.ndarray, y: np.ndarray) -> None:
    """Everything that is known before training."""
    random = check_random_state(estimator.random_state)
    estimator.seed_ = int(random.randint(np.iinfo(np.int32).max))
    estimator.y_ndim_ = y.ndim
    columns = y.reshape(len(y), -1)
    estimator.x_standardizer_ = Standardizer.fit(x)
    estimator.y_standardizer_ = Standardizer.fit(columns)
    estimator.fingerprint_ = persistence.fingerprint(x, columns)
    estimator.model_ = BNNLV(
        inputs=x.shape[1],
        outputs=columns.shape[1],
        hidden=tuple(int(units) for units in estimator.hidden_layer_sizes),
        latents=int(estimator.latent_dim),
        weight_variance=float(estimator.weight_variance),
        latent_variance=float(estimator.latent_variance or x.shape[1]),
    )


def _stack(
    estimators: Sequence[Regressor],
    data: list[tuple[np.ndarray, np.ndarray]],
    length: int,
    dtype: str,
) -> Padded:
    members = [
        pad(
            estimator.x_standardizer_.transform(x),
            estimator.y_standardizer_.transform(y.reshape(len(y), -1)),
            length,
            dtype,
        )
        for estimator, (x, y) in zip(estimators, data, strict=True)
    ]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)


def _checkpoint(estimators: Sequence[Regressor], epochs: int) -> Checkpoint | None:
    first = estimators[0]
    if first.checkpoint is None:
        return None
    settings = first.get_params()
    identity = {name: value for name, value in settings.items() if name in TRAINING_SETTINGS}
    identity["hidden_layer_sizes"] = list(first.model_.hidden)
    identity["epochs"] = epochs
    identity["alpha"] = [float(e.alpha) for e in estimators]
    identity["seed"] = [e.seed_ for e in estimators]
    identity["data"] = [e.fingerprint_ for e in estimators]
    return Checkpoint(first.checkpoint, first.checkpoint_seconds, identity)


def _store(
    estimator: Regressor, posterior: MeanFieldPosterior, energies: np.ndarray, epochs: int
) -> None:
    """Everything that training found out."""
    estimator.posterior_ = posterior
    estimator.energies_ = energies
    estimator.convergence_ = convergence(energies, epochs)


def _warn_if_steep(estimators: Sequence[Regressor]) -> None:
    found = {index: advice(e.convergence_) for index, e in enumerate(estimators)}
    steep = {index: sentence for index, sentence in found.items() if sentence is not None}
    if not steep:
        return
    index, sentence = next(iter(steep.items()))
    if len(estimators) > 1:
        sentence = f"{len(steep)} of {len(estimators)} fits, first of them {index}: {sentence}"
    warnings.warn(sentence, ConvergenceWarning, stacklevel=4)
