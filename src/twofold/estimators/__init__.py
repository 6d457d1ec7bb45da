"""The scikit-learn face: fit, predict, split, save; many fits at once; large tables."""

from importlib import import_module
from typing import Any

# Imported when they are first asked for, because they load JAX.
_HOMES = {
    "BNNLVRegressor": "twofold.estimators.regressor",
    "decompose_table": "twofold.estimators.streaming",
    "fit_many": "twofold.estimators.fitting",
    "fit_table": "twofold.estimators.streaming",
    "load": "twofold.estimators.regressor",
}

__all__ = ["BNNLVRegressor", "decompose_table", "fit_many", "fit_table", "load"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'twofold.estimators' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
