"""Two more one-dimensional problems with known truth, harder on the split than the paper's.

``SKEWED`` has noise with a long tail to one side that grows with x; ``MERGING`` three branches that
run into one.
"""

import numpy as np
from scipy.special import logsumexp
from scipy.stats import beta, gumbel_r, norm

from twofold.envs.toy import Generator, ToyProblem

RANGE = 4.0


def _beta_inputs(rng: Generator, size: int) -> np.ndarray:
    return RANGE * rng.beta(1.2, 2.5, size)


def _beta_density(x: np.ndarray) -> np.ndarray:
    return beta.pdf(x / RANGE, 1.2, 2.5) / RANGE


def _skewed_centre(x: np.ndarray) -> np.ndarray:
    return 2.0 * np.sin(1.5 * x)


def _skewed_scale(x: np.ndarray) -> np.ndarray:
    return 0.2 + 0.3 * x


def _skewed_outputs(rng: Generator, x: np.ndarray) -> np.ndarray:
    return _skewed_centre(x) + _skewed_scale(x) * rng.gumbel(size=x.shape)


def _skewed_log_density(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return gumbel_r.logpdf(y, _skewed_centre(x), _skewed_scale(x))


def _skewed_entropy(x: np.ndarray) -> np.ndarray:
    """Of a Gumbel distribution: ``log scale + γ + 1``."""
    return np.log(_skewed_scale(x)) + np.euler_gamma + 1.0


def _two_heaps_inputs(rng: Generator, size: int) -> np.ndarray:
    right = rng.uniform(size=size) < 1.0 / 3.0
    return rng.normal(np.where(right, 2.2, 0.5), np.where(right, 0.25, 0.35))


def _two_heaps_density(x: np.ndarray) -> np.ndarray:
    return (2.0 * norm.pdf(x, 0.5, 0.35) + norm.pdf(x, 2.2, 0.25)) / 3.0


def _branches(x: np.ndarray) -> np.ndarray:
    """Centres of the three branches, stacked first; they meet at x = 2."""
    gap = 2.5 * np.maximum(1.0 - 0.5 * x, 0.0)
    return np.sin(2.0 * x) + np.stack([-gap, np.zeros_like(gap), gap])


def _merging_outputs(rng: Generator, x: np.ndarray) -> np.ndarray:
    chosen = rng.integers(3, size=x.shape)
    centre = np.take_along_axis(_branches(x), chosen[None], axis=0)[0]
    return centre + 0.3 * rng.standard_normal(x.shape)


def _merging_log_density(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return logsumexp(norm.logpdf(y, _branches(x), 0.3), axis=0) - np.log(3.0)


def _merging_entropy(x: np.ndarray) -> np.ndarray:
    """By the trapezoidal rule, ten deviations around all branches."""
    y = np.linspace(-8.0, 8.0, 3201)
    every = np.broadcast_to(np.asarray(x)[..., None], (*np.shape(x), y.size))
    log_density = _merging_log_density(every, y)
    return -np.trapezoid(np.exp(log_density) * log_density, y, axis=-1)


SKEWED = ToyProblem(
    "skewed",
    0.0,
    RANGE,
    _beta_inputs,
    _skewed_outputs,
    _skewed_log_density,
    _skewed_entropy,
    _beta_density,
)
MERGING = ToyProblem(
    "merging",
    -0.3,
    2.7,
    _two_heaps_inputs,
    _merging_outputs,
    _merging_log_density,
    _merging_entropy,
    _two_heaps_density,
)
HARD_PROBLEMS = {problem.name: problem for problem in (SKEWED, MERGING)}
