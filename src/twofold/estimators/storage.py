"""A fitted regressor as arrays and plain metadata, for ``persistence`` to write, and back."""

from typing import Any

import numpy as np

from twofold.core.data import Standardizer
from twofold.core.persistence import FileFormatError, Stored
from twofold.core.plain import to_plain
from twofold.inference.meanfield import MeanFieldPosterior
from twofold.inference.method import Convergence
from twofold.inference.registry import resolve_method, to_mapping, upgrade_settings
from twofold.model.posterior import SampledPosterior
from twofold.model.spec import BNNLV
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
