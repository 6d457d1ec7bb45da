"""Fit many regressors in one compiled program: seeds, values of α and data sets side by side."""

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from twofold.core import persistence
from twofold.core.data import Padded, Standardizer, pad, padded_size
from twofold.estimators import memory, validation
from twofold.estimators.storage import plain_settings
from twofold.estimators.training import Checkpoint, NonFiniteEnergyError, Plan, train
from twofold.inference.method import Convergence, Result, Setup, check_integer, convergence_advice
from twofold.inference.registry import resolve_method, to_mapping
from twofold.model.density import integration_error, nodes_for
from twofold.model.spec import BNNLV
from twofold.uncertainty import chains
from twofold.uncertainty.chains import Diagnostics

TRAINING_STREAM = 2
DIAGNOSED_ROWS = 50
INTEGRATED_ROWS, INTEGRATED_DRAWS = 64, 16
GOOD_INTEGRATION_ERROR = 0.1
Regressor = Any  # a BNNLVRegressor, whose module imports this one
# Settings that do not decide how a model is trained.
NOT_TRAINING = (
    "inference",
    "n_weight_draws",
    "n_latent_draws",
    "random_state",
    "checkpoint",
    "checkpoint_seconds",
    "verbose",
)


class About(NamedTuple):
    """What one member keeps of its data."""

    x_standardizer: Standardizer
    y_standardizer: Standardizer
    y_ndim: int
    seed: int
    fingerprint: str
    model: BNNLV


class Prepared(NamedTuple):
    """One member before training: standardised data and all that goes with it."""

    x: np.ndarray
    y: np.ndarray
    about: About


class Fitted(NamedTuple):
    """What one estimator keeps of a run, and what it should be warned of."""

    posterior: Any
    convergence: Convergence | None
    diagnostics: Diagnostics | None
    integration_error: float | None
    latents: int

    @property
    def advice(self) -> str | None:
        """A sentence where the result is not to be trusted yet."""
        worries = []
        if self.diagnostics is not None:
            worries.append(chains.advice(self.diagnostics))
        if self.convergence is not None:
            worries.append(convergence_advice(self.convergence))
        worries.append(self._integration_advice())
        return "; ".join(filter(None, worries)) or None

    def _integration_advice(self) -> str | None:
        if self.integration_error is None or self.integration_error < GOOD_INTEGRATION_ERROR:
            return None
        noise = float(np.exp(0.5 * np.mean(self.posterior.log_noise)))
        return (
            f"the latent input is integrated out with an error of {self.integration_error:.2f} "
            f"nats per datum, because the noise is narrow ({noise:.3f} deviations of y); use "
            f"nodes={nodes_for(noise, self.latents)}"
        )


def fit_many(
    estimators: Sequence[Regressor], X: Any, y: Any, *, capacity: int | None = None
) -> list[Regressor]:
    """Fit all estimators at once, each to its own data, in one compiled program.

    ``X`` and ``y`` are lists with one entry for each estimator. The estimators may differ in
    ``alpha`` and ``random_state`` only; all data sets need the same columns, not the same length.
    Without ``epochs`` the smallest data set decides the length. With ``capacity``, the number of
    rows that the data will grow to, later fits use the program that this one compiles. Returns the
    same estimators.
    """
    _check_members(estimators, X, y)
    members = [_prepare(e, a, b) for e, a, b in zip(estimators, X, y, strict=True)]
    _check_columns(members)
    first, dtype = estimators[0], estimators[0].dtype
    methods = [resolve_method(estimator.inference) for estimator in estimators]
    method = methods[0]
    abouts = [member.about for member in members]
    sizes = np.array([len(member.x) for member in members])
    if capacity is not None:
        check_integer("capacity", capacity, int(sizes.max()))
    room = padded_size(capacity or int(sizes.max()))
    memory.check_fit(estimators, abouts[0].model, capacity or int(sizes.max()))
    with jax.enable_x64(dtype == "float64"):
        setup = method.set_up(abouts[0].model, sizes, dtype)
        checkpoint = checkpoint_of(estimators, abouts, setup)
        data = _stack(members, room, dtype)
        outcome = train(
            setup.algorithm,
            keys_of(abouts, method.runs),
            method.problems(methods, data),
            setup.schedule,
            Plan(
                setup.epochs,
                np.repeat(setup.batches, method.runs),
                setup.unit,
                first.verbose,
                checkpoint,
            ),
            method.runs,
        )
        # Cut up on the host: thousands of small slices on a device take longer than its fits.
        every = jax.device_get(outcome.states)
        for i, (estimator, about) in enumerate(zip(estimators, abouts, strict=True)):
            own = slice(i * method.runs, (i + 1) * method.runs)
            states = jax.tree.map(lambda leaf, own=own: jnp.asarray(leaf[own]), every)
            energies = outcome.energies[:, own]
            result = method.finish(setup.config, states, energies, setup.epochs)
            own_data = jax.tree.map(lambda leaf, i=i: leaf[i], data)
            store(estimator, about, judge(about.model, result, own_data), energies.mean(axis=1))
    warn(estimators)
    return list(estimators)


