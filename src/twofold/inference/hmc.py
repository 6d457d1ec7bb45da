"""Hamiltonian Monte Carlo on the model's joint density, with BlackJAX.

The density is ``log_joint`` of ``model.density``: that of weights, noise and latent inputs or, far
easier to sample, the same with every latent input integrated out. ``log σ²`` of each output has a
normal prior, or is fixed. A chain is a member of ``loop.run``, with one transition per epoch; step
size and diagonal mass matrix are tuned during warm-up on Stan's schedule, and the draws after it
are kept in the state, so that a chain can be stopped, stored and resumed like any other run.

Chains tend to get stuck in the first mode they reach. With *annealing*, each starts from its own
draw from the prior, and the power of the likelihood rises to 1 along the first transitions of the
warm-up, so that chains can still leave modes early on.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, cast

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.adaptation.mass_matrix import mass_matrix_adaptation
from blackjax.adaptation.staged_adaptation import build_schedule
from blackjax.adaptation.step_size import dual_averaging_adaptation

from twofold.core.arrays import Array, Bool, Float, Int, Key, Scalar
from twofold.core.numerics import Padded
from twofold.inference.loop import Algorithm, Chains, Index, Info, Result, Setup, bind
from twofold.inference.method import Method, integer, mean_and_deviation, number, option, optional
from twofold.model.density import default_nodes, latent_nodes, log_joint
from twofold.model.spec import BNNLV, SampledPosterior

INITIAL_STEP_SIZE = 1e-3
START_SCALE = 0.1
START_STREAM = 2**31 - 1  # larger than any transition
init_mass, update_mass, finish_mass = mass_matrix_adaptation()


@dataclass(frozen=True)
class Config:
    """Settings compiled into the program; z is integrated out over ``nodes`` (0: sampled)."""

    model: BNNLV
    method: "HMC | NUTS"
    nodes: int


@dataclass(frozen=True, kw_only=True)
class ChainMethod(Method):
    """Base class of Markov chains that use all data in every step, with their common options."""

    chains: int = option(4, integer(2))
    warmup: int = option(1000, integer(1))
    annealing: int = option(0, integer(0))
    samples: int = option(1000, integer(1))
    thin: int = option(1, integer(1))
    nodes: int | None = option(None, optional(integer(0)))
    target_acceptance: float = option(0.8, number("(0, 1)"))
    log_noise_prior: tuple[float, float] = option((-3.0, 2.0), mean_and_deviation)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.annealing >= self.warmup:
            raise ValueError(
                f"annealing must be less than warmup={self.warmup}, got {self.annealing}; lower it"
            )

    def config(self, model: BNNLV) -> Config:
        nodes = default_nodes(model) if self.nodes is None else self.nodes
        if nodes:
            latent_nodes(model, nodes)
        return Config(model, cast("HMC | NUTS", self), nodes)

    def set_up(self, model: BNNLV, sizes: np.ndarray, dtype: str) -> Setup:
        config = self.config(model)
        once, transitions = np.ones(len(sizes), int), self.warmup + self.samples * self.thin
        return Setup(config, build(config), jnp.zeros(()), transitions, once, "transitions")

    def finish(self, config: Config, states: "State", energies: np.ndarray, epochs: int) -> Result:
        kept = np.clip((len(energies) - self.warmup) // self.thin, 1, self.samples)
        drawn = Chains(states.weights[:, :kept], states.log_noise[:, :kept], states.divergences)
        draws = SampledPosterior.of_chains(*drawn[:2])
        return Result(jax.tree.map(np.asarray, draws), config.nodes, chains=drawn)


@dataclass(frozen=True, kw_only=True)
class HMC(ChainMethod):
    """Hamiltonian Monte Carlo with trajectories of a fixed number of steps.

    Parameters
    ----------
    chains : int
        Number of chains.
    warmup : int
        Number of transitions that tune step size and mass matrix and are discarded.
    annealing : int
        Number of warm-up transitions during which the power of the likelihood rises to 1; 0 for
        none.
    samples : int
        Number of draws kept per chain.
    thin : int
        Number of transitions per kept draw.
    nodes : int or None
        Number of nodes over which the latent input is integrated out; 0 samples z with the weights
        (None: enough for noise of a quarter of the deviation of y, and 0 for more than two latent
        inputs).
    target_acceptance : float in (0, 1)
        Target acceptance rate of the step-size tuning.
    log_noise_prior : pair of float
        Mean and deviation of ``log σ²`` of the noise, in standardised units; a deviation of 0 fixes
        it at the mean.
    leapfrog_steps : int
        Number of steps of a trajectory.
    """

    name: ClassVar[str] = "hmc"

    leapfrog_steps: int = option(32, integer(1))


@dataclass(frozen=True, kw_only=True)
class NUTS(ChainMethod):
    """The no-U-turn sampler: HMC whose trajectories end when they turn back. Options as for
    ``HMC``, with ``max_doublings`` (the maximum tree depth) instead of ``leapfrog_steps``."""

    name: ClassVar[str] = "nuts"

    max_doublings: int = option(8, integer(1))


class Position(NamedTuple):
    """Position of a chain; latents that are integrated out and fixed noise are left out."""

    weights: Float[Array, "P"]
    log_noise: Float[Array, "O"]
    latents: Float[Array, "N Z"]


class State(NamedTuple):
    """State of a chain: position and gradient, tuning, kept draws, divergences."""

    chain: Any
    step_size: Any
    mass: Any
    weights: Float[Array, "R P"]
    log_noise: Float[Array, "R O"]
    divergences: Int[Array, ""]


def noise_at(config: Config, position: Position) -> Float[Array, "O"]:
    """``log σ²``, sampled or fixed."""
    mean, deviation = config.method.log_noise_prior
    if deviation == 0:
        return jnp.full(config.model.outputs, mean, position.weights.dtype)
    return position.log_noise


def log_density(config: Config, data: Padded, power: Scalar, position: Position) -> Scalar:
    """Log-density of the target, up to a constant; ``power`` is that of the likelihood."""
    network = position.weights, noise_at(config, position)
    z, mask = None if config.nodes else position.latents, jnp.arange(data.x.shape[0]) < data.size
    options: Any = {"nodes": config.nodes, "log_noise_prior": config.method.log_noise_prior}
    options |= {"mask": data.weigh(mask), "power": power, "error": data.error}
    return log_joint(config.model, *network, data.x, data.y, z, **options)


def likelihood_power(config: Config, transition: Index) -> Scalar:
    """The fourth power of the completed fraction of the annealing, from almost 0 to 1."""
    if not config.method.annealing:
        return jnp.ones(())
    return jnp.minimum((transition + 1) / config.method.annealing, 1.0) ** 4


def start(config: Config, key: Key, data: Padded) -> Position:
    """A random start: small weights (from the prior with annealing), wide noise, prior latents."""
    model, dtype = config.model, data.x.dtype
    weight_key, latent_key = jax.random.split(jax.random.fold_in(key, START_STREAM))
    fixed = config.method.log_noise_prior[1] == 0
    rows = 0 if config.nodes else data.x.shape[0]
    deviation = jnp.sqrt(model.latent_variance).astype(dtype)
    wide = jnp.sqrt(model.weight_variance).astype(dtype)
    scale = wide if config.method.annealing else START_SCALE
    return Position(
        scale * jax.random.normal(weight_key, (model.num_weights,), dtype),
        jnp.zeros(0 if fixed else model.outputs, dtype),
        deviation * jax.random.normal(latent_key, (rows, model.latents), dtype),
    )


def init(config: Config, key: Key, data: Padded) -> State:
    position = start(config, key, data)
    dimensions = sum(part.size for part in position)
    step_size_init, _, _ = dual_averaging_adaptation(config.method.target_acceptance)
    method, dtype = config.method, data.x.dtype
    first = likelihood_power(config, jnp.zeros((), int)).astype(dtype)
    return State(
        blackjax.hmc.init(position, partial(log_density, config, data, first)),
        step_size_init(jnp.asarray(INITIAL_STEP_SIZE, dtype)),
        init_mass(dimensions),
        jnp.zeros((method.samples, config.model.num_weights), dtype),
        jnp.zeros((method.samples, config.model.outputs), dtype),
        jnp.zeros((), int),
    )


def transition(
    config: Config, key: Key, state: State, data: Padded, step_size: Scalar, power: Scalar
) -> tuple[Any, Any]:
    """One transition: the chain's new state, and BlackJAX's info. Trajectories of plain HMC vary in
    length by a fifth, so that they do not close on themselves."""
    key, jitter_key = jax.random.split(key)
    inverse_mass = state.mass.inverse_mass_matrix
    function = partial(log_density, config, data, power)
    if isinstance(config.method, HMC):
        kernel, length = blackjax.hmc.build_kernel(), config.method.leapfrog_steps
        step_size *= jax.random.uniform(jitter_key, (), step_size.dtype, 0.8, 1.2)
    else:
        kernel, length = blackjax.nuts.build_kernel(), config.method.max_doublings
    return kernel(key, state.chain, function, step_size, inverse_mass, length)


def anneal(config: Config, state: State, data: Padded, power: Scalar, epoch: Index) -> State:
    """The chain at the same position, under the new power of the likelihood."""
    if not config.method.annealing:
        return state
    function = partial(log_density, config, data, power)
    chain = jax.lax.cond(
        epoch < config.method.annealing,
        lambda: blackjax.hmc.init(state.chain.position, function),
        lambda: state.chain,
    )
    return state._replace(chain=chain)


def tune(
    config: Config,
    state: State,
    acceptance: Scalar,
    slow: Bool[Array, ""],
    window_ends: Bool[Array, ""],
) -> tuple[Any, Any]:
    """Adapt the step size after every transition, the mass matrix at window ends (as Stan)."""
    step_init, step_update, step_final = dual_averaging_adaptation(config.method.target_acceptance)
    step_size = step_update(state.step_size, acceptance)
    mass = jax.lax.cond(
        slow, lambda: update_mass(state.mass, state.chain.position), lambda: state.mass
    )
    return jax.lax.cond(
        window_ends,
        lambda: (step_init(step_final(step_size)), finish_mass(mass)),
        lambda: (step_size, mass),
    )


def step(
    config: Config, key: Key, state: State, data: Padded, schedule: Any, epoch: Index
) -> tuple[State, Info]:
    """One transition, with tuning during warm-up and draws kept afterwards."""
    warmup, tuning = config.method.warmup, state.step_size
    warm = epoch < warmup
    step_size = jnp.exp(jnp.where(warm, tuning.log_step_size, tuning.log_step_size_avg))
    power = likelihood_power(config, epoch).astype(data.x.dtype)
    state = anneal(config, state, data, power, epoch)
    chain, report = transition(config, key, state, data, step_size, power)
    state = state._replace(chain=chain)

    stage = jnp.asarray(build_schedule(warmup))[jnp.minimum(epoch, warmup - 1)]
    step_size_state, mass = jax.lax.cond(
        warm,
        lambda: tune(config, state, report.acceptance_rate, stage[0] == 1, stage[1] == 1),
        lambda: (state.step_size, state.mass),
    )
    # During warm-up all draws go to the first slot, which the first kept draw overwrites.
    slot = jnp.maximum(epoch - warmup, 0) // config.method.thin
    weights = state.weights.at[slot].set(chain.position.weights)
    log_noise = state.log_noise.at[slot].set(noise_at(config, chain.position))
    divergences = state.divergences + (report.is_divergent & ~warm)
    new = State(chain, step_size_state, mass, weights, log_noise, divergences)
    lost = ~jnp.isfinite(chain.logdensity)
    return new, Info(-chain.logdensity / data.size, lost.astype(int))


def build(config: Config) -> Algorithm:
    """The algorithm for ``loop.run``, with one data set per chain."""
    return bind(init, step, config)
