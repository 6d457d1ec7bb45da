"""``inference_options``: which there are for each inference method, and what they may be."""

from typing import Any

import numpy as np

from twofold.estimators.validation import check_integer, is_number

Regressor = Any  # a BNNLVRegressor, whose module imports the one that imports this

# Smallest values; pairs, rates and layers have checks of their own.
ALPHA_OPTIONS = {"nodes": 0, "encoder": 1}
ENSEMBLE_OPTIONS = {"members": 2, "nodes": 1, "bootstrap": 0, "start": 0, "log_noise_prior": 0}
SGHMC_OPTIONS = {
    "chains": 2,
    "samples": 1,
    "nodes": 1,
    "step_size": 0,
    "friction": 0,
    "start": 0,
    "log_noise_prior": 0,
}
NUMBERS = ("target_acceptance", "bootstrap", "start", "step_size", "friction")
HMC_OPTIONS = {
    "chains": 2,
    "warmup": 1,
    "annealing": 0,
    "samples": 1,
    "thin": 1,
    "nodes": 0,
    "leapfrog_steps": 1,
    "max_doublings": 1,
    "target_acceptance": 0,
    "log_noise_prior": 0,
}
OPTIONS = {
    "ensemble": ENSEMBLE_OPTIONS,
    "alpha": ALPHA_OPTIONS,
    "sghmc": SGHMC_OPTIONS,
    "nuts": HMC_OPTIONS,
    "hmc": HMC_OPTIONS,
}


def checked_options(estimator: Regressor, known: dict[str, int]) -> dict[str, Any]:
    """``inference_options``, wrong ones refused in words; ``known`` gives each one's minimum."""
    options = {} if estimator.inference_options is None else estimator.inference_options
    if not isinstance(options, dict):
        raise ValueError(f"inference_options must be a dict or None, got {options!r}")
    unknown = sorted(str(name) for name in options if name not in known)
    if unknown:
        raise ValueError(
            f"inference_options of {estimator.inference!r} are {', '.join(sorted(known))}; "
            f"got {', '.join(unknown)}"
        )
    checked: dict[str, Any] = {}
    for name, value in options.items():
        if name == "log_noise_prior":
            checked[name] = _pair(name, value)
        elif name == "encoder":
            checked[name] = _layers(name, value)
        elif name in NUMBERS:
            checked[name] = _number(name, value)
        else:
            check_integer(name, value, known[name])
            checked[name] = int(value)
    return checked


def _layers(name: str, value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not isinstance(value, tuple | list):
        raise ValueError(
            f"{name} must be a list of the units of its hidden layers such as [20], or None, got "
            f"{value!r}"
        )
    for units in value:
        check_integer(f"every entry of {name}", units, 1)
    return tuple(int(units) for units in value)


def _number(name: str, value: Any) -> float:
    if not is_number(value) or not np.isfinite(float(value)):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return float(value)


def _pair(name: str, value: Any) -> tuple[float, float]:
    pair = isinstance(value, tuple | list) and len(value) == 2 and all(map(is_number, value))
    if not pair or not np.isfinite([float(one) for one in value]).all():
        raise ValueError(f"{name} must be a pair of numbers, mean and deviation, got {value!r}")
    return float(value[0]), float(value[1])
