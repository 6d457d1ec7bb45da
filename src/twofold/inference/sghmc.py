"""Stochastic-gradient Hamiltonian Monte Carlo from the members of an ensemble, with BlackJAX.

A chain learns as a member of an anchored ensemble does (``inference.ensemble``, all data counting
the same) for the first LEARNING of the run; then it walks in the posterior (``model.density``)
by the diffusion of Chen et al. (2014), each step on the gradient of one minibatch,

    u ← u + ε p,    p ← (1 − f) p + ε ∇̂ log p(u | X, y) + √(2 f − ε² N/B) ξ,

in coordinates u in which all directions are about equally stiff: a weight is scaled by the root of
``N B v + 1/λ``, v being Adam's mean square of its minibatch gradient, so that ``N B v`` estimates
its Fisher information. There the noise of a minibatch's gradient has variance N/B, which is what is
taken off the injected one. Draws are kept at even distances over the second half of the walk. A
chain that runs away, to weights the prior does not know, goes back to where its walk began.

To forget its beginning along a direction that nothing but its own curvature holds, a walk takes
``f/ε²`` steps: more than the default run has. What comes out is an ensemble whose members have been
loosened along what the data leave open, not a set of chains that have mixed.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.sgmcmc import diffusions

from twofold.core.arrays import Array, Bool, Float, Int, Key
from twofold.core.numerics import Padded
from twofold.inference import ensemble
from twofold.inference.ensemble import Network, integrating_nodes
from twofold.inference.loop import (
    Algorithm,
    Batch,
    Info,
    Result,
    Schedule,
    bind,
    deal,
    each_batch,
)
from twofold.inference.method import (
    MinibatchMethod,
    check_flag,
    check_positive,
    integer,
    mean_and_deviation,
    number,
    option,
    optional,
)
from twofold.model.density import latent_nodes, log_marginal, log_normaliser, log_prior
from twofold.model.spec import BNNLV, SampledPosterior

LEARNING = 0.7
ADAM_DECAY = 0.999
RUNAWAY = 8.0  # In deviations of the prior.


@dataclass(frozen=True)
class Config:
    """What is compiled into the program.

    ``samples`` draws are kept of each chain; ``step_size`` is ε and ``friction`` f.
    """

    model: BNNLV
    batch_size: int
    nodes: int
    samples: int
    step_size: float
    friction: float
    start: float
    log_noise_prior: tuple[float, float]

    @property
    def member(self) -> ensemble.Config:
        """How a chain learns before it walks."""
        return ensemble.Config(
            self.model, self.batch_size, self.nodes, 0.0, self.start, self.log_noise_prior
        )


@dataclass(frozen=True, kw_only=True)
class SGHMC(MinibatchMethod):
    """Stochastic-gradient Hamiltonian Monte Carlo from the members of an ensemble.

    Parameters
    ----------
    chains : int
        Number of chains.
    samples : int
        Draws that are kept of each chain.
    nodes : int or None
        Number of nodes over which the latent input is integrated out (None: enough for noise of a
        quarter of the deviation of y).
    step_size, friction : float
        ε and f of the diffusion.
    start : float in (0, 1]
        The part of its anchor at which a chain starts.
    log_noise_prior : pair of float
        Mean and deviation of ``log σ²`` of the noise, in standardised units.
    epochs : int or None
        Passes over the data; None gives at least 100 passes and 5,000 updates.
    batch_size : int
        Rows of a minibatch.
    learning_rate : float
        Adam's rate while a chain learns.
    learning_rate_decay : bool
        Whether the rate falls to zero along half a cosine.
    """

    name: ClassVar[str] = "sghmc"
    min_updates: ClassVar[int] = 5_000

    chains: int = option(32, integer(2))
    samples: int = option(4, integer(1))
    nodes: int | None = option(None, optional(integer(1)))
    step_size: float = option(0.003, check_positive)
    friction: float = option(0.1, number("(0, 1]"))
    start: float = option(0.3, number("(0, 1]"))
    log_noise_prior: tuple[float, float] = option((-3.0, 2.0), mean_and_deviation(fixed=False))
    epochs: int | None = option(None, optional(integer(1)))
    batch_size: int = option(75, integer(1))
    learning_rate: float = option(1e-2, check_positive)
    learning_rate_decay: bool = option(True, check_flag)

    @property
    def runs(self) -> int:
        """The chains."""
        return self.chains

    @property
    def weight_sets(self) -> int:
        """The draws."""
        return self.samples

    def config(self, model: BNNLV, batch_size: int) -> Config:
        """What is compiled into the program."""
        return Config(
            model,
            batch_size,
            integrating_nodes(model, self.nodes),
            self.samples,
            self.step_size,
            self.friction,
            self.start,
            self.log_noise_prior,
        )

    def build(self, config: Config) -> Algorithm:
        """The algorithm for ``loop.run``."""
        return build(config)

    def finish(self, config: Config, states: Any, energies: np.ndarray, epochs: int) -> Result:
        """The draws of all chains together."""
        return Result(jax.tree.map(np.asarray, posterior(states)), config.nodes)


class State(NamedTuple):
    """A chain: the member whose network it moves, where its walk began, its momentum, its draws."""

    member: ensemble.State
    home: Network
    momentum: Network
    weights: Float[Array, "R P"]
    log_noise: Float[Array, "R O"]


def learning_epochs(epochs: Int[Array, ""]) -> Int[Array, ""]:
    """How many epochs a chain learns before it walks: at least one."""
    return jnp.maximum((LEARNING * epochs).astype(int), 1)


def log_posterior(config: Config, network: Network, batch: Batch) -> Float[Array, ""]:
    """The minibatch estimate of ``log p(W, Σ | X, y)``, up to a constant."""
    model, nodes = config.model, latent_nodes(config.model, config.nodes)
    weights, log_noise = network.weights[None], network.log_noise[None]
    terms = log_marginal(model, weights, log_noise, batch.x, batch.y, nodes)[0]
    share = batch.num_data / jnp.maximum(batch.size, 1)
    likelihood = share * jnp.sum(batch.importance * terms)
    prior = log_prior(model, *network, log_noise_prior=config.log_noise_prior)
    return likelihood + prior + log_normaliser(model)


def stiffness(config: Config, member: ensemble.State, size: Int[Array, ""]) -> Network:
    """Roots of the estimated precision of each parameter, from Adam's mean squares."""
    moments = member.moments
    squares = jax.tree.map(lambda nu: nu / (1.0 - ADAM_DECAY**moments.count), moments.nu)
    prior = 1.0 / config.model.weight_variance, config.log_noise_prior[1] ** -2
    rows = size.astype(member.anchor.dtype) * config.batch_size
    return Network(*(jnp.sqrt(rows * s + p) for s, p in zip(squares, prior, strict=True)))


