"""Microcanonical Langevin chains that continue from the members of an ensemble, with BlackJAX.

Following Sommer et al. (2025) and Robnik et al. (2023), a chain moves at constant speed through the
posterior with the latent input integrated out; the gradient and a little noise change its
direction. No step is rejected, so the energy error of a step biases the draws. The error must be
small compared with the information in the data: its mean square is kept at ``energy_error`` per
dimension, and at half of that per row if there are fewer rows than weights (otherwise, an error
that is small for each of many weights can outweigh the likelihood of a small table, and the chain
attributes all structure to noise). The step size is adapted throughout; the momentum decoherence
length follows the spread of the positions. With ``adjusted``, each trajectory of STEPS steps is
accepted or rejected instead.

A chain begins on the rows that its member trained on, in stages, each twice as long as the previous
one, while the score of its held-out rows improves. It then continues on all rows. In the first half
of a stage the tolerated energy error is EARLY_FACTOR times as large (unless adjusted), because
longer steps reach the typical set sooner; only draws of the second half are kept. On all rows it is
LATE_FACTOR times as large in that half (unless adjusted): the bias of longer steps hardly affects
predictions, but shows in the epistemic part.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.mcmc import adjusted_mclmc, mclmc
from blackjax.mcmc.hmc import HMCState
from blackjax.mcmc.integrators import isokinetic_velocity_verlet

from twofold.core.arrays import Array, Bool, Float, Key, Scalar
from twofold.core.numerics import Padded
from twofold.inference.ensemble import DEFAULT_NODES, Ensemble, Network
from twofold.inference.loop import Index, Info, Setup, bind
from twofold.inference.method import Method, check_flag, check_positive, integer, option, optional
from twofold.model.density import LOG_NOISE_PRIOR, LOG_ODDS_PRIOR, log_joint
from twofold.model.spec import BNNLV

STEPS = 25
LARGEST_ERROR = 2.0
FIRST_STEP = 0.1
ADAPTATION = 0.01
ERROR_PER_ROW = 0.5
ACCEPTANCE, ACCEPTANCE_ADAPTATION = 0.8, 0.2
MEMORY = 1_000.0
MOST_STEPS = 16_000
WORK = 3e6  # rows × weights × values of z, up to which chains may take the maximum number of steps
STAGES = (32, 16, 8, 4, 2)  # fractions of the maximum number of steps
EARLY_FACTOR, LATE_FACTOR = 5.0, 0.25


@dataclass(frozen=True)
class Config:
    """Settings compiled into the program: ``samples`` draws are kept per chain."""

    model: BNNLV
    nodes: int
    samples: int
    energy_error: float
    adjusted: bool = False


@dataclass(frozen=True, kw_only=True)
class Langevin(Method):
    """Microcanonical Langevin chains from the members of an ensemble: the default.

    Parameters
    ----------
    chains : int
        Number of ensemble members and of chains.
    folds : int
        Number of folds; each member, and its chain until the last stage, holds out one of them.
    samples : int
        Number of draws kept per chain.
    nodes : int
        As for ``Ensemble``.
    steps : int or None
        Maximum number of steps of a chain on all rows (None: 16,000; fewer for large tables and
        networks, and with a latent input). The first stage on part of the rows takes 1/32 of them,
        the one on all rows twice as many as the last stage that improved the score of the held-out
        rows, and at least a quarter of ``steps``.
    energy_error : float
        Mean square of the energy error of a step, per dimension; on all rows, a quarter of it while
        draws are kept.
    adjusted : bool
        Accept or reject trajectories: unbiased, but slower.
    updates, batch_size, learning_rate :
        As for ``Ensemble``, for the members.
    """

    name: ClassVar[str] = "langevin"
    form: ClassVar[str] = "varying"
    staged: ClassVar[bool] = True

    chains: int = option(8, integer(2))
    folds: int = option(4, integer(2))
    samples: int = option(12, integer(1))
    nodes: int = option(DEFAULT_NODES, integer(1))
    steps: int | None = option(None, optional(integer(1)))
    energy_error: float = option(0.02, check_positive)
    adjusted: bool = option(False, check_flag)
    updates: int | None = option(None, optional(integer(1)))
    batch_size: int = option(256, integer(1))
    learning_rate: float = option(0.03, check_positive)

    def set_up(self, model: BNNLV, sizes: np.ndarray, dtype: str) -> Setup:
        """Set up the run of the members."""
        return self.members.set_up(model, sizes, dtype)

    def stages(self, model: BNNLV, rows: int) -> list[int]:
        """Maximum steps of each stage with held-out rows; fewer where a step is costly."""
        values = 2 * (model.latent_levels or self.nodes) if model.latents else 1
        work = rows * model.num_weights * values
        steps = self.steps or int(MOST_STEPS * min(1.0, WORK / work) ** 0.5)
        return [max(1, steps // part) for part in STAGES]

    @property
    def members(self) -> Ensemble:
        """The ensemble that the chains start from."""
        shared = ("folds", "nodes", "updates", "batch_size", "learning_rate")
        return Ensemble(members=self.chains, **{name: getattr(self, name) for name in shared})


class Problem(NamedTuple):
    """A chain's problem: data, mask of its rows, starting point, initial step size, and the factor
    of the tolerated energy error in the second half."""

    data: Padded
    counted: Bool[Array, "N"]
    start: Network
    step_size: Scalar
    late_factor: Scalar


class State(NamedTuple):
    """State of a chain: BlackJAX's state, log step size, running mean and mean square of the
    position, draws, and running mean square of the energy errors."""

    chain: Any
    log_step: Scalar
    mean: Float[Array, "d"]
    square: Float[Array, "d"]
    weights: Float[Array, "R P"]
    log_noise: Float[Array, "R noise"]
    error: Scalar


def noise_prior(model: BNNLV) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the prior of ``log_noise``."""
    pairs = [LOG_NOISE_PRIOR] * model.outputs + [LOG_ODDS_PRIOR] * model.varying_noise
    centre, deviation = np.array(pairs).T
    return centre, deviation


