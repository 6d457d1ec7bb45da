"""Validation of a regressor's data and settings."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from twofold.inference.method import check_integer, check_positive, resolve_method

# Of each setting: the paper's, and what goes beyond it.
FORMS = {
    "noise": ("constant", "varying"),
    "prior": ("constant", "scaled"),
    "activation": ("relu", "tanh"),
}
# The square of it, and of its inverse, are still numbers with all their digits.
SMALLEST_SPREAD = 1e-150
# Half of those held out stop a member, half score it.
FEWEST_GROUPS = 4


def refuse_non_numbers(name: str, values: Any) -> None:
    """Say which columns hold text, NaN or infinity.

    What else is not an array of numbers passes: scikit-learn's own validation refuses it.
    """
    columns = list(getattr(values, "columns", ()))
    text = [str(column) for column in columns if _is_text(values[column])]
    if text:
        raise ValueError(
            f"{name} must hold numbers only, but could not convert string to float in column(s) "
            f"{', '.join(map(repr, text))}; encode them (for instance with OneHotEncoder) or drop "
            "them"
        )
    if np.ma.is_masked(values):
        raise ValueError(
            f"Input {name} is a masked array with {np.ma.count_masked(values)} masked values, "
            "which would be used as numbers; remove or fill these rows first"
        )
    try:
        array = np.asarray(values)
        if np.iscomplexobj(array) or not array.ndim or not array.size:
            return
        array = array.astype(float).reshape(len(array), -1)
    except (TypeError, ValueError):
        return
    if not columns and getattr(values, "name", None) is not None:
        columns = [values.name]
    infinity = "infinity or a value too large for dtype('float64')"
    for kind, found in (("NaN", np.isnan(array)), (infinity, np.isinf(array))):
        counts = found.sum(axis=0)
        bad = np.flatnonzero(counts)
        if bad.size:
            labels = [f" ({str(column)!r})" for column in columns] or [""] * array.shape[1]
            places = [f"column {i}{labels[i]}: {counts[i]}" for i in bad[:5]]
            raise ValueError(
                f"Input {name} contains {kind}. Rows affected by column: {', '.join(places)}"
                f"{', …' if len(bad) > 5 else ''}. Remove or fill these rows first."
            )


def _is_text(values: Any) -> bool:
    try:
        np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        return True
    return False


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
    refuse_non_numbers("X", X)
    refuse_non_numbers("y", y)
    several = {"multi_output": True, "y_numeric": True, "ensure_min_samples": 2}
    X, y = validate_data(estimator, X, y, dtype=np.float64, **several)
    return X, np.asarray(y, dtype=np.float64)


class RowFacts(NamedTuple):
    """Optional facts about the rows, None if not given: weight ``[N]``, standard deviation of each
    measurement ``[N, O]``, group number ``[N]``."""

    weight: np.ndarray | None = None
    error: np.ndarray | None = None
    groups: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> "RowFacts":
        """The facts of some rows, by a mask."""
        return RowFacts(*(None if part is None else part[rows] for part in self))


def check_row_facts(
    estimator: Any, y: np.ndarray, sample_weight: Any, y_error: Any, groups: Any
) -> RowFacts:
    """Each as an array; what the method of the estimator cannot use is refused."""
    method, rows = resolve_method(estimator.inference), len(y)
    weight = None if sample_weight is None else check_weights(sample_weight, rows, estimator.dtype)
    if y_error is not None and method.name == "alpha":
        raise ValueError(
            "y_error needs inference='langevin', 'ensemble', 'nuts' or 'hmc', got 'alpha'"
        )
    error = None if y_error is None else check_errors(y_error, y.shape)
    if groups is None:
        return RowFacts(weight, error)
    if not method.staged:
        raise ValueError(
            "groups need inference='langevin' or 'ensemble', which hold rows out; got "
            f"{method.name!r}"
        )
    return RowFacts(weight, error, check_groups(groups, rows))


def check_errors(y_error: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Finite standard deviations ``[N, O]``, none negative; one column serves one output."""
    refuse_non_numbers("y_error", y_error)
    error = check_array(y_error, ensure_2d=False, dtype=np.float64, input_name="y_error")
    if error.shape != shape:
        raise ValueError(f"y_error must have the shape of y, {shape}, got {error.shape}")
    if error.min() < 0:
        raise ValueError(f"y_error must not be negative, got {error.min()}")
    return error.reshape(len(error), -1)


