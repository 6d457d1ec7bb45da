"""Networks that stop learning by rows of their own: the quick posterior.

Each member keeps HELD_OUT of the rows out of its training, chosen at random for itself. It learns
by Adam on the rest,

    −Σ_n log p(y_n | x_n, W, Σ) − log p(W) − log p(Σ),

with the latent input integrated out (``model.density``), from a draw of the prior, half as wide,
and keeps the weights at which the first half of the rows held out was predicted best. The members
differ in where they start, in what they see and in when they stop.

All rows that a member held out are *out of bag*: predicted by the members that did not learn from
them they say how good the fit is, without a test set. The second half of them did not decide when
to stop, and judges whether chains that go on from the members are worth it
(``inference.langevin``).
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from twofold.core import sharding
from twofold.core.arrays import Array, Bool, Float, Int, Key, UInt32
from twofold.core.numerics import Padded
from twofold.inference.loop import Info, Result, Setup, bind
from twofold.inference.method import Method, check_positive, integer, number, option, optional
from twofold.model.density import LOG_ODDS_PRIOR, latent_nodes, log_joint, log_marginal
from twofold.model.spec import BNNLV, SampledPosterior

ADAM = optax.scale_by_adam()
VIEW_STREAM, START_STREAM = 2**31 - 1, 2**31 - 2  # no epoch has these numbers
UPDATES = 10
START = 0.5
START_LOG_NOISE = -2.0
SMOOTHING = 0.5
FIRST_EPOCHS = 2
PATIENCE = 2
FEWEST_WAITED = 50
DEFAULT_NODES = 12
ROWS_AT_ONCE = 4_096


@dataclass(frozen=True)
class Config:
    """What is compiled into the program."""

    model: BNNLV
    batch_size: int
    nodes: int
    held_out: float


@dataclass(frozen=True, kw_only=True)
class StoppedEnsemble(Method):
    """Networks that stop learning by rows they hold out: quick, and a start for chains.

    Parameters
    ----------
    members : int
        Number of networks.
    nodes : int
        Number of nodes over which the latent input is integrated out.
    held_out : float in (0, 0.5]
        The part of the rows that a member does not learn from.
    updates : int or None
        The most updates of a member; None: 3,000, and more for tables of more than 1,000 rows.
    batch_size : int
        Rows of a minibatch; tables that are not larger are taken whole.
    learning_rate : float
        Adam's rate, which falls to zero along half a cosine.
    """

    name: ClassVar[str] = "stopped"
    form: ClassVar[str] = "varying"
    staged: ClassVar[bool] = True

    members: int = option(16, integer(2))
    nodes: int = option(DEFAULT_NODES, integer(1))
    held_out: float = option(0.2, number("(0, 0.5]"))
    updates: int | None = option(None, optional(integer(1)))
    batch_size: int = option(1024, integer(1))
    learning_rate: float = option(0.03, check_positive)

    @property
    def runs(self) -> int:
        """The members."""
        return self.members

    @property
    def weight_sets(self) -> int:
        """A member, its best state and two moments."""
        return 4

    def set_up(self, model: BNNLV, sizes: np.ndarray, dtype: str) -> Setup:
        """The run for data sets of these sizes, fitted together."""
        latent_nodes(model, self.nodes)
        config = Config(model, self.batch_size, self.nodes, self.held_out)
        updates = self.updates or default_updates(int(sizes.min()))
        epochs = max(1, -(-updates // UPDATES))
        schedule = Schedule(jnp.int32(epochs), jnp.asarray(self.learning_rate, dtype))
        algorithm = bind(init, step, config)._replace(finished=finished)
        return Setup(config, algorithm, schedule, epochs, np.ones(len(sizes), int), "epochs")

    def finish(self, config: Config, states: Any, energies: np.ndarray, epochs: int) -> Result:
        """The members' best states as equally probable draws."""
        del energies, epochs
        best = jax.tree.map(np.asarray, states.best)
        return Result(SampledPosterior(best.weights, best.log_noise), config.nodes)


