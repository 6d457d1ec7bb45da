"""How far a policy's roll-outs leave the data, and which states carry the epistemic risk.

A visited state is as far from the data as the nearest logged state is, in what the policy sees,
standardised. How far is usual is said by held-out episodes: rows of one episode resemble each
other, so that distances within the model's own log would be too small.
"""

import warnings
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.neighbors import NearestNeighbors

from twofold.core.arrays import Array, Float, Key
from twofold.model.posterior import Draws
from twofold.plant.dynamics import DTYPE, DynamicsModel
from twofold.plant.log import Log, Window
from twofold.plant.policy import LearnedPolicy, act, layers_of
from twofold.plant.rollout import Scales, Task, draw_noise, rollout

# Logged states that stand for all of them: neighbours are found in a second.
MOST_ROWS = 4_000
# Visited states whose epistemic part is looked at: 200 in each decile.
MOST_STATES = 2_000
FAR = 0.99
GROUPS = 10
RISKIEST = 10
# Of what is visited at each step, for the bands of a report.
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class Distances(NamedTuple):
    """To the nearest logged state: the median and the 99th percentile of held-out states, and at
    each of T steps the median of visited states and the share of them beyond that percentile."""

    usual: float
    far: float
    median: np.ndarray
    beyond: np.ndarray


class Column(NamedTuple):
    """The epistemic part along one observation: its mean between the deciles of what was visited
    (NaN where a value that is frequent leaves nothing between two of them), and the share of its
    variance that lies between those means."""

    name: str
    explained: float
    deciles: np.ndarray
    epistemic: np.ndarray


class States(NamedTuple):
    """Visited states in the log's units, the action that the policy takes there, after how many
    steps, and the epistemic part of what comes of it."""

    steps: np.ndarray
    observations: np.ndarray
    actions: np.ndarray
    epistemic: np.ndarray


class Reach(NamedTuple):
    """Distances from the data, columns (that explain most of the epistemic part first), the
    visited states with the largest epistemic part, and ``QUANTILES`` of what was visited, of all
    observations and then of all actions.

    The epistemic part is the variance between weight draws of the expected outputs one step ahead,
    in squared deviations of each and summed.
    """

    distances: Distances
    columns: tuple[Column, ...]
    riskiest: States
    quantiles: Float[np.ndarray, "columns T Q"]


class Visited(NamedTuple):
    """States after each of T steps of all roll-outs: what the policy sees (standardised) and does
    there, the newest observations, and the model's inputs."""

    features: Float[Array, "T B F"]
    observations: Float[Array, "T B D"]
    actions: Float[Array, "T B A"]
    inputs: Float[Array, "T B I"]


def measure_reach(
    model: DynamicsModel,
    policy: LearnedPolicy,
    held_out: Log,
    horizon: int,
    *,
    starts: int = 25,
    weight_draws: int = 20,
    random_state: int = 0,
) -> Reach:
    """Roll a policy out from held-out windows, under each weight draw, and look where it comes;
    how far from the data is usual is said by them too."""
    if horizon < 1:
        raise ValueError(f"horizon must be at least 1, got {horizon}")
    rng = np.random.default_rng(random_state)
    windows = _windows(model, held_out)
    rows = rng.permutation(len(windows.observations))[:starts]
    draw_key, noise_key = jax.random.split(jax.random.key(random_state))
    weights, mean, scale = policy.leaves
    found = visit(
        replace(model.task(policy.shape.hidden), shape=policy.shape),
        horizon,
        noise_key,
        model.scales._replace(feature_mean=mean, feature_scale=scale),
        weights,
        model.posterior.sample(draw_key, weight_draws),
        Window(*(leaf[rows] for leaf in windows)),
    )
    known, usual = (
        policy.standardizer.transform(rng.permutation(part)[:MOST_ROWS])
        for part in (model.features, np.asarray(jax.vmap(model.embedding.features)(windows)))
    )
    apart = distances(known, usual, np.asarray(found.features))
    states = with_epistemic_part(model, found, rng)
    columns = [
        explain(name, values, states.epistemic)
        for name, values in zip(model.embedding.observations, states.observations.T, strict=True)
    ]
    columns.sort(key=lambda column: -column.explained)
    riskiest = np.argsort(-states.epistemic)[:RISKIEST]
    top = States(*(part[riskiest] for part in states))
    return Reach(apart, tuple(columns), top, quantiles(found))


def _windows(model: DynamicsModel, log: Log) -> Window:
    return Window(*(jnp.asarray(leaf, DTYPE) for leaf in model.embedding.steps(log).windows))


