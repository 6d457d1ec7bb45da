"""The paper's two toy problems (Depeweg et al. 2018, Section 4), with their true densities.

A problem has samplers of inputs (``sample_inputs``) and outputs (``sample_outputs``), the range of
test inputs, the log-density of the true process, which no model can beat on average (the "oracle"),
its entropy given x (the true aleatoric uncertainty), and the density of its inputs.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp
from scipy.stats import expon, norm

Generator = np.random.Generator


@dataclass(frozen=True)
class ToyProblem:
    """A one-dimensional regression problem with a known conditional distribution."""

    name: str
    low: float
    high: float
    sample_inputs: Callable[[Generator, int], np.ndarray]
    sample_outputs: Callable[[Generator, np.ndarray], np.ndarray]
    log_density: Callable[[np.ndarray, np.ndarray], np.ndarray]
    entropy: Callable[[np.ndarray], np.ndarray]
    input_density: Callable[[np.ndarray], np.ndarray]

    def training_data(self, seed: int, size: int = 750) -> tuple[np.ndarray, np.ndarray]:
        """Inputs distributed as in the paper, ``[size, 1]``, and outputs, ``[size]``."""
        rng = np.random.default_rng(seed)
        x = self.sample_inputs(rng, size)
        return x[:, None], self.sample_outputs(rng, x)

    def test_data(self, seed: int, size: int = 500) -> tuple[np.ndarray, np.ndarray]:
        """Inputs uniform over the problem's range, and outputs."""
        rng = np.random.default_rng([seed, 1])
        x = rng.uniform(self.low, self.high, size)
        return x[:, None], self.sample_outputs(rng, x)


MIXTURE = np.array([(-4.0, 0.4), (0.0, 0.9), (4.0, 0.4)])  # means and widths of the inputs


def _mixture_inputs(rng: Generator, size: int) -> np.ndarray:
    return rng.normal(*MIXTURE[rng.integers(3, size=size)].T)


def _heteroscedastic_noise(x: np.ndarray) -> np.ndarray:
    return 3.0 * np.abs(np.cos(x / 2.0))


def _heteroscedastic_outputs(rng: Generator, x: np.ndarray) -> np.ndarray:
    return 7.0 * np.sin(x) + _heteroscedastic_noise(x) * rng.standard_normal(x.shape)


def _mixture_density(x: np.ndarray) -> np.ndarray:
    return np.mean([norm.pdf(x, mean, width) for mean, width in MIXTURE], axis=0)


def _heteroscedastic_entropy(x: np.ndarray) -> np.ndarray:
    return 0.5 * np.log(2.0 * np.pi * np.e * np.square(_heteroscedastic_noise(x)))


def _heteroscedastic_log_density(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return norm.logpdf(y, 7.0 * np.sin(x), _heteroscedastic_noise(x))


def _exponential_inputs(rng: Generator, size: int) -> np.ndarray:
    """Exponential with rate 2, starting at -0.5; about five of 750 lie beyond the range."""
    return rng.exponential(0.5, size) - 0.5


def _bimodal_outputs(rng: Generator, x: np.ndarray) -> np.ndarray:
    branch = rng.uniform(size=x.shape) < 0.5
    return 10.0 * np.where(branch, np.sin(x), np.cos(x)) + rng.standard_normal(x.shape)


def _bimodal_entropy(x: np.ndarray) -> np.ndarray:
    """Entropy by the trapezoidal rule, twelve deviations around both branches."""
    y = np.linspace(-25.0, 25.0, 5001)
    log_density = _bimodal_log_density(np.asarray(x)[..., None], y)
    return -np.trapezoid(np.exp(log_density) * log_density, y, axis=-1)


def _bimodal_log_density(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    branches = [norm.logpdf(y, 10.0 * np.sin(x)), norm.logpdf(y, 10.0 * np.cos(x))]
    return logsumexp(branches, axis=0) - np.log(2.0)


HETEROSCEDASTIC = ToyProblem(
    *("heteroscedastic", -5.0, 5.0, _mixture_inputs, _heteroscedastic_outputs),
    *(_heteroscedastic_log_density, _heteroscedastic_entropy, _mixture_density),
)
BIMODAL = ToyProblem(
    *("bimodal", -0.5, 2.0, _exponential_inputs, _bimodal_outputs),
    *(_bimodal_log_density, _bimodal_entropy, expon(-0.5, 0.5).pdf),
)
TOY_PROBLEMS = {problem.name: problem for problem in (HETEROSCEDASTIC, BIMODAL)}
