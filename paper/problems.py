"""The problems on which posteriors are compared, with a common interface.

Each has a known truth: the paper's toys, two harder ones (``SKEWED``: one-sided long-tailed noise
that grows with x; ``MERGING``: three branches that merge), and the wet-chicken river, whose next y
is uniform, and so has a density, wherever the canoe can neither land at y = 0 nor fall.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial import cKDTree
from scipy.special import logsumexp
from scipy.stats import beta, gumbel_r, norm

from paper.transitions import random_transitions, uniform_transitions
from twofold.envs import wet_chicken
from twofold.envs.toy import TOY_PROBLEMS, Generator, ToyProblem

POINTS = 100
TEST_SIZE = 500
TRAINING_SIZE = 750
NEIGHBOURS = 10

Data = tuple[np.ndarray, np.ndarray]
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
    """Entropy of a Gumbel distribution: ``log scale + γ + 1``."""
    return np.log(_skewed_scale(x)) + np.euler_gamma + 1.0


def _two_heaps_inputs(rng: Generator, size: int) -> np.ndarray:
    right = rng.uniform(size=size) < 1.0 / 3.0
    return rng.normal(np.where(right, 2.2, 0.5), np.where(right, 0.25, 0.35))


def _two_heaps_density(x: np.ndarray) -> np.ndarray:
    return (2.0 * norm.pdf(x, 0.5, 0.35) + norm.pdf(x, 2.2, 0.25)) / 3.0


def _branches(x: np.ndarray) -> np.ndarray:
    """Centres of the three branches (first axis); they meet at x = 2."""
    gap = 2.5 * np.maximum(1.0 - 0.5 * x, 0.0)
    return np.sin(2.0 * x) + np.stack([-gap, np.zeros_like(gap), gap])


def _merging_outputs(rng: Generator, x: np.ndarray) -> np.ndarray:
    chosen = rng.integers(3, size=x.shape)
    centre = np.take_along_axis(_branches(x), chosen[None], axis=0)[0]
    return centre + 0.3 * rng.standard_normal(x.shape)


def _merging_log_density(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return logsumexp(norm.logpdf(y, _branches(x), 0.3), axis=0) - np.log(3.0)


def _merging_entropy(x: np.ndarray) -> np.ndarray:
    """Entropy by the trapezoidal rule, ten deviations around all branches."""
    y = np.linspace(-8.0, 8.0, 3201)
    repeated = np.broadcast_to(np.asarray(x)[..., None], (*np.shape(x), y.size))
    log_density = _merging_log_density(repeated, y)
    return -np.trapezoid(np.exp(log_density) * log_density, y, axis=-1)


SKEWED = ToyProblem(
    "skewed", 0.0, RANGE, _beta_inputs, _skewed_outputs, _skewed_log_density, _skewed_entropy,
    _beta_density,
)  # fmt: skip
MERGING = ToyProblem(
    "merging", -0.3, 2.7, _two_heaps_inputs, _merging_outputs, _merging_log_density,
    _merging_entropy, _two_heaps_density,
)  # fmt: skip
ONE_DIMENSIONAL = TOY_PROBLEMS | {problem.name: problem for problem in (SKEWED, MERGING)}


@dataclass(frozen=True)
class Problem:
    """Training data, test data and evaluation points; all but the densities depend on a seed.

    ``inside`` gives points within the range of the data, ``plentiful`` a mask of those with many
    data nearby, ``outside`` points at a distance from the range, in units of half of the range.
    """

    name: str
    training: Callable[[int], Data]
    test: Callable[[int], Data]
    inside: Callable[[int], np.ndarray]
    plentiful: Callable[[int], np.ndarray]
    outside: Callable[[int, float], np.ndarray]
    log_density: Callable[[np.ndarray, np.ndarray], np.ndarray]
    entropy: Callable[[np.ndarray], np.ndarray]


def on_a_line(toy: ToyProblem) -> Problem:
    """A problem with one input."""

    def inside(seed: int) -> np.ndarray:
        x, _ = toy.training_data(seed)
        low, high = max(toy.low, x.min()), min(toy.high, x.max())
        return np.linspace(low, high, POINTS)[:, None]

    def plentiful(seed: int) -> np.ndarray:
        density = toy.input_density(inside(seed)[:, 0])
        return density > np.median(density)

    def outside(seed: int, distance: float) -> np.ndarray:
        x = inside(seed)
        low, high = x[0, 0], x[-1, 0]
        reach = distance * 0.5 * (high - low)
        return np.array([[low - reach], [high + reach]])

    return Problem(
        toy.name,
        toy.training_data,
        lambda seed: toy.test_data(seed, TEST_SIZE),
        inside,
        plentiful,
        outside,
        lambda x, y: toy.log_density(x[:, 0], y),
        lambda x: toy.entropy(x[:, 0]),
    )


def _river_training(seed: int) -> Data:
    inputs, targets = random_transitions(jax.random.key(seed), TRAINING_SIZE)
    return inputs.astype(float), targets[:, 1].astype(float)


def free(inputs: np.ndarray) -> np.ndarray:
    """Whether the canoe can neither land at y = 0 nor fall, whatever the turbulence."""
    x, y, _, paddle = inputs.T
    river = wet_chicken.PAPER
    centre = y + paddle - river.setback + np.asarray(wet_chicken.drift(river, x))
    reach = np.asarray(wet_chicken.turbulence_magnitude(river, x))
    return (centre - reach > 0.0) & (centre + reach < river.length)


def _river_free(seed: int, stream: int, size: int) -> Data:
    key = jax.random.fold_in(jax.random.key(seed), stream)
    inputs, targets = uniform_transitions(key, 40 * size)
    chosen = np.flatnonzero(free(inputs))[:size]
    return inputs[chosen].astype(float), targets[chosen, 1].astype(float)


def _river_entropy(inputs: np.ndarray) -> np.ndarray:
    reach = wet_chicken.turbulence_magnitude(wet_chicken.PAPER, jnp.asarray(inputs[:, 0]))
    return np.log(2.0 * np.asarray(reach))


def _river_inside(seed: int) -> np.ndarray:
    return _river_free(seed, 1, POINTS)[0]


def _river_plentiful(seed: int) -> np.ndarray:
    """Mask of the half of the points with the nearest tenth neighbour in the data."""
    x, _ = _river_training(seed)
    scale = x.std(axis=0)
    distance, _ = cKDTree(x / scale).query(_river_inside(seed) / scale, k=NEIGHBOURS)
    return distance[:, -1] <= np.median(distance[:, -1])


def _river_outside(seed: int, distance: float) -> np.ndarray:
    """Points outside the box of states and actions, on rays from its centre through the inside
    points."""
    river = wet_chicken.PAPER
    low = np.array([0.0, 0.0, -1.0, -1.0])
    high = np.array([river.width, river.length, 1.0, 1.0])
    centre, half = 0.5 * (low + high), 0.5 * (high - low)
    direction = (_river_inside(seed) - centre) / half
    surface = direction / np.abs(direction).max(axis=1, keepdims=True)
    return centre + (1.0 + distance) * half * surface


WET_CHICKEN = Problem(
    "wet_chicken",
    _river_training,
    lambda seed: _river_free(seed, 2, TEST_SIZE),
    _river_inside,
    _river_plentiful,
    _river_outside,
    lambda x, y: -_river_entropy(x),
    _river_entropy,
)

PROBLEMS = {toy.name: on_a_line(toy) for toy in ONE_DIMENSIONAL.values()}
PROBLEMS[WET_CHICKEN.name] = WET_CHICKEN