def walk(
    config: Config, key: Key, state: State, batch: Batch, scale: Network, nonempty: Bool[Array, ""]
) -> tuple[State, Float[Array, ""], Bool[Array, ""]]:
    """One step on a minibatch; one that runs away, or is not finite, ends at home, at rest.

    Returns the energy per datum before the step, and whether that was finite.
    """
    epsilon, friction = config.step_size, config.friction
    network = state.member.network
    density, gradient = jax.value_and_grad(partial(log_posterior, config))(network, batch)
    gradient = jax.tree.map(jnp.divide, gradient, scale)
    position = jax.tree.map(jnp.multiply, network, scale)
    # BlackJAX's noise has variance ε (2 a − ε b); no more is taken off than half of it.
    rate = friction / epsilon
    taken = jnp.minimum(batch.num_data / config.batch_size, rate / epsilon)
    integrator = diffusions.sghmc(rate, taken)
    position, momentum = integrator(key, position, state.momentum, gradient, epsilon)
    moved = jax.tree.map(jnp.divide, position, scale)
    known = RUNAWAY * jnp.sqrt(config.model.weight_variance)
    farthest = jnp.maximum(known, 2.0 * jnp.max(jnp.abs(state.home.weights)))
    sound = jnp.isfinite(density) & jnp.all(jnp.abs(moved.weights) < farthest)
    for leaf in (moved.log_noise, *momentum):
        sound &= jnp.all(jnp.isfinite(leaf))
    at_rest = jax.tree.map(jnp.zeros_like, momentum)
    network, momentum = jax.tree.map(
        lambda new, home, old: jnp.where(nonempty, jnp.where(sound, new, home), old),
        (moved, momentum),
        (state.home, at_rest),
        (network, state.momentum),
    )
    member = state.member._replace(network=network)
    energy = -density / batch.num_data
    return state._replace(member=member, momentum=momentum), energy, jnp.isfinite(energy)


