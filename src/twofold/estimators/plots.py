"""The figures of ``twofold.report.plots`` as methods of a fitted model."""

from importlib import import_module
from typing import Any


class Plots:
    """Methods that plot a fitted model on matplotlib axes (given or new) and return them;
    documented in ``twofold.report.plots``."""

    def plot_prediction(self, X: Any, y: Any = None, **options: Any) -> Any:
        """Median and bands along one ``feature``."""
        return _home().plot_prediction(self, X, y, **options)

    def plot_split(self, X: Any, **options: Any) -> Any:
        """Total and aleatoric entropy along one ``feature``; the gap is the epistemic part."""
        return _home().plot_split(self, X, **options)

    def plot_measured(self, X: Any, y: Any, **options: Any) -> Any:
        """Predicted medians and intervals against measured values."""
        return _home().plot_measured(self, X, y, **options)

    def plot_calibration(self, X: Any, y: Any, **options: Any) -> Any:
        """Observed against nominal coverage of intervals."""
        return _home().plot_calibration(self, X, y, **options)


def _home() -> Any:
    """Imported late: reports import estimators, and only plots need matplotlib."""
    return import_module("twofold.report.plots")
