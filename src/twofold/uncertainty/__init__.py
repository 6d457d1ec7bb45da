"""The split of the predictive uncertainty, its estimators, metrics, diagnostics of chains."""

from twofold.uncertainty.chains import Diagnostics, diagnose, predictive_trace
from twofold.uncertainty.decomposition import (
    ESTIMATORS,
    Decomposition,
    Parts,
    Split,
    by_entropy,
    by_variance,
    decompose,
    decompose_rows,
)
from twofold.uncertainty.entropies import Entropies, PointEstimator
from twofold.uncertainty.metrics import calibration_error, coverage, crps, pit, rmse
from twofold.uncertainty.predictive import Nested, nest
from twofold.uncertainty.sample_entropy import from_samples
from twofold.uncertainty.sensitivity import total_effects

__all__ = [
    "ESTIMATORS", "Decomposition", "Diagnostics", "Entropies", "Nested", "Parts", "PointEstimator",
    "Split", "by_entropy", "by_variance", "calibration_error", "coverage", "crps", "decompose",
    "decompose_rows", "diagnose", "from_samples", "nest", "pit", "predictive_trace", "rmse",
    "total_effects",
]  # fmt: skip
