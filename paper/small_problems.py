"""Small problems of known truth: smooth functions of few inputs, with noise of several kinds.

    y = location(x) + scale(x) · e,

with e of one of four shapes. Density and entropy of y follow from those of e:

    log p(y | x) = log p_e((y − location) / scale) − log scale,   H(y | x) = H(e) + log scale.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp
from scipy.stats import gumbel_r, lognorm, norm

Generator = np.random.Generator
Data = tuple[np.ndarray, np.ndarray]

MOST_ROWS = 1600
TEST_STREAM, POINT_STREAM = 1, 2
HUMPS = np.array([-1.0, 1.0])
HUMP_SHARES = np.array([0.35, 0.65])
HUMP_WIDTH = 0.3
LOG_WIDTH = 0.3


@dataclass(frozen=True)
class Shape:
    """The distribution of e: how to draw it, its log-density and its entropy in nats."""

    sample: Callable[[Generator, int], np.ndarray]
    log_density: Callable[[np.ndarray], np.ndarray]
    entropy: float


def draw_two_humps(rng: Generator, size: int) -> np.ndarray:
    """Normal noise around −1 or, more often, 1."""
    centres = rng.choice(HUMPS, size, p=HUMP_SHARES)
    return centres + HUMP_WIDTH * rng.standard_normal(size)


def two_humps_log_density(e: np.ndarray) -> np.ndarray:
    """Log-density of a mixture of two normal distributions."""
    terms = norm.logpdf(np.asarray(e)[..., None], HUMPS, HUMP_WIDTH) + np.log(HUMP_SHARES)
    return logsumexp(terms, axis=-1)


def two_humps_entropy() -> float:
    """Entropy by the trapezoidal rule, ten widths around both humps."""
    e = np.linspace(-4.0, 4.0, 4001)
    log_density = two_humps_log_density(e)
    return float(-np.trapezoid(np.exp(log_density) * log_density, e))


def gaussian_entropy(deviation: float = 1.0) -> float:
    """``½ log(2πe σ²)``; also that of a log-normal distribution with median 1."""
    return float(0.5 * np.log(2.0 * np.pi * np.e * deviation**2))


GAUSSIAN = Shape(lambda rng, size: rng.standard_normal(size), norm.logpdf, gaussian_entropy())
SKEWED = Shape(lambda rng, size: rng.gumbel(size=size), gumbel_r.logpdf, np.euler_gamma + 1.0)
TWO_HUMPED = Shape(draw_two_humps, two_humps_log_density, two_humps_entropy())
LOG_NORMAL = Shape(
    lambda rng, size: np.exp(LOG_WIDTH * rng.standard_normal(size)),
    lambda e: lognorm.logpdf(e, LOG_WIDTH),
    gaussian_entropy(LOG_WIDTH),
)


@dataclass(frozen=True)
class SmallProblem:
    """A regression problem with a known conditional distribution.

    ``noise`` describes the noise in words; ``draw`` gives inputs ``[N, D]`` of a shape.
    """

    name: str
    noise: str
    inputs: int
    draw: Callable[[Generator, tuple[int, int]], np.ndarray]
    location: Callable[[np.ndarray], np.ndarray]
    scale: Callable[[np.ndarray], np.ndarray]
    shape: Shape

    def sample_inputs(self, rng: Generator, size: int) -> np.ndarray:
        """Inputs ``[size, D]``."""
        return self.draw(rng, (size, self.inputs))

    def sample_outputs(self, rng: Generator, x: np.ndarray) -> np.ndarray:
        """Outputs ``[N]`` at inputs ``[N, D]``."""
        return self.location(x) + self.scale(x) * self.shape.sample(rng, len(x))

    def log_density(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """``log p(y | x)`` of each row."""
        scale = self.scale(x)
        return self.shape.log_density((y - self.location(x)) / scale) - np.log(scale)

    def entropy(self, x: np.ndarray) -> np.ndarray:
        """``H(y | x)`` of each row: the true aleatoric uncertainty."""
        return self.shape.entropy + np.log(self.scale(x))

    def training_data(self, seed: int, rows: int) -> Data:
        """The first rows of the seed's table, so that larger ones contain smaller ones."""
        if rows > MOST_ROWS:
            raise ValueError(f"rows must not exceed {MOST_ROWS}, got {rows}")
        x, y = self._draw_data(np.random.default_rng(seed), MOST_ROWS)
        return x[:rows], y[:rows]

    def test_data(self, seed: int, rows: int) -> Data:
        """New rows from the training distribution."""
        return self._draw_data(np.random.default_rng([seed, TEST_STREAM]), rows)

    def test_points(self, seed: int, size: int) -> np.ndarray:
        """New inputs from the training distribution."""
        return self.sample_inputs(np.random.default_rng([seed, POINT_STREAM]), size)

    def _draw_data(self, rng: Generator, rows: int) -> Data:
        x = self.sample_inputs(rng, rows)
        return x, self.sample_outputs(rng, x)


