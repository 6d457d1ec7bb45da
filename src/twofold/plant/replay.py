"""Passages of a log, and their replay: roll-outs from logged windows under the logged controller.

A replay applies the logged actions, corrected by what an imitation of the controller would have
done otherwise in the states of the roll-out (``twofold.plant.imitation``). On held-out passages, it
measures the error of roll-outs with the log alone as ground truth.
"""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float, Key
from twofold.model import network
from twofold.model.spec import Draws
from twofold.plant import policy
from twofold.plant.embedding import Embedding
from twofold.plant.imitation import HIDDEN
from twofold.plant.log import Log, Start, Starts, Window, check_length, list_stretches
from twofold.plant.policy import DTYPE
from twofold.plant.rollout import DynamicsModel, Scales, Task, Trace, draw_noise, particles, rollout

# Number of held-out passages for the evaluation of a model and the forecasts of policies, whose
# costs are compared with the logged costs of the same passages.
PASSAGES = 100


class Passages(NamedTuple):
    """Windows of B passages, the actions and observations of the T steps that followed, and the
    weights of an imitation of the controller (None: actions are replayed as logged)."""

    start: Starts
    actions: Float[Any, "B T A"]
    observations: Float[Any, "B T D"]
    controller: Float[Any, "P"] | None = None


def as_passages(
    embedding: Embedding,
    seen: Float[Any, "B rows D"],
    done: Float[Any, "B rows-1 A"],
    controller: Float[Any, "P"] | None = None,
) -> Passages:
    """Passages from their rows, of which the first form the window."""
    history, places = embedding.history, embedding.exogenous_places
    past, following = (seen[:, :history], done[:, : history - 1]), seen[:, history:]
    start = Start(*past, following[:, :, places]) if len(places) else Window(*past)
    return Passages(start, done[:, history - 1 :], following, controller)


def choose_passages(
    model: DynamicsModel, log: Log, horizon: int, num: int, rng: np.random.Generator
) -> tuple[Passages, Float[np.ndarray, "B T"]]:
    """At most ``num`` passages of T steps (or of the longest episode) in order; their costs."""
    if horizon < 1:
        raise ValueError(f"horizon must be at least 1, got {horizon}")
    history = model.embedding.history
    check_length(log, history)
    length = min(horizon, max(map(len, log.episodes)) - history + 1)
    seen, done = list_stretches(log, history + length)
    rows = np.sort(rng.permutation(len(seen))[:num])
    chosen = as_passages(model.embedding, seen[rows], done[rows], model.controller)
    pay = jax.vmap(jax.vmap(model.cost))
    costs = pay(jnp.asarray(chosen.observations), jnp.asarray(chosen.actions))
    return chosen, np.asarray(costs, np.float64)


def replay_task(model: DynamicsModel) -> Task:
    """The static task of roll-outs of the logged controller, without rate limits."""
    task = model.task(HIDDEN)
    return replace(task, shape=replace(task.shape, rates=()))


def replay(
    task: Task, noise_draws: int, key: Key, scales: Scales, draws: Draws, passages: Passages
) -> Trace:
    """``noise_draws`` roll-outs of each passage for each weight draw, under the imitation of the
    controller plus what the logged actions differed from it."""
    (num, horizon, _), count = passages.actions.shape, draws.weights.shape[0]
    noise = draw_noise(key, task.model, horizon, count, num * noise_draws)
    still = jnp.zeros(network.num_weights(task.shape.sizes))
    controller = still if passages.controller is None else passages.controller
    explored = jnp.swapaxes(explorations(task, scales, controller, passages), 0, 1)
    offsets = jnp.repeat(explored, noise_draws, axis=1)[:, None, None]
    offsets = jnp.broadcast_to(offsets, (horizon, count, *offsets.shape[2:]))
    starts = particles(passages.start, noise_draws)
    return rollout(task, scales, controller[None], draws, noise, starts, offsets, bounded=True)


def explorations(
    task: Task, scales: Scales, controller: Float[Array, "P"], passages: Passages
) -> Float[Array, "B T A"]:
    """Logged actions minus those of a controller in the logged states."""
    history, horizon = task.embedding.history, passages.actions.shape[1]
    seen = jnp.concatenate([passages.start.observations, passages.observations], axis=1)
    done = jnp.concatenate([passages.start.actions, passages.actions], axis=1)
    rows = jnp.arange(horizon)[:, None] + jnp.arange(history)
    windows = Window(seen[:, rows], done[:, rows[:, :-1]])
    features = scales.features.transform(jax.vmap(jax.vmap(task.embedding.features))(windows))
    layers = policy.layers_of(task.shape, controller[None])
    acted = policy.act(task.shape, layers, features.reshape(1, -1, features.shape[-1]))
    return passages.actions - acted.reshape(passages.actions.shape)


def replay_costs(
    model: DynamicsModel, noise_draws: int, key: Key, draws: Draws, passages: Passages
) -> Float[np.ndarray, "M N B T"]:
    """Predicted costs of each passage, for all draws of weights and noise."""
    single = jax.tree.map(partial(jnp.asarray, dtype=DTYPE), passages)
    found = _replay_costs(replay_task(model), noise_draws, key, model.scales, draws, single)
    return np.asarray(found, float)


@partial(jax.jit, static_argnums=(0, 1))
def _replay_costs(
    task: Task, noise_draws: int, key: Key, scales: Scales, draws: Draws, passages: Passages
) -> Float[Array, "M N B T"]:
    (num, horizon, _), count = passages.actions.shape, draws.weights.shape[0]
    found = replay(task, noise_draws, key, scales, draws, passages).costs[:, :, 0]
    apart = found.reshape(horizon, count, num, noise_draws)
    return jnp.transpose(apart, (1, 3, 2, 0))
