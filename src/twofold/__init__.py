"""twofold: predict, split the uncertainty in two, and decide with each part separately."""

from importlib.metadata import PackageNotFoundError, version

from twofold.estimators.fitting import fit_many
from twofold.estimators.regressor import BNNLVRegressor, load
from twofold.uncertainty.decomposition import Decomposition

try:
    __version__ = version("twofold")
except PackageNotFoundError:
    __version__ = "unknown"

__all__ = ["BNNLVRegressor", "Decomposition", "fit_many", "load"]
