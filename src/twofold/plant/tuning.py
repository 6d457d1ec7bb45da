"""Tuning on roll-outs: fit weight draws to stretches of a log instead of single steps.

One-step errors can accumulate over a roll-out. After the fit, each weight draw is tuned separately
on stretches of the log, replayed with the logged controller and exogenous values, by Adam on

    E = mean_{t ≤ T, o} e_to² + λ (mean_{t ≤ T} d_t)²

with the errors e of predicted columns and d of the cost, in deviations of the logged values. The
errors are those of the mean over noise: squares are estimated by the product of the errors of two
roll-outs with independent noise, so noise is neither rewarded nor penalised. T grows from one step
on, because gradients through long roll-outs of a poor model explode. Each draw has its own
stretches, a block bootstrap of the log's (Künsch 1989), so that draws keep differing where the log
leaves the dynamics undetermined.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from twofold.core.arrays import Array, Float, Int, Key
from twofold.estimators.training import Checkpoint, Plan, train
from twofold.inference.loop import Algorithm, Info, Schedule, bind, descend, learning_rate
from twofold.inference.method import check_integer, check_positive
from twofold.model.spec import Draws
from twofold.plant.log import Log
from twofold.plant.policy import DTYPE
from twofold.plant.replay import as_passages, replay, replay_task
from twofold.plant.rollout import DynamicsModel, Scales, Task

PAIR = 2  # roll-outs per stretch, with independent noise
CLIP = 1.0  # limit of the gradient norm
GROWING = 0.5  # fraction of the updates in which stretches grow from one step to T
STREAM = 0


@dataclass(frozen=True)
class TuningSettings:
    """Length of tuning, and candidate settings.

    ``horizons`` T and ``cost_weights`` λ are compared with ``trial_draws`` weight draws; then all
    ``draws`` are tuned with the best pair: one half for the search of policies, the other to
    evaluate them. Each update uses ``stretches`` stretches.
    """

    draws: int = 32
    trial_draws: int = 5
    horizons: tuple[int, ...] = (10, 30)
    cost_weights: tuple[float, ...] = (1.0, 10.0)
    stretches: int = 16
    epochs: int = 15
    updates: int = 100
    learning_rate: float = 1e-3

    def __post_init__(self):
        for name in ("draws", "trial_draws", "stretches", "epochs", "updates"):
            check_integer(name, getattr(self, name), 1)
        for horizon in self.horizons:
            check_integer("horizons", horizon, 1)
        for value in (*self.cost_weights, self.learning_rate):
            check_positive("cost_weights and learning_rate", value)


@dataclass(frozen=True)
class Config:
    """Static settings of updates: roll-outs, T, stretches per update, updates per epoch."""

    task: Task
    horizon: int
    stretches: int
    updates: int


class Problem(NamedTuple):
    """A weight draw to be tuned, λ, and its bootstrap sample of blocks of stretches."""

    draw: Draws
    cost_weight: Float[Array, ""]
    blocks: Int[Array, "blocks"]


class Logged(NamedTuple):
    """Shared by all draws: the concatenated rows of all episodes, the rows at which windows of
    stretches begin, units (including those of the predicted columns), the imitation of the
    controller, and the learning rate."""

    observations: Float[Array, "R D"]
    actions: Float[Array, "R A"]
    starts: Int[Array, "N"]
    scales: Scales
    deviations: Float[Array, "O"]
    controller: Float[Array, "P"]
    schedule: Schedule


class State(NamedTuple):
    """State of the tuning of a draw."""

    weights: Float[Array, "P"]
    moments: Any


OPTIMISER = optax.chain(optax.clip_by_global_norm(CLIP), optax.scale_by_adam())


def rollout_error(
    config: Config,
    problem: Problem,
    logged: Logged,
    weights: Float[Array, "P"],
    key: Key,
    counted: Float[Array, ""] | float,
) -> Float[Array, ""]:
    """E of a draw on some of its stretches, over the first ``counted`` steps."""
    task, history = config.task, config.task.embedding.history
    place_key, noise_key = jax.random.split(key)
    rows = draw_starts(config, problem, logged, place_key)[:, None]
    rows = rows + jnp.arange(history + config.horizon)
    seen, done = logged.observations[rows], logged.actions[rows[:, :-1]]
    passages = as_passages(task.embedding, seen, done, logged.controller)
    draws = Draws(weights[None], problem.draw.log_noise[None])
    trace = replay(task, PAIR, noise_key, logged.scales, draws, passages)
    true = signals(task, passages.observations)
    errors = (_pairs(signals(task, trace.observations)) - true) / logged.deviations
    costs = jax.vmap(jax.vmap(task.cost))(passages.observations, passages.actions)
    share = jnp.clip(counted - jnp.arange(config.horizon), 0.0, 1.0) / counted
    off = (_pairs(trace.costs) - costs) @ share / logged.scales.cost
    squares = jnp.mean(errors[0] * errors[1], axis=(0, 2)) @ share
    return squares + problem.cost_weight * jnp.mean(off[0] * off[1])


def signals(task: Task, observations: Float[Array, "*batch D"]) -> Float[Array, "*batch O"]:
    """The predicted columns as the model sees them."""
    own = task.embedding
    places = [own.observations.index(name) for name in own.targets]
    return jnp.stack([own.transforms[i].forward(observations[..., i]) for i in places], axis=-1)


def _pairs(values: Float[Array, "T 1 1 particles *rest"]) -> Float[Array, "2 B T *rest"]:
    """The two roll-outs of each stretch."""
    apart = values[:, 0, 0].reshape(values.shape[0], -1, PAIR, *values.shape[4:])
    return jnp.moveaxis(apart, (2, 1, 0), (0, 1, 2))


def draw_starts(config: Config, problem: Problem, logged: Logged, key: Key) -> Int[Array, "B"]:
    """Random starts of stretches within some of the draw's blocks."""
    block_key, place_key = jax.random.split(key)
    size, blocks = (config.stretches,), problem.blocks.shape[0]
    length = logged.starts.shape[0] // blocks
    chosen = problem.blocks[jax.random.randint(block_key, size, 0, blocks)]
    return logged.starts[chosen * length + jax.random.randint(place_key, size, 0, length)]


