"""Fitted attributes of a regressor, their diagnostics, and their file format."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from twofold.core.content import build, shorten, take
from twofold.core.numerics import Padded, Standardizer
from twofold.core.persistence import RESTORE, FileFormatError, Stored, to_plain
from twofold.estimators.comparison import Comparison
from twofold.estimators.training import NonFiniteEnergyError
from twofold.estimators.validation import SMALLEST_SPREAD, check_settings
from twofold.inference.ensemble import OutOfBag
from twofold.inference.loop import Convergence, Result, convergence_advice
from twofold.inference.meanfield import MeanFieldPosterior
from twofold.inference.method import LARGEST_INTEGER, resolve_method, to_mapping
from twofold.model import network
from twofold.model.density import integration_error, nodes_for
from twofold.model.spec import BNNLV, SampledPosterior
from twofold.uncertainty import chains
from twofold.uncertainty.chains import Diagnostics

POSTERIORS: dict[str, Any] = {one.__name__: one for one in (MeanFieldPosterior, SampledPosterior)}
# Attributes stored as mappings.
REPORTS: dict[str, Any] = {"convergence": Convergence, "diagnostics": Diagnostics}
REPORTS |= {"out_of_bag": OutOfBag, "comparison": Comparison}
PAPER_SHAPE = {"hidden_layer_sizes": (20, 20), "latent_dim": 1}
DIAGNOSED_ROWS = 50
INTEGRATED_ROWS, INTEGRATED_DRAWS = 64, 16
GOOD_INTEGRATION_ERROR = 0.1
SPREADS = SMALLEST_SPREAD, 1.0 / SMALLEST_SPREAD
Regressor = Any  # a BNNLVRegressor, whose module imports this one


class About(NamedTuple):
    """Properties of the data stored on an estimator, as attributes with a trailing underscore."""

    x_standardizer: Standardizer
    y_standardizer: Standardizer
    y_ndim: int
    seed: int
    fingerprint: str
    model: BNNLV


class Plain(NamedTuple):
    """Attributes that are stored unchanged."""

    y_ndim: int
    seed: int
    fingerprint: str | None
    integration_error: float | None


def store(estimator: Regressor, attributes: Mapping[str, Any]) -> None:
    """Set all fitted attributes at once, so that a failed fit leaves an earlier one intact."""
    for name, value in attributes.items():
        setattr(estimator, f"{name}_", value)


def judge(model: BNNLV, result: Result, data: Padded) -> dict[str, Any]:
    """Fitted attributes of a run, with diagnostics computed on the training data."""
    # The last step may produce non-finite weights, which no later energy reveals.
    if not all(np.isfinite(leaf).all() for leaf in result.posterior):
        raise NonFiniteEnergyError(
            "the weights are no longer finite; lower learning_rate, use dtype='float64', or check "
            "the data for extreme values"
        )
    rows, diagnostics, error = int(data.size), None, None
    if result.chains is not None:
        places = np.linspace(0, rows - 1, DIAGNOSED_ROWS).astype(int)
        order = np.argsort(data.x[:rows, 0])
        weights, log_noise, divergences = result.chains
        trace = chains.predictive_trace(model, weights, log_noise, data.x[order[places]])
        diagnostics = chains.diagnose(trace, int(divergences.sum()))
    if result.nodes and model.latents and not model.latent_levels:
        # Always the same number of rows, because each new one would compile a program.
        some = np.linspace(0, rows - 1, INTEGRATED_ROWS).astype(int)
        x, y = data.x[some], data.y[some]
        error = float(_integration_error(model, result.posterior, x, y, result.nodes))
    fitted = {name: getattr(result, name) for name in ("posterior", "convergence", "out_of_bag")}
    return fitted | {"diagnostics": diagnostics, "integration_error": error, "comparison": None}


@partial(jax.jit, static_argnames=("model", "nodes"))
def _integration_error(
    model: BNNLV, posterior: Any, x: jax.Array, y: jax.Array, nodes: int
) -> jax.Array:
    draws = posterior.sample(jax.random.key(0), INTEGRATED_DRAWS)
    return integration_error(model, draws.weights, draws.log_noise, x, y, nodes)


def describe_problems(estimator: Regressor) -> str | None:
    """A warning if the fit has not converged; None for methods that are scored out of bag."""
    if estimator.out_of_bag_ is not None:
        return None
    diagnostics, report = estimator.diagnostics_, estimator.convergence_
    problems = [diagnostics and chains.advice(diagnostics), report and convergence_advice(report)]
    error = estimator.integration_error_
    if error is not None and error >= GOOD_INTEGRATION_ERROR:
        noise = float(np.exp(0.5 * np.mean(estimator.posterior_.log_noise)))
        problems.append(
            f"the latent input is integrated out with an error of {error:.2f} nats per datum, "
            f"because the noise is small ({noise:.3f} standard deviations of y); use "
            f"nodes={nodes_for(noise, estimator.model_.latents)}"
        )
    return "; ".join(filter(None, problems)) or None


def warn(estimators: Sequence[Regressor]) -> None:
    described = enumerate(map(describe_problems, estimators))
    problems = {index: sentence for index, sentence in described if sentence}
    if problems:
        index, sentence = next(iter(problems.items()))
        if len(estimators) > 1:
            count = f"{len(problems)} of {len(estimators)} fits"
            sentence = f"{count} have problems; estimators[{index}]: {sentence}"
        warnings.warn(sentence, ConvergenceWarning, stacklevel=5)


def pack(estimator: Regressor) -> Stored:
    """Arrays and metadata from which ``unpack`` restores the estimator."""
    arrays = {"energies": estimator.energies_}
    for group, attribute in (("posterior", ""), ("x", "_standardizer"), ("y", "_standardizer")):
        fields = getattr(estimator, f"{group}{attribute}_")._asdict()
        arrays |= {f"{group}/{name}": array for name, array in fields.items()}
    names = getattr(estimator, "feature_names_in_", None)
    params = estimator.get_params(deep=False)
    automatic = {name: params[name] for name in PAPER_SHAPE if str(params[name]) == "auto"}
    metadata = {
        "estimator": type(estimator).__name__,
        "settings": plain_settings(estimator, estimator.seed_) | automatic | {"checkpoint": None},
        "model": asdict(estimator.model_),
        "columns": None if names is None else list(names),
        "posterior": type(estimator.posterior_).__name__,
    }
    metadata |= {name: getattr(estimator, f"{name}_") for name in Plain._fields}
    for name in REPORTS:
        report = getattr(estimator, f"{name}_")
        metadata[name] = report and to_plain(report._asdict())
    return Stored(arrays, metadata)


def unpack(stored: Stored, estimator_class: type) -> Regressor:
    metadata = stored.metadata
    if metadata["estimator"] != estimator_class.__name__:
        raise FileFormatError(
            f"expected a {estimator_class.__name__}, got a {shorten(metadata['estimator'])}; "
            "this version of twofold cannot load it"
        )
    estimator = _unpack_settings(metadata, estimator_class)
    model = build(BNNLV, metadata["model"], "model")
    if model.activation not in network.ACTIVATIONS:
        raise FileFormatError(f"its activation is not known: {shorten(model.activation)}")
    attributes: dict[str, Any] = {"model": model, "energies": stored.arrays["energies"]}
    if attributes["energies"].ndim != 1:
        raise FileFormatError(f"its array 'energies' must have one axis; {RESTORE}")
    attributes["posterior"] = _unpack_posterior(stored, model, estimator.dtype)
    for side, size in (("x", model.inputs), ("y", model.outputs)):
        mean = take(stored.arrays, f"{side}/mean", (size,))
        scale = take(stored.arrays, f"{side}/scale", (size,), *SPREADS)
        attributes[f"{side}_standardizer"] = Standardizer(mean, scale)
    plain = build(Plain, {name: metadata.get(name) for name in Plain._fields}, "description")
    if not (plain.y_ndim == 2 or plain.y_ndim == model.outputs == 1):
        raise FileFormatError(f"its y_ndim must fit {model.outputs} outputs, got {plain.y_ndim}")
    if not 0 <= plain.seed <= LARGEST_INTEGER:
        raise FileFormatError(f"its seed must lie between 0 and 2**31 - 1, got {plain.seed}")
    attributes |= plain._asdict()
    for name, report in REPORTS.items():
        values = metadata.get(name) or {}
        if not all(isinstance(value, int | float | None) for value in values.values()):
            raise FileFormatError(f"its {name} must be numbers, got {shorten(values)}; {RESTORE}")
        known = {key: np.inf if value is None else value for key, value in values.items()}
        attributes[name] = report(**known) if known else None
    store(estimator, attributes)
    estimator.n_features_in_ = model.inputs
    names = metadata["columns"]
    if names is not None:
        if len(names) != model.inputs or not all(isinstance(name, str) for name in names):
            raise FileFormatError(f"its columns must be {model.inputs} names, got {shorten(names)}")
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    return estimator


def _unpack_settings(metadata: Mapping[str, Any], estimator_class: type) -> Regressor:
    """An estimator with the stored settings, except for paths on the machine that fitted it."""
    settings = metadata["settings"] | {"checkpoint": None}
    try:
        if isinstance(settings["hidden_layer_sizes"], list):
            settings["hidden_layer_sizes"] = tuple(settings["hidden_layer_sizes"])
        if not isinstance(settings["inference"], str):
            settings["inference"] = resolve_method(settings["inference"])
        estimator = estimator_class(**settings)
        check_settings(estimator)
    except (TypeError, ValueError) as error:
        raise FileFormatError(
            f"the model has settings that this version of twofold does not know ({error}); "
            "upgrade twofold"
        ) from error
    return estimator


def _unpack_posterior(stored: Stored, model: BNNLV, dtype: str) -> Any:
    """The posterior, checked against the shapes of the model and the range of its precision."""
    largest, weights = float(np.finfo(dtype).max), model.num_weights
    # The log-variances of the outputs must give finite variances; other noise parameters may be any
    # number.
    noise = np.full(model.num_noise, largest)
    noise[: model.outputs] = np.log(largest)
    kind = POSTERIORS[stored.metadata["posterior"]]
    shapes: dict[str, tuple[int | None, ...]]
    if kind is SampledPosterior:
        draws = len(take(stored.arrays, "posterior/weights", (None, weights)))
        shapes = {"weights": (draws, weights), "log_noise": (draws, model.num_noise)}
    else:
        shapes = {"mean": (weights,), "variance": (weights,), "log_noise": (model.num_noise,)}
    bounds = {"log_noise": (-noise, noise), "variance": (0.0, largest)}
    fields = {}
    for part, shape in shapes.items():
        ends = bounds.get(part, (-largest, largest))
        fields[part] = take(stored.arrays, f"posterior/{part}", shape, *ends)
    return kind(**fields)


def plain_settings(estimator: Regressor, seed: int | None = None) -> dict[str, Any]:
    """The constructor's arguments as JSON values: a random generator as its ``seed``, a method as a
    mapping of its options. Unused defaults are omitted, and "auto" is resolved for the paper's
    model."""
    settings = estimator.get_params(deep=False)
    for name in ("noise", "prior", "activation"):
        if settings[name] == "auto":
            del settings[name]
    if not settings["warm_start"]:
        del settings["warm_start"]
    if resolve_method(settings["inference"]).form == "constant":
        for name, value in PAPER_SHAPE.items():
            settings[name] = value if str(settings[name]) == "auto" else settings[name]
    if not isinstance(settings["random_state"], int | np.integer | type(None)):
        settings["random_state"] = seed
    if not isinstance(settings["inference"], str):
        settings["inference"] = to_mapping(settings["inference"])
    if not isinstance(settings["hidden_layer_sizes"], str):
        settings["hidden_layer_sizes"] = list(settings["hidden_layer_sizes"])
    return to_plain(settings)
