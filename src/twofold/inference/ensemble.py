"""Ensembles of networks with early stopping on held-out rows: the quick posterior.

Each member holds out one of ``folds`` folds and trains on the others with Adam, minimising

    −Σ_n log p(y_n | x_n, W, Σ) − log p(W) − log p(Σ),

with the latent input integrated out (``model.density``), and keeps the weights that predict one
half of its held-out rows best. The learning rate falls to zero in cycles, each twice as long as the
previous one; a member whose best state is not near the end of a cycle stops.

Held-out rows are *out of bag*: predicted by the members that did not train on them, they measure
the quality of the fit without a test set. One half of them decides when to stop; the other half
scores the members without that bias.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.stats import norm

from twofold.core import sharding
from twofold.core.arrays import Array, Bool, Float, Int, Key, Keys, Scalar
from twofold.core.numerics import Padded, select
from twofold.inference.loop import Index, Info, Setup, bind, descend
from twofold.inference.method import Method, check_positive, integer, option, optional
from twofold.model import network as networks
from twofold.model.density import LOG_ODDS_PRIOR, conditional, latent_nodes, log_joint, log_marginal
from twofold.model.spec import BNNLV, WIDE, layers

ADAM = optax.scale_by_adam()
START_STREAM = 2**31 - 2  # no epoch has this number
TRAIN, STOP, SCORE, PADDING = range(4)  # roles of a row for a member
UPDATES = 10
START = 0.5
START_LOG_NOISE = -2.0
SMOOTHING = 0.5
FIRST_EPOCHS = 2
FIRST_CYCLE, CYCLES = 600, 3
NEAR_END = 0.75
DEFAULT_NODES = 16
STOPPING_ROWS = 1_024
ROWS_AT_ONCE = 4_096


@dataclass(frozen=True)
class Config:
    """Settings compiled into the program."""

    model: BNNLV
    batch_size: int
    nodes: int


@dataclass(frozen=True, kw_only=True)
class Ensemble(Method):
    """Networks with early stopping on held-out rows: quick, and where Langevin chains start.

    Parameters
    ----------
    members : int
        Number of networks.
    folds : int
        Number of folds; each member holds out one of them.
    nodes : int
        Number of values of the latent input (for two latent inputs: number of integration nodes).
    updates : int or None
        Maximum number of updates of a member (None: 4,200, more for tables of more than 1,000
        rows).
    batch_size : int
        Rows of a minibatch; a smaller table is one batch.
    learning_rate : float
        Adam's rate at the start of the first cycle.
    """

    name: ClassVar[str] = "ensemble"
    form: ClassVar[str] = "varying"
    staged: ClassVar[bool] = True

    members: int = option(15, integer(2))
    folds: int = option(5, integer(2))
    nodes: int = option(DEFAULT_NODES, integer(1))
    updates: int | None = option(None, optional(integer(1)))
    batch_size: int = option(256, integer(1))
    learning_rate: float = option(0.03, check_positive)

    def set_up(self, model: BNNLV, sizes: np.ndarray, dtype: str) -> Setup:
        latent_nodes(model, self.nodes)
        config = Config(model, self.batch_size, self.nodes)
        updates = self.updates or default_updates(int(sizes.min()))
        epochs = max(1, -(-updates // UPDATES))
        first = max(1, min(epochs, round(epochs / (2**CYCLES - 1))))
        schedule = Schedule(jnp.int32(first), jnp.asarray(self.learning_rate, dtype))
        algorithm = bind(init, step, config)._replace(finished=finished)
        unit = f"× {UPDATES} updates"
        return Setup(config, algorithm, schedule, epochs, np.ones(len(sizes), int), unit)


def default_updates(rows: int) -> int:
    """Three cycles, whose length grows with the square root of the rows for large tables."""
    first = round(FIRST_CYCLE / UPDATES * np.clip(rows / 1_000, 1.0, 16.0) ** 0.5)
    return int(UPDATES * first * (2**CYCLES - 1))


class OutOfBag(NamedTuple):
    """Expected log-density of a new row, in nats, from held-out rows, its standard error, and the
    number of rows."""

    score: float
    standard_error: float
    rows: int


def summarise(scores: np.ndarray) -> OutOfBag:
    """Mean and standard error over the rows that at least one member held out."""
    known = scores[np.isfinite(scores)]
    error = float(known.std(ddof=1) / len(known) ** 0.5) if len(known) > 1 else float("inf")
    return OutOfBag(float(known.mean()) if len(known) else float("-inf"), error, len(known))


def weigh_scores(scores: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Scores ``m + w (s − m)``, where m is the weighted mean and w has mean 1. Their unweighted
    mean is m, and their unweighted standard error is that of m; this also holds for differences of
    scores of the same rows."""
    if weight is None:
        return scores
    known = np.isfinite(scores)
    relative = weight / (weight[known].mean() if known.any() else 1.0)
    centre = np.mean((relative * scores)[known]) if known.any() else 0.0
    return centre + relative * (scores - centre)


