"""Validation of a regressor's data and settings."""

import warnings
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from twofold.inference.method import (
    check_integer,
    check_layers,
    check_positive,
    optional,
    resolve_method,
)

# Valid values of each setting: the paper's, and extensions.
FORMS = {
    "noise": ("constant", "varying"),
    "prior": ("constant", "scaled"),
    "activation": ("relu", "tanh"),
}
# Its square and the square of its inverse are still normal floating-point numbers.
SMALLEST_SPREAD = 1e-150
# How many times as far from the median as any other value an outlier is, in how many rows at least.
FAR, FEWEST_ROWS = 100.0, 10
# Half of the held-out groups decide when a member stops, half score it.
FEWEST_GROUPS = 4


def refuse_non_numbers(name: str, values: Any) -> None:
    """Raise an error that names the columns with text, dates, NaN or infinity.

    Other invalid input passes, and is refused by scikit-learn's validation.
    """
    columns = _column_names(values)
    dates = [repr(str(column)) for column in columns if _holds_dates(values[column])]
    if dates or _holds_dates(values):
        raise ValueError(
            f"{name} must hold numbers only, but holds dates or durations"
            f"{' in column(s) ' * bool(dates)}{', '.join(dates)}; convert them to numbers, for "
            "instance to days since a fixed date"
        )
    numbers = {column: _as_floats(values[column]) for column in columns}
    text = [repr(str(column)) for column, array in numbers.items() if array is None]
    if text:
        raise ValueError(
            f"{name} must hold numbers only, but could not convert string to float in column(s) "
            f"{', '.join(text)}; encode them (for instance with OneHotEncoder) or drop them"
        )
    if np.ma.is_masked(values):
        raise ValueError(
            f"Input {name} is a masked array with {np.ma.count_masked(values)} masked values, "
            "which would be used as numbers; remove or fill these rows first"
        )
    # By column: a table with a missing value of pandas has no type that converts as a whole.
    parts: Any = list(numbers.values())
    array = np.column_stack(parts) if columns else _as_floats(values)
    if array is None or not array.ndim or not array.size:
        return
    if not columns and getattr(values, "name", None) is not None:
        columns = [values.name]
    array = array.reshape(len(array), -1)
    infinity = "infinity or a value too large for dtype('float64')"
    for kind, mask in (("NaN", np.isnan(array)), (infinity, np.isinf(array))):
        counts = mask.sum(axis=0)
        bad = np.flatnonzero(counts)
        if bad.size:
            labels = [f" ({str(column)!r})" for column in columns] or [""] * array.shape[1]
            places = [f"column {i}{labels[i]}: {counts[i]}" for i in bad[:5]]
            raise ValueError(
                f"Input {name} contains {kind}. Rows affected by column: {', '.join(places)}"
                f"{', …' if len(bad) > 5 else ''}. Remove or fill these rows first."
            )


def _column_names(values: Any) -> list[Any]:
    """Column names of a data frame; none of Arrow tables, whose ``columns`` are arrays."""
    return [name for name in getattr(values, "columns", ()) if isinstance(name, Hashable)]


def _holds_dates(values: Any) -> bool:
    """Whether there are dates or durations, which as numbers would depend on their unit."""
    kind = getattr(getattr(values, "dtype", None), "kind", None)
    if kind is None and hasattr(values, "__array__"):
        kind = np.asarray(values).dtype.kind
    return kind in ("M", "m")


def _as_floats(values: Any) -> np.ndarray | None:
    """Convert to an array of numbers; None for text, complex numbers and non-arrays."""
    try:
        array = np.asarray(values)
        return None if np.iscomplexobj(array) else array.astype(float)
    except (TypeError, ValueError):
        return None


def refuse_huge(name: str, scale: np.ndarray) -> None:
    """Refuse columns whose spread, or its square, is not a finite positive number."""
    bad = np.flatnonzero(~((scale > SMALLEST_SPREAD) & (scale < 1.0 / SMALLEST_SPREAD)))
    if bad.size:
        raise ValueError(
            f"{name} has values too large or too close together to standardise in column(s) "
            f"{bad.tolist()}; rescale them"
        )


def warn_of_outliers(names: Sequence[Any], values: np.ndarray) -> None:
    """Warn of values beside which all others of their column are nearly equal."""
    if len(values) < FEWEST_ROWS:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        distances = np.abs(values - np.median(values, axis=0))
    second, first = np.sort(distances, axis=0)[-2:]
    for column in np.flatnonzero((second > 0.0) & (first / FAR > second)).tolist():
        value = values[distances[:, column].argmax(), column]
        sentence = f"one value of {names[column]}, {value:g}, is more than {FAR:g} times as far "
        sentence += "from the median as any other, so a model can hardly tell the others apart; "
        sentence += "correct or drop it if it is a mistake, else transform the column"
        warnings.warn(sentence, UserWarning, stacklevel=6)


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
    """Validate and convert to arrays; facts that the estimator's method cannot use are refused."""
    method, weight, error = resolve_method(estimator.inference), None, None
    if sample_weight is not None:
        weight = check_weights(sample_weight, len(y), estimator.dtype)
    if y_error is not None:
        if method.name == "alpha":
            others = "'langevin', 'ensemble', 'nuts' or 'hmc'"
            raise ValueError(f"y_error needs inference={others}, got 'alpha'")
        error = check_errors(y_error, y)
    if groups is None:
        return RowFacts(weight, error)
    if not method.staged:
        staged = "'langevin' or 'ensemble', which hold rows out"
        raise ValueError(f"groups need inference={staged}; got {method.name!r}")
    counted = np.ones(len(y), bool) if weight is None else weight > 0
    return RowFacts(weight, error, check_groups(groups, counted))