def key_of(seed: int, *streams: int) -> jax.Array:
    """The random key of one use of a seed; Threefry whatever JAX's default is."""
    key = jax.random.key(seed, impl="threefry2x32")
    for stream in streams:
        key = jax.random.fold_in(key, stream)
    return key


def keys_of(abouts: Sequence[About], runs: int) -> jax.Array:
    """One key for each run; the runs of one member differ."""
    own = jnp.stack([key_of(about.seed, TRAINING_STREAM) for about in abouts])
    if runs == 1:
        return own
    of_runs = jax.vmap(jax.random.fold_in, in_axes=(None, 0))
    return jax.vmap(of_runs, in_axes=(0, None))(own, jnp.arange(runs)).reshape(-1)


def _check_members(estimators: Sequence[Regressor], X: Any, y: Any) -> None:
    if not estimators or not len(estimators) == len(X) == len(y):
        raise ValueError(
            "estimators, X and y must be lists of the same positive length, got "
            f"{len(estimators)}, {len(X)} and {len(y)}"
        )
    if len({id(estimator) for estimator in estimators}) < len(estimators):
        raise ValueError("each estimator may stand in the list once only; use sklearn.base.clone")
    for estimator in estimators:
        validation.check_settings(estimator)
    reference = _settings_to_compare(estimators[0])
    free = {"random_state", *resolve_method(estimators[0].inference).differing}
    for estimator in estimators[1:]:
        settings = _settings_to_compare(estimator)
        differing = [
            name
            for name in {**reference, **settings}
            if name not in free and settings.get(name) != reference.get(name)
        ]
        if differing:
            raise ValueError(
                f"estimators fitted together may differ in {' and '.join(sorted(free))} only, but "
                f"these differ in {', '.join(differing)}; fit them one by one"
            )


def _settings_to_compare(estimator: Regressor) -> dict[str, Any]:
    """Settings of the estimator and options of its method by their names."""
    settings = estimator.get_params(deep=False)
    return settings | {"inference": None} | to_mapping(estimator.inference)


def _check_columns(members: Sequence[Prepared]) -> None:
    shapes = {(member.x.shape[1], member.y.shape[1]) for member in members}
    if len(shapes) > 1:
        raise ValueError(
            "data sets fitted together need the same numbers of input and output columns, got "
            f"{sorted(shapes)}; fit them one by one"
        )


def _prepare(estimator: Regressor, X: Any, y: Any) -> Prepared:
    """Validate and standardise; changes nothing that a fitted estimator predicts with."""
    x, targets = validation.check_training_data(estimator, X, y)
    columns = targets.reshape(len(targets), -1)
    standardizers = Standardizer.fit(x), Standardizer.fit(columns)
    fingerprint = persistence.fingerprint(x, columns)
    about = about_data(estimator, standardizers, targets.ndim, fingerprint)
    return Prepared(standardizers[0].transform(x), standardizers[1].transform(columns), about)


def about_data(
    estimator: Regressor,
    standardizers: tuple[Standardizer, Standardizer],
    y_ndim: int,
    fingerprint: str,
) -> About:
    """Model and seed of an estimator for data of which this is known."""
    for name, standardizer in zip("Xy", standardizers, strict=True):
        validation.refuse_huge(name, standardizer.scale)
    inputs, outputs = (len(standardizer.mean) for standardizer in standardizers)
    model = BNNLV(
        inputs=inputs,
        outputs=outputs,
        hidden=tuple(int(units) for units in estimator.hidden_layer_sizes),
        latents=int(estimator.latent_dim),
        weight_variance=float(estimator.weight_variance),
        latent_variance=float(estimator.latent_variance or inputs),
    )
    seed = check_random_state(estimator.random_state).randint(np.iinfo(np.int32).max)
    return About(*standardizers, y_ndim, int(seed), fingerprint, model)


