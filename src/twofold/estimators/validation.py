"""Bad input gets a clear error before any work."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from twofold.inference.method import check_integer, check_positive
from twofold.inference.registry import resolve_method

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