def default_updates(rows: int) -> int:
    """3,000, and with the root of the rows more for large tables, up to 12,000."""
    return int(3_000 * np.clip(rows / 1_000, 1.0, 16.0) ** 0.5)


class OutOfBag(NamedTuple):
    """Mean log-density of the rows that members kept out, in nats, its standard error, and of how
    many rows it is."""

    score: float
    standard_error: float
    rows: int


def summarise(scores: np.ndarray) -> OutOfBag:
    """Of the rows that somebody kept out."""
    known = scores[np.isfinite(scores)]
    error = float(known.std(ddof=1) / len(known) ** 0.5) if len(known) > 1 else float("inf")
    return OutOfBag(float(known.mean()) if len(known) else float("-inf"), error, len(known))


def weigh_scores(scores: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Scores ``m + w (s − m)``, m being their weighted mean and the mean of w being 1: their plain
    mean is m, and their plain standard error is that of m. So it is for differences of scores of
    the same rows."""
    if weight is None:
        return scores
    known = np.isfinite(scores)
    relative = weight / (weight[known].mean() if known.any() else 1.0)
    centre = np.mean((relative * scores)[known]) if known.any() else 0.0
    weighted: np.ndarray = centre + relative * (scores - centre)
    return weighted


class Schedule(NamedTuple):
    """Settings shared by all members."""

    epochs: Int[Array, ""]
    learning_rate: Float[Array, ""]


class Network(NamedTuple):
    """What a member learns."""

    weights: Float[Array, "P"]
    log_noise: Float[Array, "noise"]


class State(NamedTuple):
    """A member: its network, its optimiser's moments, the key of the rows it holds out, and its
    best state so far with its score and epoch."""

    network: Network
    moments: Any
    view: UInt32[Array, "2"]
    best: Network
    score: Float[Array, ""]
    best_score: Float[Array, ""]
    best_epoch: Int[Array, ""]


class Rows(NamedTuple):
    """The rows of a data set in a member's own order: those that stop it come first, then those
    that judge it, then those it learns from, then the padding."""

    order: Int[Array, "N"]
    stopping: Int[Array, ""]
    held_out: Int[Array, ""]
    size: Int[Array, ""]

    def mask(self, what: str) -> Bool[Array, "N"]:
        """Which rows, in the order of the data, are for ``stopping``, ``judging``, ``learning``."""
        place = jnp.zeros_like(self.order).at[self.order].set(jnp.arange(len(self.order)))
        bounds: dict[str, tuple[Any, Any]] = {
            "stopping": (0, self.stopping),
            "judging": (self.stopping, self.held_out),
            "learning": (self.held_out, self.size),
        }
        first, last = bounds[what]
        return jnp.logical_and(place >= first, place < last)


def member_rows(held_out: float, view: UInt32[Array, "2"], data: Padded) -> Rows:
    """The member's view of the data: the same in every epoch, and, of a block of a larger table,
    the same for each row in whatever block it comes."""
    key, rows = jax.random.wrap_key_data(view, impl="threefry2x32"), data.x.shape[0]
    if data.place is None:
        ranks = jax.random.uniform(key, (rows,))
        count = jnp.clip(jnp.round(held_out * data.size), 2, data.size - 1).astype(int)
    else:
        own = jax.vmap(partial(jax.random.fold_in, key))(data.place.rows)
        ranks = jax.vmap(lambda row: jax.random.uniform(row))(own)
        real = jnp.arange(rows) < data.size
        count = jnp.sum(real & (ranks < held_out))
    order = jnp.argsort(jnp.where(jnp.arange(rows) < data.size, ranks, 2.0))
    return Rows(order, (count + 1) // 2, count, data.size)


def mean_energy(
    config: Config,
    network: Network,
    x: Float[Array, "B D"],
    y: Float[Array, "B O"],
    mask: Bool[Array, "B"] | Float[Array, "B"],
    num_data: Float[Array, ""],
) -> Float[Array, ""]:
    """What a member minimises, per datum, estimated from a minibatch."""
    count = jnp.maximum(jnp.sum(mask > 0), 1)
    power = num_data / count
    joint = log_joint(config.model, *network, x, y, nodes=config.nodes, mask=mask, power=power)
    return -joint / num_data


def log_densities(
    model: BNNLV, nodes: int, network: Network, x: Float[Array, "B D"], y: Float[Array, "B O"]
) -> Float[Array, "B"]:
    """``log p(y | x, W)`` of each row."""
    rule = latent_nodes(model, nodes)
    return log_marginal(model, network.weights[None], network.log_noise[None], x, y, rule)[0]


def _row_by_row(model: BNNLV, nodes: int, network: Network, data: Padded) -> Float[Array, "N"]:
    """``log_densities`` of all rows, with memory for no more than ROWS_AT_ONCE."""

    def of_row(row: tuple[Float[Array, "D"], Float[Array, "O"]]) -> Float[Array, ""]:
        x, y = row
        return log_densities(model, nodes, network, x[None], y[None])[0]

    found: Array = jax.lax.map(of_row, (data.x, data.y), batch_size=ROWS_AT_ONCE)
    return found


@partial(jax.jit, static_argnames=("model", "nodes", "held_out", "what"))
def scores_of_kept_out(
    model: BNNLV,
    nodes: int,
    held_out: float,
    what: str,
    draws: Network,
    views: UInt32[Array, "K 2"],
    data: Padded,
) -> Float[Array, "N"]:
    """Log-density of each row as those members predict it that kept it out, NaN where none did.

    ``draws`` has axes K (members) and R (draws of each) in front; ``what`` is ``"judging"``, or
    ``"held out"`` for those rows and the ones that stopped a member.
    """

    def of_member(member: tuple[Network, Array]) -> tuple[Float[Array, "N"], Bool[Array, "N"]]:
        own, view = member
        each = jax.lax.map(lambda one: _row_by_row(model, nodes, one, data), own)
        mixed = jax.nn.logsumexp(each, axis=0) - jnp.log(len(each))
        rows = member_rows(held_out, view, data)
        mask = rows.mask("judging")
        return mixed, mask if what == "judging" else mask | rows.mask("stopping")

    mixed, masks = jax.lax.map(of_member, (draws, views))
    count = jnp.sum(masks, axis=0)
    total = jax.nn.logsumexp(jnp.where(masks, mixed, -jnp.inf), axis=0)
    return jnp.where(count > 0, total - jnp.log(jnp.maximum(count, 1)), jnp.nan)


def init(config: Config, key: Key, data: Padded) -> State:
    """A draw of the prior, half as wide, and the key of the rows that are held out."""
    model, dtype = config.model, data.x.dtype
    start = jax.random.fold_in(key, START_STREAM)
    deviation = START * jnp.sqrt(model.weight_variance).astype(dtype)
    weights = deviation * jax.random.normal(start, (model.num_weights,), dtype)
    log_noise = jnp.full(model.num_noise, START_LOG_NOISE, dtype)
    if model.varying_noise:
        log_noise = log_noise.at[model.outputs :].set(LOG_ODDS_PRIOR[0])
    network, worst = Network(weights, log_noise), jnp.asarray(-jnp.inf, dtype)
    view = jax.random.key_data(jax.random.fold_in(key, VIEW_STREAM))
    return State(network, ADAM.init(network), view, network, worst, worst, jnp.int32(0))


def finished(states: State, epoch: int) -> np.ndarray:
    """Which members have waited long enough for something better than their best."""
    waited: np.ndarray = PATIENCE * sharding.on_host(states.best_epoch) + FEWEST_WAITED
    return epoch >= waited


def update(
    config: Config, network: Network, moments: Any, batch: Any, rate: Float[Array, ""]
) -> tuple[Network, Any, Float[Array, ""], Bool[Array, ""]]:
    """One Adam step; one that is not finite changes nothing."""
    energy, gradient = jax.value_and_grad(partial(mean_energy, config))(network, *batch)
    finite = jnp.isfinite(energy)
    for leaf in jax.tree.leaves(gradient):
        finite &= jnp.all(jnp.isfinite(leaf))
    direction, changed = ADAM.update(gradient, moments)
    moved = jax.tree.map(lambda p, d: p - rate * d, network, direction)
    network, moments = jax.tree.map(
        lambda new, old: jnp.where(finite, new, old), (moved, changed), (network, moments)
    )
    return network, moments, energy, finite


def step(
    config: Config, key: Key, state: State, data: Padded, schedule: Schedule, epoch: Int[Array, ""]
) -> tuple[State, Info]:
    """UPDATES updates, then a look at the rows that are held out.

    A member that has waited long enough changes no more, so that when the run ends does not matter.
    """
    rows, dtype = member_rows(config.held_out, state.view, data), data.x.dtype
    slots, whole = min(config.batch_size, len(rows.order)), config.batch_size >= len(rows.order)
    share = (rows.size - rows.held_out) / jnp.maximum(rows.size, 1)
    num_data = (data.num_data * share).astype(dtype)
    learning = data.weigh(rows.mask("learning")) if whole else None

    def batch(index: Int[Array, ""]) -> Any:
        if whole:
            return data.x, data.y, learning, num_data
        low, high = rows.held_out, jnp.maximum(rows.size, rows.held_out + 1)
        places = jax.random.randint(jax.random.fold_in(key, index), (slots,), low, high)
        chosen = rows.order[places]
        mask = data.weigh(places < rows.size, chosen)
        return data.x[chosen], data.y[chosen], mask, num_data

    def on_batch(index: Any, carry: Any) -> Any:
        network, moments, total, skipped = carry
        progress = (epoch + index / UPDATES) / schedule.epochs
        rate = (0.5 * schedule.learning_rate * (1.0 + jnp.cos(jnp.pi * progress))).astype(dtype)
        network, moments, energy, finite = update(config, network, moments, batch(index), rate)
        total += jnp.where(finite, energy, 0.0) / UPDATES
        return network, moments, total, skipped + (~finite).astype(skipped.dtype)

    start = state.network, state.moments, jnp.zeros((), dtype), jnp.zeros((), int)
    network, moments, energy, skipped = jax.lax.fori_loop(0, UPDATES, on_batch, start)
    places = jnp.arange(slots)
    chosen, stopping = rows.order[:slots], places < rows.stopping
    terms = log_densities(config.model, config.nodes, network, data.x[chosen], data.y[chosen])
    seen = jnp.maximum(jnp.sum(stopping), 1)
    now = jnp.sum(jnp.where(stopping, data.weigh(terms, chosen), 0.0)) / seen
    score = jnp.where(jnp.isfinite(state.score), state.score + SMOOTHING * (now - state.score), now)
    waiting = epoch < PATIENCE * state.best_epoch + FEWEST_WAITED
    late = epoch >= jnp.minimum(FIRST_EPOCHS, schedule.epochs - 1)
    better = waiting & (score > state.best_score) & late
    best, best_score, best_epoch = jax.tree.map(
        lambda new, old: jnp.where(better, new, old),
        (network, score, epoch),
        (state.best, state.best_score, state.best_epoch),
    )
    found = State(network, moments, state.view, best, score, best_score, best_epoch)
    found = jax.tree.map(lambda new, old: jnp.where(waiting, new, old), found, state)
    # Only all updates lost is the end of a run.
    lost = jnp.where(skipped == UPDATES, 1, 0)
    return found, Info(energy, lost)