def assign_roles(
    seed: int, members: int, folds: int, rows: int, room: int, groups: np.ndarray | None = None
) -> np.ndarray:
    """The role of each of ``room`` rows for each member, ``[members, room]``: TRAIN, STOP, SCORE or
    PADDING. Each of ``folds`` consecutive members holds out a different fold; rows of one of the
    ``groups`` (numbered from 0) have the same role."""
    if groups is not None:
        count = int(groups.max()) + 1
        of_groups = assign_roles(seed, members, folds, count, count)
        return np.pad(of_groups[:, groups], ((0, 0), (0, room - rows)), constant_values=PADDING)
    folds = min(folds, max(2, rows // 2))
    rng = np.random.default_rng([seed, members])
    roles = np.full((members, room), PADDING, np.int8)
    for member in range(members):
        if member % folds == 0:
            order = rng.permutation(rows)
        held_out = np.array_split(order, folds)[member % folds]
        roles[member, :rows] = TRAIN
        roles[member, held_out[::2]] = STOP
        roles[member, held_out[1::2]] = SCORE
    return roles


class Schedule(NamedTuple):
    """Settings shared by all members; the length of the first cycle is in epochs."""

    first_cycle: Int[Array, ""]
    learning_rate: Scalar


class Network(NamedTuple):
    """Parameters of a member."""

    weights: Float[Array, "P"]
    log_noise: Float[Array, "noise"]


class Problem(NamedTuple):
    """The data, the role of each row, the rows sorted by role, and the starting point."""

    data: Padded
    role: Int[Array, "N"]
    order: Int[Array, "N"]
    start: Network

    def rows_of(self, role: int) -> Int[Array, ""]:
        return jnp.sum(self.role == role)


class State(NamedTuple):
    """State of a member: network, optimiser moments, smoothed score, best network so far with its
    score and epoch, and whether the member is finished."""

    network: Network
    moments: Any
    best: Network
    score: Scalar
    best_score: Scalar
    best_epoch: Int[Array, ""]
    done: Bool[Array, ""]


@partial(jax.jit, static_argnames=("model", "dtype"))
def draw_starts(model: BNNLV, dtype: str, keys: Keys) -> Network:
    """For each key, a draw from the prior scaled by one half."""

    def draw(key: Key) -> Network:
        start_key = jax.random.fold_in(key, START_STREAM)
        weights = jax.random.normal(start_key, (model.num_weights,), dtype)
        log_noise = jnp.full(model.num_noise, START_LOG_NOISE, dtype)
        log_noise = log_noise.at[model.outputs :].set(LOG_ODDS_PRIOR[0])
        return Network(START * model.weight_variance**0.5 * weights, log_noise)

    return jax.vmap(draw)(keys)


def mean_energy(
    config: Config,
    network: Network,
    x: Float[Array, "B D"],
    y: Float[Array, "B O"],
    mask: Bool[Array, "B"] | Float[Array, "B"],
    num_data: Scalar,
    error: Float[Array, "B O"] | None = None,
) -> Scalar:
    """The objective of a member, per datum, estimated from a minibatch."""
    count = jnp.maximum(jnp.sum(mask > 0), 1)
    power = num_data / count
    options: Any = {"nodes": config.nodes, "mask": mask, "power": power, "error": error}
    joint = log_joint(config.model, *network, x, y, **options)
    return -joint / num_data


def log_densities(
    model: BNNLV,
    nodes: int,
    network: Network,
    x: Float[Array, "B D"],
    y: Float[Array, "B O"],
    error: Float[Array, "B O"] | None = None,
) -> Float[Array, "B"]:
    """``log p(y | x, W)`` of each row."""
    rule, (weights, log_noise) = latent_nodes(model, nodes), network
    return log_marginal(model, weights[None], log_noise[None], x, y, rule, error)[0]


def _row_by_row(model: BNNLV, nodes: int, network: Network, data: Padded) -> Float[Array, "N"]:
    """``log_densities`` of all rows, ROWS_AT_ONCE at a time to bound memory."""

    def of_row(row: Any) -> Scalar:
        batch = jax.tree.map(lambda part: part[None], row)
        return log_densities(model, nodes, network, *batch)[0]

    rows = data.x, data.y, data.error
    return jax.lax.map(of_row, rows, batch_size=ROWS_AT_ONCE)


@partial(jax.jit, static_argnames=("model", "nodes"))
def member_scores(model: BNNLV, nodes: int, draws: Network, data: Padded) -> Float[Array, "K N"]:
    """Log-density of each row, predicted by each member. ``draws`` has leading axes K (members) and
    R (draws of each)."""

    def of_member(networks: Network) -> Float[Array, "N"]:
        each = jax.lax.map(lambda one: _row_by_row(model, nodes, one, data), networks)
        return jax.nn.logsumexp(each, axis=0) - jnp.log(len(each))

    return jax.lax.map(of_member, draws)


@partial(jax.jit, static_argnames=("model", "nodes"))
def out_of_bag_scores(
    model: BNNLV, nodes: int, draws: Network, held_out: Bool[Array, "K N"], data: Padded
) -> Float[Array, "N"]:
    """Log-density of each row, predicted by the members that held it out; NaN if none did."""
    mixed, count = member_scores(model, nodes, draws, data), jnp.sum(held_out, axis=0)
    total = jax.nn.logsumexp(jnp.where(held_out, mixed, -jnp.inf), axis=0)
    return jnp.where(count > 0, total - jnp.log(jnp.maximum(count, 1)), jnp.nan)


@partial(jax.jit, static_argnames="model")
def out_of_bag_ranks(
    model: BNNLV, members: Network, held_out: Bool[Array, "K N"], data: Padded
) -> Float[Array, "N O"]:
    """``P(Y ≤ y)`` of each row and output, predicted without z by the members that held it out:
    uniform if the predictions are calibrated. NaN if no member held the row out."""
    network_layers = layers(model, members.weights)
    z = jnp.zeros((len(members.weights), 0, 1), data.x.dtype)

    def of_row(row: Any) -> Array:
        x, y, error, counted = row
        outputs = networks.apply(network_layers, x[None], z, model.activate)
        given = conditional(model, outputs, members.log_noise)
        given = given.add_variance(None if error is None else error[:, None])
        distance = (y[:, None] - given.mean) * jnp.exp(-0.5 * given.log_variance)
        below = norm.cdf(distance)
        if given.log_odds is not None:
            wide = jax.nn.sigmoid(given.log_odds)[:, None, None]
            below = (1.0 - wide) * below + wide * norm.cdf(distance / WIDE)
        total = jnp.sum(jnp.where(counted[:, None, None], below, 0.0), axis=0)
        return total[:, 0] / jnp.sum(counted)

    rows = data.x, data.y, data.error, held_out.T
    return jax.lax.map(of_row, rows, batch_size=ROWS_AT_ONCE)


def init(config: Config, key: Key, problem: Problem) -> State:
    worst = jnp.asarray(-jnp.inf, problem.data.x.dtype)
    start = problem.start
    return State(start, ADAM.init(start), start, worst, worst, jnp.int32(0), jnp.asarray(False))


def finished(states: State, epoch: int) -> np.ndarray:
    return sharding.on_host(states.done)


def cycle(first: Int[Array, ""], epoch: Index) -> tuple[Array, Array, Array]:
    """Number, start and length of the cycle of an epoch; cycle c is 2^c times the first."""
    number = jnp.floor(jnp.log2((epoch + 0.5) / first + 1.0)).astype(jnp.int32)
    length = first * 2**number
    return number, length - first, length


def step(
    config: Config, key: Key, state: State, problem: Problem, schedule: Schedule, epoch: Index
) -> tuple[State, Info]:
    """UPDATES updates, then a score on the rows that decide when to stop. A finished member no
    longer changes, so its result does not depend on when the run ends."""
    data, dtype = problem.data, problem.data.x.dtype
    rows = data.x.shape[0]
    slots, whole = min(config.batch_size, rows), config.batch_size >= rows
    training, stopping = problem.rows_of(TRAIN), problem.rows_of(STOP)
    num_data = jnp.maximum(training, 1).astype(dtype)
    number, start, length = cycle(schedule.first_cycle, epoch)

    def batch(index: Index) -> Any:
        if whole:
            return data.x, data.y, data.weigh(problem.role == TRAIN), num_data, data.error
        batch_key = jax.random.fold_in(key, index)
        places = jax.random.randint(batch_key, (slots,), 0, jnp.maximum(training, 1))
        chosen = problem.order[places]
        mask, error = data.weigh(places < training, chosen), data.errors_of(chosen)
        return data.x[chosen], data.y[chosen], mask, num_data, error

    def on_batch(index: Any, carry: Any) -> Any:
        network, moments, total, skipped = carry
        progress = (epoch + index / UPDATES - start) / length
        cosine = 0.5 * (1.0 + jnp.cos(jnp.pi * progress))
        rate = (schedule.learning_rate * 0.5**number * cosine).astype(dtype)
        own = batch(index)
        network, moments, energy, finite = descend(
            ADAM, lambda one: mean_energy(config, one, *own), network, moments, rate
        )
        total += jnp.where(finite, energy, 0.0) / UPDATES
        return network, moments, total, skipped + (~finite).astype(skipped.dtype)

    carry = state.network, state.moments, jnp.zeros((), dtype), jnp.zeros((), int)
    network, moments, energy, skipped = jax.lax.fori_loop(0, UPDATES, on_batch, carry)
    # At most a sample of the rows, spread over the table.
    looks = jnp.arange(min(STOPPING_ROWS, rows))
    places = jnp.floor(looks * jnp.maximum(1.0, stopping / len(looks))).astype(int)
    seen = places < stopping
    chosen = problem.order[jnp.minimum(training + places, rows - 1)]
    looked_at = data.x[chosen], data.y[chosen], data.errors_of(chosen)
    terms = log_densities(config.model, config.nodes, network, *looked_at)
    now = jnp.sum(jnp.where(seen, data.weigh(terms, chosen), 0.0)) / jnp.maximum(jnp.sum(seen), 1)
    score = jnp.where(jnp.isfinite(state.score), state.score + SMOOTHING * (now - state.score), now)
    late = epoch >= jnp.minimum(FIRST_EPOCHS, length - 1)
    better = (score > state.best_score) & late
    before = state.best, state.best_score, state.best_epoch
    best, best_score, best_epoch = select(better, (network, score, epoch), before)
    end = start + length
    done = state.done | ((epoch + 1 == end) & (best_epoch < NEAR_END * end))
    new_state = State(network, moments, best, score, best_score, best_epoch, done)
    new_state = select(state.done, state, new_state)
    # A run ends only if all updates were lost.
    lost = jnp.where((skipped == UPDATES) & ~state.done, 1, 0)
    return new_state, Info(energy, lost)