def to_position(model: BNNLV, network: Network) -> Float[Array, "d"]:
    """Coordinates in which the prior is standard normal."""
    centre, deviation = noise_prior(model)
    dtype = network.weights.dtype
    noise = (network.log_noise - centre.astype(dtype)) / deviation.astype(dtype)
    return jnp.concatenate([network.weights / model.weight_variance**0.5, noise]).astype(dtype)


def from_position(model: BNNLV, position: Float[Array, "d"]) -> Network:
    """The network at a position."""
    centre, deviation = (jnp.asarray(part, position.dtype) for part in noise_prior(model))
    weights, noise = position[: model.num_weights], position[model.num_weights :]
    return Network(model.weight_variance**0.5 * weights, centre + deviation * noise)


def log_posterior(config: Config, problem: Problem, position: Float[Array, "d"]) -> Scalar:
    """``log p(W, Σ | X, y)`` up to a constant."""
    network, data = from_position(config.model, position), problem.data
    mask = data.weigh(problem.counted)
    # Reduced-precision matrix products of a GPU would look like energy errors.
    with jax.default_matmul_precision("highest"):
        options: Any = {"nodes": config.nodes, "mask": mask, "error": data.error}
        return log_joint(config.model, *network, data.x, data.y, **options)


def init(config: Config, key: Key, problem: Problem) -> State:
    """Initial state: a random direction and no draws."""
    position = to_position(config.model, problem.start)
    chain = mclmc.init(position, lambda p: log_posterior(config, problem, p), key)
    model, dtype = config.model, position.dtype
    return State(
        chain,
        jnp.log(problem.step_size),
        position,
        jnp.zeros_like(position),
        jnp.broadcast_to(problem.start.weights, (config.samples, model.num_weights)).astype(dtype),
        jnp.broadcast_to(problem.start.log_noise, (config.samples, model.num_noise)).astype(dtype),
        jnp.zeros((), dtype),
    )


def tolerated_error(config: Config, problem: Problem, dimension: int) -> Scalar:
    """Tolerated mean square of the energy error of a step, per dimension."""
    of_rows = ERROR_PER_ROW * jnp.sum(problem.counted) / dimension
    return config.energy_error * jnp.minimum(1.0, of_rows)