def init(config: Config, key: Key, data: Padded) -> State:
    """A member that has learned nothing, at rest, with no draws."""
    member, dtype = ensemble.init(config.member, key, data), data.x.dtype
    return State(
        member,
        member.network,
        jax.tree.map(jnp.zeros_like, member.network),
        jnp.zeros((config.samples, config.model.num_weights), dtype),
        jnp.zeros((config.samples, config.model.outputs), dtype),
    )


def walk_epoch(
    config: Config, key: Key, state: State, data: Padded, schedule: Schedule
) -> tuple[State, Info]:
    """One pass over the data, a step on each minibatch."""
    deal_key, noise_key = jax.random.split(key)
    everything = jnp.ones(data.x.shape[:1], data.x.dtype)
    batches, batch = deal(deal_key, data, everything, config.batch_size)
    scale = stiffness(config, state.member, data.num_data)

    def on_batch(state: State, index: Any, nonempty: Any) -> Any:
        step_key = jax.random.fold_in(noise_key, index)
        return walk(config, step_key, state, batch(index), scale, nonempty)

    return each_batch(on_batch, state, batches, schedule.batches, data.x.dtype)


def keep(config: Config, state: State, epoch: Int[Array, ""], schedule: Schedule) -> State:
    """Write where the chain stands into its slot and all later ones: slots take their turns over
    the second half of the walk, and a run that is stopped or short leaves none of them empty."""
    learning = learning_epochs(schedule.epochs)
    walking = jnp.maximum(schedule.epochs - learning, 1)
    past_half = 2 * (epoch + 1 - learning) - walking
    slot = jnp.clip(-(-config.samples * past_half // walking) - 1, 0, config.samples - 1)
    open_slots = jnp.arange(config.samples)[:, None] >= slot
    network = state.member.network
    return state._replace(
        weights=jnp.where(open_slots, network.weights, state.weights),
        log_noise=jnp.where(open_slots, network.log_noise, state.log_noise),
    )


def step(
    config: Config,
    key: Key,
    state: State,
    data: Padded,
    schedule: Schedule,
    epoch: Int[Array, ""],
) -> tuple[State, Info]:
    """One epoch of learning or, later, of walking."""
    learning = learning_epochs(schedule.epochs)

    def learn() -> tuple[State, Info]:
        lesson = schedule._replace(epochs=learning)
        member, info = ensemble.step(config.member, key, state.member, data, lesson, epoch)
        return state._replace(member=member, home=member.network), info

    state, info = jax.lax.cond(
        epoch < learning, learn, lambda: walk_epoch(config, key, state, data, schedule)
    )
    return keep(config, state, epoch, schedule), info


def build(config: Config) -> Algorithm:
    """The algorithm for ``loop.run``; its problems are data sets, one for each chain."""
    return bind(init, step, config)


def posterior(states: State) -> SampledPosterior:
    """The draws of all chains (the leading axis of every leaf) together."""
    return SampledPosterior.of_chains(states.weights, states.log_noise)