@partial(jax.jit, static_argnums=(0, 1))
def visit(
    task: Task,
    horizon: int,
    key: Key,
    scales: Scales,
    weights: Float[Array, "P"],
    draws: Draws,
    starts: Window,
) -> Visited:
    """Roll out once from each start under each weight draw. What the policy does after the last
    step is asked for too, so one more is made."""
    history, count = task.embedding.history, draws.weights.shape[0]
    noise = draw_noise(key, task.model, horizon + 1, count, starts.observations.shape[0])
    trace = rollout(task, scales, weights[None], draws, noise, starts)
    layers = layers_of(task.shape, weights[None])
    actions = act(task.shape, layers, trace.features)
    seen = _join(starts.observations, trace.observations)
    done = _join(starts.actions, actions)

    def at(step: Array) -> tuple[Array, Array, Array]:
        window = Window(
            jax.lax.dynamic_slice_in_dim(seen, step, history, axis=1),
            jax.lax.dynamic_slice_in_dim(done, step, history - 1, axis=1),
        )
        action = done[:, step + history - 1]
        return window.observations[:, -1], action, jax.vmap(task.embedding.input)(window, action)

    features = trace.features[1:].reshape(horizon, -1, trace.features.shape[-1])
    return Visited(features, *jax.vmap(at)(jnp.arange(1, horizon + 1)))


def _join(before: Float[Array, "B H D"], after: Float[Array, "T M S B D"]) -> Array:
    """What was there at the start and what came then, ``[M · B, H + T, D]``, for one policy."""
    after = jnp.moveaxis(after[:, :, 0], 0, 2)
    before = jnp.broadcast_to(before, (after.shape[0], *before.shape))
    joined = jnp.concatenate([before, after], axis=2)
    return joined.reshape(-1, *joined.shape[2:])


def distances(
    known: Float[np.ndarray, "N F"],
    usual: Float[np.ndarray, "N F"],
    visited: Float[np.ndarray, "T B F"],
) -> Distances:
    """To the nearest known state, of usual and of visited ones; what is not finite is infinitely
    far."""
    neighbours = NearestNeighbors(n_neighbors=1).fit(known)
    ordinary = neighbours.kneighbors(usual)[0][:, 0]
    apart = np.full(visited.shape[:2], np.inf)
    fine = np.isfinite(visited).all(axis=2)
    if fine.any():
        apart[fine] = neighbours.kneighbors(visited[fine])[0][:, 0]
    far = float(np.quantile(ordinary, FAR))
    return Distances(
        float(np.median(ordinary)), far, np.median(apart, axis=1), (apart > far).mean(axis=1)
    )


def with_epistemic_part(model: DynamicsModel, visited: Visited, rng: np.random.Generator) -> States:
    """Some of the visited states, with the variance between weight draws of ``E[y | x, W]``."""
    fine = np.isfinite(visited.inputs).all(axis=2) & np.isfinite(visited.observations).all(axis=2)
    steps, rollouts = np.nonzero(fine)
    if len(steps) == 0:
        raise ValueError(
            "no state that the policy comes to is finite; look at the model with assess"
        )
    rows = rng.permutation(len(steps))[:MOST_STATES]
    steps, rollouts = steps[rows], rollouts[rows]
    _, observations, actions, inputs = (
        np.asarray(part, float)[steps, rollouts] for part in visited
    )
    split = model.regressor.decompose(inputs, by="variance")
    scale = model.regressor.y_standardizer_.scale
    epistemic = (split.epistemic.reshape(len(inputs), -1) / np.square(scale)).sum(axis=1)
    return States(steps + 1, observations, actions, epistemic)


def quantiles(visited: Visited) -> Float[np.ndarray, "columns T Q"]:
    """Of observations and actions at each step, over the roll-outs that are finite there."""
    both = [np.asarray(part, float) for part in (visited.observations, visited.actions)]
    values = np.concatenate(both, axis=2)
    values[~np.isfinite(values)] = np.nan
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice")
        found = np.nanquantile(values, QUANTILES, axis=1)
    return np.moveaxis(found, (0, 1, 2), (2, 1, 0))


def explain(name: str, values: np.ndarray, epistemic: np.ndarray) -> Column:
    """Means between deciles of a column, and η², the share of the variance between them."""
    deciles = np.quantile(values, np.linspace(0.0, 1.0, GROUPS + 1))
    group = np.searchsorted(deciles[1:-1], values, side="right")
    counts = np.bincount(group, minlength=GROUPS)
    with np.errstate(invalid="ignore"):
        means = np.bincount(group, epistemic, minlength=GROUPS) / counts
    between = np.nansum(counts * np.square(means - epistemic.mean()))
    total = np.square(epistemic - epistemic.mean()).sum()
    return Column(name, float(between / total) if total else 0.0, deciles, means)