def _stack(members: Sequence[Prepared], length: int, dtype: str) -> Padded:
    padded = [pad(member.x, member.y, length, dtype) for member in members]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *padded)


def checkpoint_of(
    estimators: Sequence[Regressor], abouts: Sequence[About], setup: Setup
) -> Checkpoint | None:
    """Where the state of a run is kept, and by what it is known again."""
    first = estimators[0]
    if first.checkpoint is None:
        return None
    settings = plain_settings(first, abouts[0].seed)
    identity = {name: value for name, value in settings.items() if name not in NOT_TRAINING}
    identity |= to_mapping(first.inference)
    for name in resolve_method(first.inference).differing:
        identity[name] = [getattr(resolve_method(e.inference), name) for e in estimators]
    identity["epochs"] = int(setup.epochs)
    identity["seed"] = [about.seed for about in abouts]
    identity["data"] = [about.fingerprint for about in abouts]
    return Checkpoint(first.checkpoint, first.checkpoint_seconds, identity)


def judge(model: BNNLV, result: Result, data: Padded) -> Fitted:
    """What a fit is worth, by the data it was fitted to."""
    _refuse_lost(result)
    rows, diagnostics, error = int(data.size), None, None
    if result.chains is not None:
        places = np.linspace(0, rows - 1, DIAGNOSED_ROWS).astype(int)
        order = np.argsort(data.x[:rows, 0])
        weights, log_noise, divergences = result.chains
        trace = chains.predictive_trace(model, weights, log_noise, data.x[order[places]])
        diagnostics = chains.diagnose(trace, int(divergences.sum()))
    if result.nodes and model.latents:
        # Always as many, lest every new datum have a program compiled.
        some = np.linspace(0, rows - 1, INTEGRATED_ROWS).astype(int)
        found = _integration_error(
            model, result.posterior, data.x[some], data.y[some], result.nodes
        )
        error = float(found)
    return Fitted(result.posterior, result.convergence, diagnostics, error, model.latents)


@partial(jax.jit, static_argnames=("model", "nodes"))
def _integration_error(
    model: BNNLV, posterior: Any, x: jax.Array, y: jax.Array, nodes: int
) -> jax.Array:
    draws = posterior.sample(jax.random.key(0), INTEGRATED_DRAWS)
    return integration_error(model, draws.weights, draws.log_noise, x, y, nodes)


def _refuse_lost(result: Result) -> None:
    """The last step may lead out of all numbers, and no energy after it says so."""
    if not all(np.isfinite(leaf).all() for leaf in result.posterior):
        raise NonFiniteEnergyError(
            "the weights are no longer finite; lower learning_rate, use dtype='float64', or look "
            "for extreme values in the data"
        )


def store(estimator: Regressor, about: About, fitted: Fitted, energies: np.ndarray) -> None:
    """All fitted attributes at once, so that a failed fit leaves an earlier one whole."""
    estimator.seed_ = about.seed
    estimator.y_ndim_ = about.y_ndim
    estimator.x_standardizer_ = about.x_standardizer
    estimator.y_standardizer_ = about.y_standardizer
    estimator.fingerprint_ = about.fingerprint
    estimator.model_ = about.model
    estimator.posterior_ = fitted.posterior
    estimator.energies_ = energies
    estimator.convergence_ = fitted.convergence
    estimator.diagnostics_ = fitted.diagnostics
    estimator.integration_error_ = fitted.integration_error


def warn(estimators: Sequence[Regressor]) -> None:
    """Say of which fits the result is not to be trusted yet."""
    found = [
        Fitted(
            e.posterior_, e.convergence_, e.diagnostics_, e.integration_error_, e.model_.latents
        ).advice
        for e in estimators
    ]
    worries = {index: sentence for index, sentence in enumerate(found) if sentence is not None}
    if not worries:
        return
    index, sentence = next(iter(worries.items()))
    if len(estimators) > 1:
        sentence = f"{len(worries)} of {len(estimators)} fits, first of them {index}: {sentence}"
    warnings.warn(sentence, ConvergenceWarning, stacklevel=4)
