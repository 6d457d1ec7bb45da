"""What a fit leaves: a regressor's attributes, how far they are to be trusted, and their file."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from twofold.core.numerics import Padded, Standardizer
from twofold.core.persistence import FileFormatError, Stored, to_plain
from twofold.estimators.training import NonFiniteEnergyError
from twofold.inference.ensemble import OutOfBag
from twofold.inference.loop import Convergence, Result, convergence_advice
from twofold.inference.meanfield import MeanFieldPosterior
from twofold.inference.method import resolve_method, to_mapping, upgrade_settings
from twofold.model.density import integration_error, nodes_for
from twofold.model.spec import BNNLV, SampledPosterior
from twofold.uncertainty import chains
from twofold.uncertainty.chains import Diagnostics

POSTERIORS: dict[str, Any] = {
    kind.__name__: kind for kind in (MeanFieldPosterior, SampledPosterior)
}
# Attributes that a file has as they are, and those that it has as mappings.
PLAIN = ("y_ndim", "seed", "fingerprint", "integration_error")
REPORTS: dict[str, Any] = {
    "convergence": Convergence,
    "diagnostics": Diagnostics,
    "out_of_bag": OutOfBag,
}
PAPER_SHAPE = {"hidden_layer_sizes": (20, 20), "latent_dim": 1}
DIAGNOSED_ROWS = 50
INTEGRATED_ROWS, INTEGRATED_DRAWS = 64, 16
GOOD_INTEGRATION_ERROR = 0.1
Regressor = Any  # a BNNLVRegressor, whose module imports this one


class About(NamedTuple):
    """What one estimator keeps of its data, each as an attribute with an underscore."""

    x_standardizer: Standardizer
    y_standardizer: Standardizer
    y_ndim: int
    seed: int
    fingerprint: str
    model: BNNLV


def store(estimator: Regressor, attributes: Mapping[str, Any]) -> None:
    """All fitted attributes at once, so that a failed fit leaves an earlier one whole."""
    for name, value in attributes.items():
        setattr(estimator, f"{name}_", value)


def judge(model: BNNLV, result: Result, data: Padded) -> dict[str, Any]:
    """What one estimator keeps of a run, and what it is worth by the data it was fitted to."""
    # The last step may lead out of all numbers, and no energy after it says so.
    if not all(np.isfinite(leaf).all() for leaf in result.posterior):
        raise NonFiniteEnergyError(
            "the weights are no longer finite; lower learning_rate, use dtype='float64', or look "
            "for extreme values in the data"
        )
    rows, diagnostics, error = int(data.size), None, None
    if result.chains is not None:
        places = np.linspace(0, rows - 1, DIAGNOSED_ROWS).astype(int)
        order = np.argsort(data.x[:rows, 0])
        weights, log_noise, divergences = result.chains
        trace = chains.predictive_trace(model, weights, log_noise, data.x[order[places]])
        diagnostics = chains.diagnose(trace, int(divergences.sum()))
    if result.nodes and model.latents and not model.latent_levels:
        # Always as many, lest every new datum have a program compiled.
        some = np.linspace(0, rows - 1, INTEGRATED_ROWS).astype(int)
        x, y = data.x[some], data.y[some]
        error = float(_integration_error(model, result.posterior, x, y, result.nodes))
    found = {"posterior": result.posterior, "convergence": result.convergence}
    found |= {"diagnostics": diagnostics, "integration_error": error}
    return found | {"out_of_bag": result.out_of_bag}


@partial(jax.jit, static_argnames=("model", "nodes"))
def _integration_error(
    model: BNNLV, posterior: Any, x: jax.Array, y: jax.Array, nodes: int
) -> jax.Array:
    draws = posterior.sample(jax.random.key(0), INTEGRATED_DRAWS)
    return integration_error(model, draws.weights, draws.log_noise, x, y, nodes)


def find_worries(estimator: Regressor) -> str | None:
    """A sentence where the result of a fit is not to be trusted yet. What is judged by rows that it
    kept out needs none."""
    if estimator.out_of_bag_ is not None:
        return None
    diagnostics, report = estimator.diagnostics_, estimator.convergence_
    found = [diagnostics and chains.advice(diagnostics), report and convergence_advice(report)]
    error = estimator.integration_error_
    if error is not None and error >= GOOD_INTEGRATION_ERROR:
        noise = float(np.exp(0.5 * np.mean(estimator.posterior_.log_noise)))
        found.append(
            f"the latent input is integrated out with an error of {error:.2f} nats per datum, "
            f"because the noise is narrow ({noise:.3f} deviations of y); use "
            f"nodes={nodes_for(noise, estimator.model_.latents)}"
        )
    return "; ".join(filter(None, found)) or None


def warn(estimators: Sequence[Regressor]) -> None:
    """Say of which fits the result is not to be trusted yet."""
    worries = {i: sentence for i, one in enumerate(estimators) if (sentence := find_worries(one))}
    if worries:
        index, sentence = next(iter(worries.items()))
        if len(estimators) > 1:
            count = f"{len(worries)} of {len(estimators)} fits"
            sentence = f"{count}, first of them {index}: {sentence}"
        warnings.warn(sentence, ConvergenceWarning, stacklevel=5)


def pack(estimator: Regressor) -> Stored:
    """Arrays and metadata that ``unpack`` turns into the same estimator."""
    arrays = {"energies": estimator.energies_}
    for group, attribute in (("posterior", ""), ("x", "_standardizer"), ("y", "_standardizer")):
        fields = getattr(estimator, f"{group}{attribute}_")._asdict()
        arrays |= {f"{group}/{name}": array for name, array in fields.items()}
    names = getattr(estimator, "feature_names_in_", None)
    own = estimator.get_params(deep=False)
    automatic = {name: own[name] for name in PAPER_SHAPE if str(own[name]) == "auto"}
    metadata = {
        "estimator": type(estimator).__name__,
        "settings": plain_settings(estimator, estimator.seed_) | automatic,
        "model": asdict(estimator.model_),
        "columns": None if names is None else list(names),
        "posterior": type(estimator.posterior_).__name__,
    }
    metadata |= {name: getattr(estimator, f"{name}_") for name in PLAIN}
    for name in REPORTS:
        report = getattr(estimator, f"{name}_")
        metadata[name] = report and to_plain(report._asdict())
    return Stored(arrays, metadata)


def unpack(stored: Stored, estimator_class: type) -> Regressor:
    """The estimator that ``pack`` described."""
    metadata = stored.metadata
    if metadata["estimator"] != estimator_class.__name__:
        raise FileFormatError(
            f"expected a {estimator_class.__name__}, got a {metadata['estimator']}; "
            "this version of twofold cannot load it"
        )
    # The first files have neither the method nor the posterior, which could be one only.
    settings = upgrade_settings({"inference": "alpha"} | metadata["settings"])
    if not isinstance(settings["hidden_layer_sizes"], str):
        settings["hidden_layer_sizes"] = tuple(settings["hidden_layer_sizes"])
    kind = metadata.get("posterior", MeanFieldPosterior.__name__)
    unknown = sorted(set(settings) - set(estimator_class().get_params(deep=False)))
    unknown += [] if kind in POSTERIORS else [kind]
    try:
        method = resolve_method(settings["inference"])
    except ValueError as error:
        unknown.append(str(error))
    if unknown:
        raise FileFormatError(
            "the model was fitted with what this twofold does not know "
            f"({', '.join(unknown)}); upgrade twofold"
        )
    if not isinstance(settings["inference"], str):
        settings["inference"] = method
    estimator = estimator_class(**settings)
    groups: dict[str, dict[str, Any]] = {}
    for path, array in stored.arrays.items():
        group, _, name = path.partition("/")
        if name:
            groups.setdefault(group, {})[name] = array
    model = metadata["model"]
    attributes = {name: metadata.get(name) for name in PLAIN}
    for name, report in REPORTS.items():
        stored_report = metadata.get(name)
        attributes[name] = stored_report and report(
            **{key: np.inf if value is None else value for key, value in stored_report.items()}
        )
    attributes |= {f"{side}_standardizer": Standardizer(**groups[side]) for side in "xy"}
    attributes["posterior"] = POSTERIORS[kind](**groups["posterior"])
    tuples = {name: tuple(value) for name, value in model.items() if isinstance(value, list)}
    attributes["model"] = BNNLV(**model | tuples)
    store(estimator, attributes | {"energies": stored.arrays["energies"]})
    estimator.n_features_in_ = estimator.model_.inputs
    if metadata["columns"] is not None:
        estimator.feature_names_in_ = np.asarray(metadata["columns"], dtype=object)
    return estimator


def plain_settings(estimator: Regressor, seed: int | None = None) -> dict[str, Any]:
    """The constructor's arguments as JSON values; a random generator is replaced by its ``seed``,
    a method by the mapping of its options. What came later and is not used is left out, and what
    "auto" stands for with the paper's model is written out, as it was before there was a choice."""
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
    plain: dict[str, Any] = to_plain(settings)
    return plain
