"""What a fit leaves: a regressor's attributes, how far they are to be trusted, and their file."""

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from twofold.core.numerics import Padded, Standardizer
from twofold.core.persistence import FileFormatError, Stored, to_plain
from twofold.estimators.training import NonFiniteEnergyError
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

Regressor = Any  # a BNNLVRegressor, whose module imports this one


def pack(estimator: Regressor) -> Stored:
    """Arrays and metadata that ``unpack`` turns into the same estimator."""
    arrays = {f"posterior/{name}": v for name, v in estimator.posterior_._asdict().items()}
    for side in ("x", "y"):
        standardizer = getattr(estimator, f"{side}_standardizer_")
        arrays |= {f"{side}/{name}": v for name, v in standardizer._asdict().items()}
    arrays["energies"] = estimator.energies_
    names = getattr(estimator, "feature_names_in_", None)
    model = estimator.model_
    metadata = {
        "estimator": type(estimator).__name__,
        "settings": plain_settings(estimator, estimator.seed_),
        "model": {name: getattr(model, name) for name in model.__dataclass_fields__},
        "columns": None if names is None else list(names),
        "y_ndim": estimator.y_ndim_,
        "seed": estimator.seed_,
        "fingerprint": estimator.fingerprint_,
        "posterior": type(estimator.posterior_).__name__,
        "convergence": _plain_report(estimator.convergence_),
        "diagnostics": _plain_report(estimator.diagnostics_),
        "integration_error": estimator.integration_error_,
    }
    return Stored(arrays, metadata)


def unpack(stored: Stored, estimator_class: type) -> Regressor:
    """The estimator that ``pack`` described."""
    metadata = stored.metadata
    if metadata["estimator"] != estimator_class.__name__:
        raise FileFormatError(
            f"expected a {estimator_class.__name__}, got a {metadata['estimator']}; "
            "this version of twofold cannot load it"
        )
    # All that the first files could have been.
    settings = upgrade_settings({"inference": "alpha"} | metadata["settings"])
    settings["hidden_layer_sizes"] = tuple(settings["hidden_layer_sizes"])
    settings["inference"] = _method(settings["inference"])
    unknown = sorted(set(settings) - set(estimator_class().get_params(deep=False)))
    if unknown:
        raise FileFormatError(
            f"the model uses settings this twofold does not know ({', '.join(unknown)}); "
            "upgrade twofold"
        )
    estimator = estimator_class(**settings)
    model = metadata["model"]
    estimator.model_ = BNNLV(**{**model, "hidden": tuple(model["hidden"])})
    estimator.posterior_ = _posterior(stored)
    estimator.x_standardizer_ = Standardizer(**_group(stored, "x/"))
    estimator.y_standardizer_ = Standardizer(**_group(stored, "y/"))
    estimator.energies_ = stored.arrays["energies"]
    estimator.convergence_ = _report(Convergence, metadata["convergence"])
    estimator.diagnostics_ = _report(Diagnostics, metadata.get("diagnostics"))
    estimator.integration_error_ = metadata.get("integration_error")
    estimator.y_ndim_ = metadata["y_ndim"]
    estimator.seed_ = metadata["seed"]
    estimator.fingerprint_ = metadata["fingerprint"]
    estimator.n_features_in_ = estimator.model_.inputs
    if metadata["columns"] is not None:
        estimator.feature_names_in_ = np.asarray(metadata["columns"], dtype=object)
    return estimator


def _method(inference: Any) -> Any:
    """A name as it is, a mapping as a method."""
    try:
        method = resolve_method(inference)
    except ValueError as error:
        raise FileFormatError(
            f"the model was fitted with a method this twofold does not know ({error}); upgrade "
            "twofold"
        ) from error
    return inference if isinstance(inference, str) else method


def _posterior(stored: Stored) -> Any:
    name = stored.metadata.get("posterior", MeanFieldPosterior.__name__)
    if name not in POSTERIORS:
        raise FileFormatError(f"this twofold does not know the posterior {name}; upgrade twofold")
    return POSTERIORS[name](**_group(stored, "posterior/"))


def _plain_report(report: Any) -> dict[str, Any] | None:
    return None if report is None else report._asdict()


def _report(kind: type, fields: dict[str, Any] | None) -> Any:
    return None if fields is None else kind(**fields)


def plain_settings(estimator: Regressor, seed: int | None = None) -> dict[str, Any]:
    """The constructor's arguments as JSON values; a random generator is replaced by its ``seed``,
    and a method by the mapping of its options."""
    settings = estimator.get_params(deep=False)
    if not isinstance(settings["random_state"], int | np.integer | type(None)):
        settings["random_state"] = seed
    if not isinstance(settings["inference"], str):
        settings["inference"] = to_mapping(settings["inference"])
    settings["hidden_layer_sizes"] = list(settings["hidden_layer_sizes"])
    plain: dict[str, Any] = to_plain(settings)
    return plain


def _group(stored: Stored, prefix: str) -> dict[str, Any]:
    return {
        name.removeprefix(prefix): value
        for name, value in stored.arrays.items()
        if name.startswith(prefix)
    }


DIAGNOSED_ROWS = 50


INTEGRATED_ROWS, INTEGRATED_DRAWS = 64, 16


GOOD_INTEGRATION_ERROR = 0.1


class About(NamedTuple):
    """What one member keeps of its data."""

    x_standardizer: Standardizer
    y_standardizer: Standardizer
    y_ndim: int
    seed: int
    fingerprint: str
    model: BNNLV


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
