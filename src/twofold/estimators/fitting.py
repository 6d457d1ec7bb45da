"""Fit many regressors in one compiled program: seeds, values of α and data sets side by side."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from twofold.core import memory, persistence
from twofold.core.numerics import Padded, Standardizer, key_of, pad, padded_size
from twofold.estimators.storage import About, judge, plain_settings, store, warn
from twofold.estimators.training import Checkpoint, Plan, train
from twofold.inference.loop import Setup
from twofold.inference.method import (
    check_integer,
    check_positive,
    option_names,
    resolve_method,
    to_mapping,
)
from twofold.model.spec import BNNLV

TRAINING_STREAM = 2
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


class Prepared(NamedTuple):
    """One member before training: standardised data and all that goes with it."""

    x: np.ndarray
    y: np.ndarray
    about: About


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
    check_memory(estimators, abouts[0].model, capacity or int(sizes.max()))
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


def check_memory(estimators: Sequence[Regressor], model: BNNLV, rows: int) -> None:
    """Refuse a fit to so many rows by the arrays that it cannot do without, before they are made;
    its compiled programs are checked before they run."""
    first, method = estimators[0], resolve_method(estimators[0].inference)
    options = {name: getattr(method, name) for name in option_names(method)}
    room = padded_size(rows)
    numbers = room * (model.inputs + model.outputs) + method.weight_sets * model.num_weights
    numbers += min(options.get("batch_size", room), room) * (options["nodes"] or 0)
    traces = 2 * 8 * (options.get("epochs") or 0)
    each = np.dtype(first.dtype).itemsize * numbers + traces
    memory.refuse_beyond(
        float(len(estimators) * method.runs * each),
        f"a fit of {rows:,} rows",
        f"lower options of {type(method).__name__} ({', '.join(options)}) or hidden_layer_sizes, "
        "or use fewer rows",
        surely=1.0,
    )


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
        check_settings(estimator)
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
    x, targets = check_training_data(estimator, X, y)
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
        refuse_huge(name, standardizer.scale)
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


# The square of it, and of its inverse, are still numbers with all their digits.
SMALLEST_SPREAD = 1e-150


def column_names(values: Any) -> list[str] | None:
    """Names of a data frame's columns (or of a series), else None."""
    if hasattr(values, "columns"):
        return [str(name) for name in values.columns]
    name = getattr(values, "name", None)
    return None if name is None else [str(name)]


def _describe(indices: np.ndarray, counts: np.ndarray, names: list[str] | None) -> str:
    labels = [f"column {i}" + (f" ({names[i]!r})" if names else "") for i in indices[:5]]
    parts = [f"{label}: {count}" for label, count in zip(labels, counts, strict=False)]
    return ", ".join(parts) + (", …" if len(indices) > 5 else "")


def refuse_text(name: str, values: Any) -> None:
    """Name the columns of a data frame that cannot be read as numbers."""
    if not hasattr(values, "columns"):
        return
    bad = []
    for column in values.columns:
        try:
            np.asarray(values[column], dtype=float)
        except (TypeError, ValueError):
            bad.append(str(column))
    if bad:
        raise ValueError(
            f"{name} must hold numbers only, but could not convert string to float in column(s) "
            f"{', '.join(map(repr, bad))}; encode them (for instance with OneHotEncoder) or drop "
            "them"
        )


def refuse_nonfinite(name: str, values: Any) -> None:
    """Say which columns hold NaN or infinity, and how many.

    What is not an array of numbers passes: scikit-learn's own validation refuses it afterwards.
    """
    if np.ma.is_masked(values):
        raise ValueError(
            f"Input {name} is a masked array with {np.ma.count_masked(values)} masked values, "
            "which would be taken for numbers; remove or fill these rows first"
        )
    try:
        array = np.asarray(values)
        if np.iscomplexobj(array) or not array.ndim or not array.size:
            return
        array = array.astype(float)
    except (TypeError, ValueError):
        return
    array = array.reshape(len(array), -1)
    kinds = [
        ("NaN", np.isnan(array)),
        ("infinity or a value too large for dtype('float64')", np.isinf(array)),
    ]
    for kind, found in kinds:
        counts = found.sum(axis=0)
        if counts.any():
            bad = np.flatnonzero(counts)
            places = _describe(bad, counts[bad], column_names(values))
            raise ValueError(
                f"Input {name} contains {kind}. Rows affected by column: {places}. "
                "Remove or fill these rows first."
            )


