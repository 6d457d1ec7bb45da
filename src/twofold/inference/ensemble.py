"""Anchored ensembles: a set of networks, each tied to its own draw from the prior.

After Pearce et al. (2020), with the latent input integrated out (``model.density``): a member
minimises

    −Σ_n u_n log p(y_n | x_n, W, Σ) + ½ ‖W − W_anchor‖² / λ − log p(Σ),   W_anchor ~ p(W).

Where the data say nothing a member stays at its anchor, so that the ensemble is spread as the prior
is. Where they say much, the anchors alone would make members agree more than posterior draws do
(for a linear model their covariance is S²/λ, S being the posterior's); the weights
``u_n = 1 + s (e_n − 1)``, ``e_n`` exponential with mean 1 and each member's own, add what is
missing: all of it, for a linear model, at s = 1 (the weighted likelihood bootstrap of Newton and
Raftery 1994).
Every member is a member of ``loop.run``: all train in one program, with Adam on minibatches.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from twofold.core.arrays import Array, Bool, Float, Int, Key, UInt32
from twofold.core.numerics import Padded
from twofold.inference.loop import (
    Algorithm,
    Batch,
    Info,
    Result,
    Schedule,
    bind,
    convergence,
    deal,
    each_batch,
    learning_rate,
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
from twofold.model.density import (
    default_nodes,
    latent_nodes,
    log_marginal,
    log_normaliser,
    log_prior,
)
from twofold.model.spec import BNNLV, SampledPosterior, prior_deviation

ADAM = optax.scale_by_adam()
ROUGHEST_START = 20.0
START_STREAM = 2**31 - 1  # no epoch has this number
START_LOG_NOISE = -2.0


@dataclass(frozen=True)
class Config:
    """What is compiled into the program.

    ``bootstrap`` is s, between 0 (all data count the same) and 1. A member starts at ``start``
    times its anchor, in (0, 1]: the further out, the more it keeps its own ways where the data say
    nothing. ``log_noise_prior`` is mean and deviation of ``log σ²`` in standardised units.
    """

    model: BNNLV
    batch_size: int
    nodes: int
    bootstrap: float
    start: float
    log_noise_prior: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Ensemble(MinibatchMethod):
    """An anchored ensemble, the latent input integrated out: the default.

    Parameters
    ----------
    members : int
        Number of networks.
    nodes : int or None
        Number of nodes over which the latent input is integrated out (None: enough for noise of a
        quarter of the deviation of y).
    bootstrap : float in [0, 1]
        How much the weights of the data differ between members; 0: not at all.
    start : float in (0, 1]
        The part of its anchor at which a member starts; use 0.45 to plan beyond the data.
    log_noise_prior : pair of float
        Mean and deviation of ``log σ²`` of the noise, in standardised units.
    epochs : int or None
        Passes over the data; None gives at least 100 passes and 5,000 updates.
    batch_size : int
        Rows of a minibatch.
    learning_rate : float
        Adam's rate.
    learning_rate_decay : bool
        Whether the rate falls to zero along half a cosine.
    """

    name: ClassVar[str] = "ensemble"
    min_updates: ClassVar[int] = 5_000

    members: int = option(32, integer(2))
    nodes: int | None = option(None, optional(integer(1)))
    bootstrap: float = option(0.5, number("[0, 1]"))
    start: float = option(0.3, number("(0, 1]"))
    log_noise_prior: tuple[float, float] = option((-3.0, 2.0), mean_and_deviation(fixed=False))
    epochs: int | None = option(None, optional(integer(1)))
    batch_size: int = option(75, integer(1))
    learning_rate: float = option(1e-2, check_positive)
    learning_rate_decay: bool = option(True, check_flag)

    @property
    def runs(self) -> int:
        """The members."""
        return self.members

    def config(self, model: BNNLV, batch_size: int) -> Config:
        """What is compiled into the program."""
        nodes = integrating_nodes(model, self.nodes)
        return Config(model, batch_size, nodes, self.bootstrap, self.start, self.log_noise_prior)

    def build(self, config: Config) -> Algorithm:
        """The algorithm for ``loop.run``."""
        return build(config)

    def finish(self, config: Config, states: Any, energies: np.ndarray, epochs: int) -> Result:
        """The members as equally probable draws."""
        found = jax.tree.map(np.asarray, posterior(states))
        return Result(found, config.nodes, convergence(energies.mean(axis=1), epochs))


def integrating_nodes(model: BNNLV, nodes: int | None) -> int:
    """How many nodes integrate z out; more latent inputs than that can be done for are refused."""
    number = max(default_nodes(model), 1) if nodes is None else nodes
    latent_nodes(model, number)
    return number


class Network(NamedTuple):
    """What a member learns."""

    weights: Float[Array, "P"]
    log_noise: Float[Array, "O"]


class State(NamedTuple):
    """A member: its network, its anchor, the key of its view of the data, its optimiser's moments.

    Nothing in it grows with the data: the weights of the data are drawn anew, and the same, from
    the key in every epoch.
    """

    network: Network
    anchor: Float[Array, "P"]
    view: UInt32[Array, "2"]
    moments: Any


def anchored_energy(
    config: Config, network: Network, anchor: Float[Array, "P"], batch: Batch
) -> Float[Array, ""]:
    """The minibatch estimate of what a member minimises, per datum."""
    model = config.model
    nodes = latent_nodes(model, config.nodes)
    weights, log_noise = network.weights[None], network.log_noise[None]
    terms = log_marginal(model, weights, log_noise, batch.x, batch.y, nodes)[0]
    likelihood = jnp.sum(batch.importance * terms) / jnp.maximum(batch.size, 1)
    anchored = Network(network.weights - anchor, network.log_noise)
    prior = log_prior(model, *anchored, log_noise_prior=config.log_noise_prior)
    return -likelihood - (prior + log_normaliser(model)) / batch.num_data


def start_fraction(config: Config) -> float:
    """How much of its anchor a member starts from: ``config.start``, or less.

    With all weights times s, f has about ``s^layers`` times the prior's deviation; more than
    ROUGHEST_START deviations of y are a start that training does not smooth in time.
    """
    layers = len(config.model.sizes) - 1
    smooth: float = (ROUGHEST_START / prior_deviation(config.model)) ** (1 / layers)
    return min(config.start, smooth)


def init(config: Config, key: Key, data: Padded) -> State:
    """An anchor drawn from the prior, a start on the way to it, and the key of its view."""
    model, dtype = config.model, data.x.dtype
    anchor_key, importance_key = jax.random.split(jax.random.fold_in(key, START_STREAM))
    deviation = jnp.sqrt(model.weight_variance).astype(dtype)
    anchor = deviation * jax.random.normal(anchor_key, (model.num_weights,), dtype)
    network = Network(
        start_fraction(config) * anchor, jnp.full(model.outputs, START_LOG_NOISE, dtype)
    )
    return State(network, anchor, jax.random.key_data(importance_key), ADAM.init(network))


def importance(config: Config, view: UInt32[Array, "2"], data: Padded) -> Float[Array, "N"]:
    """``u_n = 1 + s (e_n − 1)``, a member's weights of the data; a row keeps its weight in whatever
    block of a larger table it comes."""
    key, dtype = jax.random.wrap_key_data(view, impl="threefry2x32"), data.x.dtype
    if data.place is None:
        exponential = jax.random.exponential(key, data.x.shape[:1], dtype)
    else:
        own = jax.vmap(partial(jax.random.fold_in, key))(data.place.rows)
        exponential = jax.vmap(lambda row: jax.random.exponential(row, (), dtype))(own)
    return 1.0 + config.bootstrap * (exponential - 1.0)


def update(
    config: Config, state: State, batch: Batch, rate: Float[Array, ""], nonempty: Bool[Array, ""]
) -> tuple[State, Float[Array, ""], Bool[Array, ""]]:
    """One Adam step on a minibatch; a step that is not finite, or on no data, changes nothing.

    Returns the energy and whether it and its gradient were finite.
    """
    energy, gradient = jax.value_and_grad(partial(anchored_energy, config))(
        state.network, state.anchor, batch
    )
    finite = jnp.isfinite(energy)
    for leaf in jax.tree.leaves(gradient):
        finite &= jnp.all(jnp.isfinite(leaf))
    direction, moments = ADAM.update(gradient, state.moments)
    network = jax.tree.map(lambda p, d: p - rate * d, state.network, direction)
    network, moments = jax.tree.map(
        lambda new, old: jnp.where(finite & nonempty, new, old),
        (network, moments),
        (state.network, state.moments),
    )
    return state._replace(network=network, moments=moments), energy, finite


def step(
    config: Config,
    key: Key,
    state: State,
    data: Padded,
    schedule: Schedule,
    epoch: Int[Array, ""],
) -> tuple[State, Info]:
    """One epoch: shuffle, cut into batches of nearly equal size, update on each."""
    weights = importance(config, state.view, data)
    batches, batch = deal(key, data, weights, config.batch_size)

    def on_batch(state: State, index: Any, nonempty: Any) -> Any:
        progress = (epoch + index / batches) / schedule.epochs
        rate = learning_rate(schedule, progress).astype(data.x.dtype)
        return update(config, state, batch(index), rate, nonempty)

    return each_batch(on_batch, state, batches, schedule.batches, data.x.dtype)


def build(config: Config) -> Algorithm:
    """The algorithm for ``loop.run``; its problems are data sets, one for each member."""
    return bind(init, step, config)


def posterior(states: State) -> SampledPosterior:
    """The members (the leading axis of every leaf) as equally probable draws."""
    return SampledPosterior(states.network.weights, states.network.log_noise)
