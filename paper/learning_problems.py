"""The problems of the paper's active learning (§4): initial data, pools, and the true process.

Everything depends only on the seed of a repetition. Pools and measurement noise are the same for
all methods of a repetition, so methods differ only in their choices.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
from scipy.special import log_ndtr, logsumexp
from scipy.stats import norm

from paper.transitions import random_transitions, uniform_transitions
from twofold.active import Data
from twofold.envs import wet_chicken
from twofold.envs.toy import TOY_PROBLEMS, ToyProblem

POOL_STREAM, NOISE_STREAM = 2, 3
RIVER = wet_chicken.PAPER


@dataclass(frozen=True)
class LearningProblem:
    """Initial data and test data for a seed, and the box of candidates.

    ``respond`` gives the outputs at inputs; ``log_density`` is that of the true process, convolved
    with Gaussian noise of a given deviation if the process has no density.
    """

    name: str
    low: np.ndarray
    high: np.ndarray
    initial: Callable[[int], Data]
    test: Callable[[int], Data]
    respond: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    log_density: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]

    def pool(self, seed: int, number: int, size: int) -> np.ndarray:
        """Candidates of a round, uniform over the box."""
        rng = np.random.default_rng([seed, POOL_STREAM, number])
        return rng.uniform(self.low, self.high, (size, len(self.low)))

    def measure(self, seed: int, number: int, x: np.ndarray) -> np.ndarray:
        """Outputs at the points chosen in a round."""
        return self.respond(np.random.default_rng([seed, NOISE_STREAM, number]), x)


def on_a_line(toy: ToyProblem) -> LearningProblem:
    """A learning problem from a toy problem."""
    return LearningProblem(
        toy.name,
        np.array([toy.low]),
        np.array([toy.high]),
        lambda seed: Data(*toy.training_data(seed)),
        lambda seed: Data(*toy.test_data(seed)),
        lambda rng, x: toy.sample_outputs(rng, x[:, 0]),
        lambda x, y, blur: toy.log_density(x[:, 0], y),
    )


def _river_initial(seed: int) -> Data:
    inputs, targets = random_transitions(jax.random.key(seed), 7500)
    return Data(inputs.astype(float), targets.astype(float))


def _river_test(seed: int) -> Data:
    key = jax.random.fold_in(jax.random.key(seed), 1)
    inputs, targets = uniform_transitions(key, 2500)
    return Data(inputs.astype(float), targets.astype(float))


@jax.jit
def _steps(states: jax.Array, actions: jax.Array, turbulences: jax.Array) -> jax.Array:
    return jax.vmap(lambda *one: wet_chicken.step(RIVER, *one))(states, actions, turbulences)


def _river_respond(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    turbulences = rng.uniform(-1.0, 1.0, len(x))
    return np.asarray(_steps(x[:, :2], x[:, 2:], turbulences), float)


def river_log_density(x: np.ndarray, y: np.ndarray, blur: np.ndarray) -> np.ndarray:
    """``log p(y | x)`` of the river, convolved with Gaussian noise of the deviations ``blur``.

    Without that noise there is no density: the canoe falls to the origin or lands at y = 0 with
    positive probability, and without a fall the next x is deterministic. Otherwise the next y is
    uniform.
    """
    across, along, paddle_across, paddle_along = x.T
    centre = along + paddle_along - RIVER.setback + np.asarray(wet_chicken.drift(RIVER, across))
    reach = np.asarray(wet_chicken.turbulence_magnitude(RIVER, across))
    low, high = centre - reach, centre + reach
    inside = np.clip(low, 0.0, RIVER.length), np.clip(high, 0.0, RIVER.length)
    width = 2.0 * reach
    falls = np.clip((high - RIVER.length) / width, 0.0, 1.0)
    lands = np.clip(-low / width, 0.0, 1.0)
    next_x = norm.logpdf(y[:, 0], np.clip(across + paddle_across, 0.0, RIVER.width), blur[0])
    at_zero = norm.logpdf(y[:, 1], 0.0, blur[1])
    between = _log_uniform_mass((y[:, 1] - inside[1]) / blur[1], (y[:, 1] - inside[0]) / blur[1])
    with np.errstate(divide="ignore"):
        terms = [
            np.log(falls) + norm.logpdf(y[:, 0], 0.0, blur[0]) + at_zero,
            np.log(lands) + next_x + at_zero,
            next_x + between - np.log(width),
        ]
    return logsumexp(terms, axis=0)


def _log_uniform_mass(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """``log(Φ(high) − Φ(low))`` for ``low ≤ high``, without cancellation in the upper tail."""
    mirrored = low > 0
    a, b = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = log_ndtr(b) + np.log1p(-np.exp(log_ndtr(a) - log_ndtr(b)))
    return np.where(a < b, difference, -np.inf)


WET_CHICKEN = LearningProblem(
    "wet_chicken",
    np.array([0.0, 0.0, -1.0, -1.0]),
    np.array([RIVER.width, RIVER.length, 1.0, 1.0]),
    _river_initial,
    _river_test,
    _river_respond,
    river_log_density,
)
LEARNING_PROBLEMS = {toy.name: on_a_line(toy) for toy in TOY_PROBLEMS.values()}
LEARNING_PROBLEMS[WET_CHICKEN.name] = WET_CHICKEN