def refuse_huge(name: str, scale: np.ndarray) -> None:
    """Refuse columns whose spread, or the square of it, is no finite positive number."""
    bad = np.flatnonzero(~((scale > SMALLEST_SPREAD) & (scale < 1.0 / SMALLEST_SPREAD)))
    if bad.size:
        raise ValueError(
            f"{name} has values too large or too close together to standardise in column(s) "
            f"{bad.tolist()}; rescale them"
        )


def check_training_data(estimator: Any, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Float arrays ``[N, D]`` and ``[N]`` or ``[N, O]``; records the feature names."""
    for name, values in (("X", X), ("y", y)):
        refuse_text(name, values)
        refuse_nonfinite(name, values)
    X, y = validate_data(
        estimator,
        X,
        y,
        dtype=np.float64,
        multi_output=True,
        y_numeric=True,
        ensure_min_samples=2,
    )
    return X, np.asarray(y, dtype=np.float64)


def check_inputs(estimator: Any, X: Any) -> np.ndarray:
    """A float array ``[N, D]`` with the columns the estimator was fitted on."""
    refuse_text("X", X)
    refuse_nonfinite("X", X)
    return validate_data(estimator, X, dtype=np.float64, reset=False)


def check_outputs(y: Any, rows: int, outputs: int) -> np.ndarray:
    """A float array ``[N, O]`` that matches the inputs."""
    refuse_text("y", y)
    refuse_nonfinite("y", y)
    if np.iscomplexobj(y):
        raise ValueError("y must hold real numbers, got complex ones")
    array = np.asarray(y, dtype=np.float64)
    array = array.reshape(-1, 1) if array.ndim == 1 else array
    if array.shape != (rows, outputs):
        raise ValueError(f"y must have shape ({rows}, {outputs}), got {np.shape(y)}")
    return array


def check_split(by: Any, joint: Any, estimator: Any) -> None:
    """Refuse arguments of ``decompose`` of a wrong kind; which names there are it says itself."""
    if not isinstance(by, str):
        raise ValueError(f"by must be 'entropy' or 'variance', got {by!r}")
    if not isinstance(joint, bool | np.bool_):
        raise ValueError(f"joint must be True or False, got {joint!r}")
    if not isinstance(estimator, str) and not callable(estimator):
        raise ValueError(f"estimator must be a name or a function, got {estimator!r}")


def check_settings(estimator: Any) -> None:
    """Refuse impossible settings of a ``BNNLVRegressor``."""
    hidden = estimator.hidden_layer_sizes
    if not isinstance(hidden, Sequence | np.ndarray) or isinstance(hidden, str | bytes):
        raise ValueError(f"hidden_layer_sizes must be a tuple such as (20, 20), got {hidden!r}")
    for units in hidden:
        check_integer("every entry of hidden_layer_sizes", units, 1)
    resolve_method(estimator.inference)
    check_integer("latent_dim", estimator.latent_dim, 0)
    for name in ("n_weight_draws", "n_latent_draws"):
        check_integer(name, getattr(estimator, name), 1)
    for name in ("weight_variance", "checkpoint_seconds"):
        check_positive(name, getattr(estimator, name))
    if estimator.latent_variance is not None:
        check_positive("latent_variance", estimator.latent_variance)
    if estimator.checkpoint is not None and estimator.random_state is None:
        raise ValueError(
            "checkpoint needs random_state=<an integer>, so that the run is recognised when it "
            "continues; got random_state=None"
        )
    if not isinstance(estimator.dtype, str) or estimator.dtype not in ("float32", "float64"):
        raise ValueError(f"dtype must be 'float32' or 'float64', got {estimator.dtype!r}")
    is_flag = isinstance(estimator.verbose, bool | np.bool_ | int)
    if not is_flag and not (isinstance(estimator.verbose, str) and estimator.verbose == "auto"):
        raise ValueError(f"verbose must be True, False or 'auto', got {estimator.verbose!r}")