def init(config: Config, key: Key, problem: Problem) -> State:
    weights = problem.draw.weights
    return State(weights, OPTIMISER.init(weights))


def step(
    config: Config, key: Key, state: State, problem: Problem, logged: Logged, epoch: Int[Array, ""]
) -> tuple[State, Info]:
    """One epoch of updates; non-finite ones are skipped and counted."""

    def one_update(index: Array, carry: Any) -> tuple[State, Array, Array]:
        state, total, skipped = carry
        progress = (epoch + index / config.updates) / logged.schedule.epochs
        counted = 1.0 + (config.horizon - 1.0) * jnp.minimum(progress / GROWING, 1.0)
        rate = learning_rate(logged.schedule, progress).astype(state.weights.dtype)
        own_key = jax.random.fold_in(key, index)
        error = partial(rollout_error, config, problem, logged, key=own_key, counted=counted)
        *after, value, fine = descend(OPTIMISER, error, state.weights, state.moments, rate)
        return State(*after), total + jnp.where(fine, value, 0.0), skipped + ~fine

    nothing = state, jnp.zeros(()), jnp.zeros((), int)
    state, total, skipped = jax.lax.fori_loop(0, config.updates, one_update, nothing)
    return state, Info(total / jnp.maximum(config.updates - skipped, 1), skipped)


def build(config: Config) -> Algorithm:
    """Tuning as an algorithm whose members are weight draws."""
    return bind(init, step, config)


def tune_draws(
    model: DynamicsModel,
    log: Log,
    draws: Draws,
    horizon: int,
    cost_weights: Sequence[float],
    settings: TuningSettings,
    *,
    random_state: int = 0,
    checkpoint: Checkpoint | None = None,
    verbose: bool | str = "auto",
) -> Draws:
    """Tune weight draws, each with its own λ, on stretches of a log."""
    config = Config(replay_task(model), horizon, settings.stretches, settings.updates)
    logged = gather(model, log, horizon, settings)
    count, blocks = draws.weights.shape[0], max(1, len(logged.starts) // horizon)
    rng = np.random.default_rng(random_state)
    own = jnp.asarray(rng.integers(0, blocks, (count, blocks)), jnp.int32)
    stream = jax.random.fold_in(jax.random.key(STREAM), random_state)
    keys = jax.vmap(partial(jax.random.fold_in, stream))(jnp.arange(count))
    draws = Draws(*(jnp.asarray(part, DTYPE) for part in draws))
    problems = Problem(draws, jnp.asarray(cost_weights, DTYPE), own)
    batches = np.full(count, settings.updates)
    labels = f"tuning on {horizon} steps", "error"
    plan = Plan(settings.epochs, batches, "epochs", verbose, checkpoint, *labels)
    found = train(build(config), keys, problems, logged, plan)
    return draws._replace(weights=found.states.weights)


def gather(model: DynamicsModel, log: Log, horizon: int, settings: TuningSettings) -> Logged:
    """The rows of a log, and the starts of stretches of ``horizon`` steps."""
    seen = np.concatenate([one.observations for one in log.episodes])
    # Pad an action for the last row of each episode, which no stretch uses.
    done = np.concatenate([np.pad(one.actions, ((0, 1), (0, 0))) for one in log.episodes])
    size, first, starts = model.embedding.history + horizon, 0, list[np.ndarray]()
    for one in log.episodes:
        starts.append(np.arange(first, max(first, first + len(one) + 2 - size)))
        first += len(one) + 1
    observations, actions = jnp.asarray(seen, DTYPE), jnp.asarray(done, DTYPE)
    rows = jnp.asarray(np.concatenate(starts), jnp.int32)
    deviations = np.asarray(signals(replay_task(model), observations), float).std(axis=0)
    deviations = jnp.asarray(np.where(deviations > 0.0, deviations, 1.0), DTYPE)
    controller = jnp.asarray(model.controller, DTYPE)
    lengths = jnp.int32(settings.epochs), jnp.int32(settings.updates)
    schedule = Schedule(*lengths, DTYPE(settings.learning_rate), DTYPE(1.0))
    return Logged(observations, actions, rows, model.scales, deviations, controller, schedule)