def check_row_numbers(name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Finite, non-negative numbers of a given shape."""
    given = np.asarray(values).shape
    if given != shape:
        raise ValueError(f"{name} must have shape {shape}, got {given}")
    refuse_non_numbers(name, values)
    numbers = check_array(values, ensure_2d=False, dtype=np.float64, input_name=name)
    if numbers.min() < 0:
        raise ValueError(f"{name} must not be negative, got {numbers.min()}")
    return numbers


def check_errors(y_error: Any, y: np.ndarray) -> np.ndarray:
    """Standard deviations ``[N, O]`` of the measurements y."""
    return check_row_numbers("y_error", y_error, np.shape(y)).reshape(len(y), -1)


def check_groups(groups: Any, counted: np.ndarray) -> np.ndarray:
    """The group number of each row, starting at 0; a row without a label forms its own group.

    Groups without a row of the mask ``counted`` have no number: held out, they would score nothing.
    """
    labels = np.asarray(groups)
    if labels.shape != counted.shape:
        raise ValueError(f"groups must have shape {counted.shape}, got {labels.shape}")
    alone = counted & np.array([_is_missing(label) for label in labels], bool)
    together = counted & ~alone
    known = labels[together].astype(str) if labels.dtype == object else labels[together]
    names, own = np.unique(known, return_inverse=True)
    numbers = np.zeros(len(labels), int)
    numbers[together], numbers[alone] = own, len(names) + np.arange(alone.sum())
    count = len(names) + int(alone.sum())
    if count < FEWEST_GROUPS:
        raise ValueError(
            f"at least {FEWEST_GROUPS} groups are needed to hold some of them out, got {count}"
        )
    return numbers


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # comparisons with pandas.NA are neither true nor false
        return True


def check_weights(sample_weight: Any, rows: int, dtype: str) -> np.ndarray:
    """Weights ``[N]`` in the precision of the fit, at least two positive."""
    with np.errstate(over="ignore"):
        weights = check_row_numbers("sample_weight", sample_weight, (rows,)).astype(dtype)
        if not np.isfinite(weights.sum()):
            raise ValueError(f"sample_weight is too large for dtype={dtype!r}; divide it")
    positive = int((weights > 0).sum())
    if positive < 2:
        raise ValueError(f"at least two rows need a sample_weight above zero, got {positive}")
    return weights


def check_inputs(estimator: Any, X: Any) -> np.ndarray:
    """A float array ``[N, D]`` with the fitted columns; a data frame's may be in any order."""
    names = list(getattr(estimator, "feature_names_in_", []))
    given = _column_names(X)
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
    settings = estimator.get_params(deep=False)
    automatic = {n for n, value in settings.items() if isinstance(value, str) and value == "auto"}
    method = resolve_method(settings["inference"])
    if "hidden_layer_sizes" not in automatic:
        check_layers("hidden_layer_sizes", settings["hidden_layer_sizes"], " or 'auto'")
    if "latent_dim" not in automatic:
        check_integer("latent_dim", settings["latent_dim"], 0)
    for name in ("n_weight_draws", "n_latent_draws"):
        check_integer(name, settings[name], 1)
    for name, forms in {**FORMS, "dtype": ("float32", "float64")}.items():
        allowed = ("auto", *forms) if name in FORMS else forms
        if not isinstance(settings[name], str) or settings[name] not in allowed:
            choices = ", ".join(map(repr, allowed))
            raise ValueError(f"{name} must be one of {choices}, got {settings[name]!r}")
    if settings["noise"] == "varying" and method.form != "varying":
        raise ValueError(
            "noise='varying' needs inference='langevin' or 'ensemble'; the other methods have the "
            f"same noise everywhere, got {settings['inference']!r}"
        )
    for name in ("weight_variance", "checkpoint_seconds"):
        check_positive(name, settings[name])
    optional(check_positive)("latent_variance", settings["latent_variance"])
    if settings["checkpoint"] is not None and settings["random_state"] is None:
        raise ValueError(
            "checkpoint needs random_state to be an integer, by which a resumed run is recognised, "
            "got None; set for instance random_state=0"
        )
    if "verbose" not in automatic and not isinstance(settings["verbose"], bool | np.bool_ | int):
        raise ValueError(f"verbose must be True, False or 'auto', got {settings['verbose']!r}")