def _box(rng: Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.uniform(-1.0, 1.0, shape)


def _unit_box(rng: Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.uniform(0.0, 1.0, shape)


def _normal(rng: Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.standard_normal(shape)


def constant(value: float) -> Callable[[np.ndarray], np.ndarray]:
    """A constant function."""
    return lambda x: np.full(len(x), value)


def wave(x: np.ndarray) -> np.ndarray:
    """A sine plus a linear function."""
    return np.sin(4.0 * x[:, 0]) + 0.5 * x[:, 0]


def ridge(x: np.ndarray) -> np.ndarray:
    """A step along the diagonal of two inputs, and a bend."""
    return 2.0 * np.tanh(1.5 * (x[:, 0] - x[:, 1])) + 0.3 * np.square(x[:, 0])


def plane(x: np.ndarray) -> np.ndarray:
    """Linear; the last input is irrelevant."""
    return x @ np.array([1.0, -0.5, 0.25, 0.0])


def friedman(x: np.ndarray) -> np.ndarray:
    """Friedman's first function (1991); the last of six inputs is irrelevant."""
    product = np.sin(np.pi * x[:, 0] * x[:, 1])
    return 10.0 * product + 20.0 * np.square(x[:, 2] - 0.5) + 10.0 * x[:, 3] + 5.0 * x[:, 4]


def saddle(x: np.ndarray) -> np.ndarray:
    """A saddle of two inputs."""
    return np.sin(2.0 * x[:, 0]) - np.square(x[:, 1])


def corner_scale(x: np.ndarray) -> np.ndarray:
    """Small in one half of the square, growing towards the corner of the other."""
    return 0.1 + 0.5 * np.maximum(x[:, 0] + x[:, 1], 0.0)


def slope_and_wave(x: np.ndarray) -> np.ndarray:
    """A linear function plus a sine; the third input is irrelevant."""
    return x[:, 0] + np.sin(3.0 * x[:, 1])


def third_input_scale(x: np.ndarray) -> np.ndarray:
    """Grows with the third input."""
    return 0.25 + 0.15 * x[:, 2]


def parabola(x: np.ndarray) -> np.ndarray:
    """A parabola of one input."""
    return 1.5 * np.square(x[:, 0])


def opening_scale(x: np.ndarray) -> np.ndarray:
    """Humps that move apart."""
    return 0.6 + 0.4 * x[:, 0]


def level(x: np.ndarray) -> np.ndarray:
    """A positive factor of the noise, with an interaction."""
    return np.exp(0.8 * x[:, 0] + 0.4 * np.sin(3.0 * x[:, 1]) + 0.3 * x[:, 0] * x[:, 2])


SMALL_PROBLEMS = {
    problem.name: problem
    for problem in (
        SmallProblem("wave", "constant", 1, _box, wave, constant(0.25), GAUSSIAN),
        SmallProblem("ridge", "constant", 2, _normal, ridge, constant(0.4), GAUSSIAN),
        SmallProblem("plane", "constant", 4, _normal, plane, constant(0.5), GAUSSIAN),
        SmallProblem("friedman", "constant", 6, _unit_box, friedman, constant(1.0), GAUSSIAN),
        SmallProblem("corner", "grows in one corner", 2, _box, saddle, corner_scale, GAUSSIAN),
        SmallProblem("long_tail", "skewed", 3, _box, slope_and_wave, third_input_scale, SKEWED),
        SmallProblem("two_humps", "two humps", 1, _box, parabola, opening_scale, TWO_HUMPED),
        SmallProblem("product", "multiplicative", 3, _box, constant(0.0), level, LOG_NORMAL),
    )
}


def describe(problem: SmallProblem) -> str:
    """Description of a problem for the first column of a table."""
    inputs = "1 input" if problem.inputs == 1 else f"{problem.inputs} inputs"
    return f"{problem.name.replace('_', ' ')} ({inputs}, noise: {problem.noise})"