def check_groups(groups: Any, rows: int) -> np.ndarray:
    """The number of each row's group, from 0 on."""
    labels = np.asarray(groups)
    if labels.shape != (rows,):
        raise ValueError(f"groups must have shape ({rows},), got {labels.shape}")
    names, numbers = np.unique(labels, return_inverse=True)
    if len(names) < FEWEST_GROUPS:
        raise ValueError(
            f"at least {FEWEST_GROUPS} groups are needed to hold some of them out, got {len(names)}"
        )
    return numbers.reshape(-1)


def check_weights(sample_weight: Any, rows: int, dtype: str) -> np.ndarray:
    """Finite weights ``[N]`` in the precision of the fit, none negative, at least two positive."""
    refuse_non_numbers("sample_weight", sample_weight)
    name = "sample_weight"
    weights = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name=name)
    if weights.shape != (rows,):
        raise ValueError(f"sample_weight must have shape ({rows},), got {weights.shape}")
    if weights.min() < 0:
        raise ValueError(f"sample_weight must not be negative, got {weights.min()}")
    with np.errstate(over="ignore"):
        weights = weights.astype(dtype)
        if not np.isfinite(weights.sum()):
            raise ValueError(f"sample_weight is too large for dtype={dtype!r}; divide it")
    positive = int((weights > 0).sum())
    if positive < 2:
        raise ValueError(f"at least two rows need a sample_weight above zero, got {positive}")
    return weights


def check_inputs(estimator: Any, X: Any) -> np.ndarray:
    """A float array ``[N, D]`` with the columns the estimator was fitted on; those of a data frame
    may stand in any order."""
    names = list(getattr(estimator, "feature_names_in_", []))
    given = list(getattr(X, "columns", []))
    if names and given != names and sorted(map(str, given)) == sorted(map(str, names)):
        X = X[names]
    refuse_non_numbers("X", X)
    return validate_data(estimator, X, dtype=np.float64, reset=False)


def check_outputs(y: Any, rows: int, outputs: int) -> np.ndarray:
    """A float array ``[N, O]`` that matches the inputs."""
    refuse_non_numbers("y", y)
    if np.iscomplexobj(y):
        raise ValueError("y must hold real numbers, got complex ones")
    array = np.asarray(y, dtype=np.float64)
    array = array.reshape(-1, 1) if array.ndim == 1 else array
    if array.shape != (rows, outputs):
        raise ValueError(f"y must have shape ({rows}, {outputs}), got {np.shape(y)}")
    return array


def check_settings(estimator: Any) -> None:
    """Refuse impossible settings of a ``BNNLVRegressor``."""
    settings = estimator.get_params(deep=False)
    hidden, dtype, verbose = (settings[k] for k in ("hidden_layer_sizes", "dtype", "verbose"))
    chosen = isinstance(hidden, str) and hidden == "auto"
    if not isinstance(hidden, Sequence | np.ndarray) or isinstance(hidden, str | bytes) != chosen:
        raise ValueError(
            f"hidden_layer_sizes must be a tuple such as (20, 20), or 'auto', got {hidden!r}"
        )
    for units in () if chosen else hidden:
        check_integer("every entry of hidden_layer_sizes", units, 1)
    resolve_method(settings["inference"])
    for name, minimum in (("latent_dim", 0), ("n_weight_draws", 1), ("n_latent_draws", 1)):
        if name != "latent_dim" or not isinstance(settings[name], str) or settings[name] != "auto":
            check_integer(name, settings[name], minimum)
    for name, forms in FORMS.items():
        if not isinstance(settings[name], str) or settings[name] not in ("auto", *forms):
            allowed = ", ".join(map(repr, ("auto", *forms)))
            raise ValueError(f"{name} must be one of {allowed}, got {settings[name]!r}")
    if settings["noise"] == "varying" and resolve_method(settings["inference"]).form != "varying":
        raise ValueError(
            "noise='varying' needs inference='langevin' or 'ensemble'; the other methods have the "
            f"same noise everywhere, got {settings['inference']!r}"
        )
    for name in ("weight_variance", "checkpoint_seconds", "latent_variance"):
        if name != "latent_variance" or settings[name] is not None:
            check_positive(name, settings[name])
    if settings["checkpoint"] is not None and settings["random_state"] is None:
        raise ValueError(
            "checkpoint needs random_state=<an integer>, so that the run is recognised when it "
            "continues; got random_state=None"
        )
    if not isinstance(dtype, str) or dtype not in ("float32", "float64"):
        raise ValueError(f"dtype must be 'float32' or 'float64', got {dtype!r}")
    automatic = isinstance(verbose, str) and verbose == "auto"
    if not automatic and not isinstance(verbose, bool | np.bool_ | int):
        raise ValueError(f"verbose must be True, False or 'auto', got {verbose!r}")
