"""twofold: predict, split the uncertainty in two, and decide with each part separately."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twofold.estimators.fitting import fit_many
    from twofold.estimators.regressor import BNNLVRegressor, load
    from twofold.estimators.streaming import decompose_table, fit_table
    from twofold.inference.alpha import Alpha
    from twofold.inference.ensemble import Ensemble
    from twofold.inference.hmc import HMC, NUTS
    from twofold.inference.langevin import Langevin
    from twofold.uncertainty.decomposition import Decomposition

try:
    __version__ = version("twofold")
except PackageNotFoundError:
    __version__ = "unknown"

__all__ = [
    "HMC", "NUTS", "Alpha", "BNNLVRegressor", "Decomposition", "Ensemble", "Langevin",
    "decompose_table", "fit_many", "fit_table", "load",
]  # fmt: skip

# Imported when they are first asked for: the command line's help and completion need no JAX.
_HOMES = {
    "estimators.fitting": ("fit_many",),
    "estimators.regressor": ("BNNLVRegressor", "load"),
    "estimators.streaming": ("decompose_table", "fit_table"),
    "inference.alpha": ("Alpha",),
    "inference.ensemble": ("Ensemble",),
    "inference.hmc": ("HMC", "NUTS"),
    "inference.langevin": ("Langevin",),
    "uncertainty.decomposition": ("Decomposition",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            globals()[name] = value = getattr(import_module(f"twofold.{module}"), name)
            return value
    raise AttributeError(f"module 'twofold' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