def momentum_length(state: State) -> Scalar:
    """The momentum decoherence length: the spread of the positions."""
    spread = jnp.sqrt(jnp.maximum(jnp.sum(state.square), 0.0))
    return jnp.clip(spread, 10.0 * jnp.exp(state.log_step), state.mean.shape[0] ** 0.5)


def learn(state: State, chain: Any, change: Array, error: Array, number: Any) -> State:
    """Update the running estimates of step size and spread."""
    weight = 1.0 / jnp.minimum(number + 1.0, MEMORY)
    before = chain.position - state.mean
    mean = state.mean + weight * before
    square = state.square + weight * (before * (chain.position - mean) - state.square)
    error = state.error + 0.01 * (error - state.error)
    log_step = state.log_step + change
    return State(chain, log_step, mean, square, state.weights, state.log_noise, error)


def move(
    config: Config, key: Key, state: State, problem: Problem, number: Index, early: Bool[Array, ""]
) -> State:
    """One unadjusted step; a non-finite step is skipped."""
    dimension = state.mean.shape[0]
    limit = {"desired_energy_var_max_ratio": 1.0, "desired_energy_var": LARGEST_ERROR**2}
    kernel = mclmc.build_kernel(isokinetic_velocity_verlet, **limit)
    target = partial(log_posterior, config, problem)
    length, step_size = momentum_length(state), jnp.exp(state.log_step)
    moved, info = kernel(key, state.chain, target, 1.0, length, step_size)
    skipped = jnp.all(moved.position == state.chain.position)
    error = jnp.where(skipped, LARGEST_ERROR**2, jnp.square(info.energy_change) / dimension)
    factor = jnp.where(early, EARLY_FACTOR, problem.late_factor)
    excess = error / (factor * tolerated_error(config, problem, dimension))
    return learn(state, moved, ADAPTATION * jnp.clip(1.0 - excess, -5.0, 1.0), error, number)


def propose(config: Config, key: Key, state: State, problem: Problem, number: Index) -> State:
    """A trajectory of STEPS steps, accepted or rejected."""
    chain, target = state.chain, partial(log_posterior, config, problem)
    kernel = adjusted_mclmc.build_kernel(isokinetic_velocity_verlet)
    start = HMCState(chain.position, chain.logdensity, chain.logdensity_grad)
    proposal, info = kernel(key, start, target, jnp.exp(state.log_step), (STEPS,))
    moved = chain._replace(**proposal._asdict())
    rate = jnp.nan_to_num(info.acceptance_rate)
    change = ACCEPTANCE_ADAPTATION * (rate - ACCEPTANCE)
    return learn(state, moved, change, jnp.zeros_like(state.error), number)


def step(
    config: Config, key: Key, state: State, problem: Problem, epochs: Index, epoch: Index
) -> tuple[State, Info]:
    """STEPS steps; draws are kept at even intervals in the second half of a stage."""
    past_half = 2 * (epoch + 1) - epochs
    early = past_half <= 0

    def one_step(index: Any, state: State) -> State:
        step_key, number = jax.random.fold_in(key, index), epoch * STEPS + index
        return move(config, step_key, state, problem, number, early)

    if config.adjusted:
        state = propose(config, key, state, problem, epoch)
    else:
        state = jax.lax.fori_loop(0, STEPS, one_step, state)
    slot = jnp.clip(-(-config.samples * past_half // epochs) - 1, 0, config.samples - 1)
    slot = jnp.where(epoch == 0, 0, slot)
    open_slots = jnp.arange(config.samples)[:, None] >= slot
    network = from_position(config.model, state.chain.position)
    weights = jnp.where(open_slots, network.weights, state.weights)
    log_noise = jnp.where(open_slots, network.log_noise, state.log_noise)
    state = state._replace(weights=weights, log_noise=log_noise)
    energy = -state.chain.logdensity / jnp.maximum(jnp.sum(problem.counted), 1)
    return state, Info(energy, (~jnp.isfinite(energy)).astype(int))


def set_up(config: Config, epochs: int, sets: int) -> Setup:
    """Set up a stage of this many epochs."""
    algorithm, unit = bind(init, step, config), f"× {STEPS} steps"
    return Setup(config, algorithm, jnp.int32(epochs), epochs, np.ones(sets, int), unit)
