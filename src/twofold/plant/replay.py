"""A model along logged actions: the costs that it predicts beside those that came."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float, Key
from twofold.model import network
from twofold.model.posterior import Draws
from twofold.plant.dynamics import DynamicsModel
from twofold.plant.log import Log
from twofold.plant.rollout import Noise, Scales, Task, draw_noise, particles, rollout
from twofold.plant.windows import Window, steps
from twofold.uncertainty import metrics

MOST = np.array([0.9])


class MultiStep(NamedTuple):
    """Costs at each of T steps along logged actions, in units of the ``deviation`` of the costs.

    ``bias`` is the mean of predicted minus logged costs, ``error`` the root of their mean square,
    ``mean_error`` that of always predicting the mean cost of the model's log. These and the
    coverage are those of windows whose roll-outs are all finite, and NaN where there is none;
    ``non_finite`` is the share of roll-outs that have left the finite numbers.
    """

    windows: int
    deviation: float
    bias: np.ndarray
    error: np.ndarray
    mean_error: np.ndarray
    coverage_90: np.ndarray
    non_finite: np.ndarray

    @property
    def horizon(self) -> int:
        """T."""
        return len(self.bias)

    @property
    def drift(self) -> dict[str, float]:
        """What is added to each of them between the first step and the last."""
        series = self._asdict().items()
        return {name: float(v[-1] - v[0]) for name, v in series if isinstance(v, np.ndarray)}


class Passages(NamedTuple):
    """Pieces of a log: windows ``[B, …]``, and the actions and costs of the T steps after them."""

    windows: Window
    actions: Float[np.ndarray, "B T A"]
    costs: Float[np.ndarray, "B T"]


def passages(
    model: DynamicsModel, log: Log, horizon: int, num: int, rng: np.random.Generator
) -> Passages:
    """At most ``num`` passages of T steps, or of as many as the longest episode has."""
    history = model.embedding.history
    length = min(horizon, max(map(len, log.episodes)) - history + 1)
    found = steps(log, history + length - 1)
    rows = rng.permutation(len(found.actions))[:num]
    (seen, past), last, final = jax.tree.map(lambda leaf: leaf[rows], found)
    seen = np.concatenate([seen, final[:, None]], axis=1)
    done = np.concatenate([past, last[:, None]], axis=1)
    actions = done[:, history - 1 :]
    costs = jax.vmap(jax.vmap(model.cost))(jnp.asarray(seen[:, history:]), jnp.asarray(actions))
    start = Window(seen[:, :history], done[:, : history - 1])
    return Passages(start, actions, np.asarray(costs, np.float64))


def replay(
    task: Task,
    scales: Scales,
    draws: Draws,
    noise: Noise,
    windows: Window,
    actions: Float[Array, "B T A"],
) -> Float[Array, "T M B"]:
    """Costs along given actions: a policy without weights acts in the middle of its bounds, and
    offsets lead from there."""
    shape, count = task.shape, draws.weights.shape[0]
    idle = jnp.zeros((1, network.num_weights(shape.sizes)))
    middle = 0.5 * (jnp.asarray(shape.low) + jnp.asarray(shape.high))
    offsets = jnp.swapaxes(actions - middle, 0, 1)[:, None, None]
    offsets = jnp.broadcast_to(offsets, (offsets.shape[0], count, *offsets.shape[2:]))
    return rollout(task, scales, idle, draws, noise, windows, offsets).costs[:, :, 0]


@partial(jax.jit, static_argnums=(0, 1))
def replayed_costs(
    task: Task,
    noise_draws: int,
    key: Key,
    scales: Scales,
    draws: Draws,
    windows: Window,
    actions: Float[Array, "B T A"],
) -> Float[Array, "K B T"]:
    """Predicted costs of each passage, by all draws of weights and noise."""
    num, horizon, _ = actions.shape
    count = draws.weights.shape[0]
    noise = draw_noise(key, task.model, horizon, count, num * noise_draws)
    repeated = jnp.repeat(actions, noise_draws, axis=0)
    found = replay(task, scales, draws, noise, particles(windows, noise_draws), repeated)
    apart = found.reshape(horizon, count, num, noise_draws)
    return jnp.transpose(apart, (1, 3, 2, 0)).reshape(-1, num, horizon)


def compare(
    samples: Float[np.ndarray, "K B T"],
    costs: Float[np.ndarray, "B T"],
    cost_mean: float,
    cost_scale: float,
) -> MultiStep:
    """Predicted costs beside those that came."""
    lost = np.logical_or.accumulate(~np.isfinite(samples), axis=2)
    series = np.full((4, costs.shape[1]), np.nan)
    for step in range(costs.shape[1]):
        fine = ~lost[:, :, step].any(axis=0)
        if fine.any():
            found, true = samples[:, fine, step], costs[fine, step]
            mean = found.mean(axis=0)
            series[0, step] = np.mean(mean - true) / cost_scale
            series[1, step] = metrics.rmse(true, mean) / cost_scale
            series[2, step] = metrics.rmse(true, np.full_like(true, cost_mean)) / cost_scale
            series[3, step] = metrics.coverage(metrics.pit(found, true), MOST)[0]
    bias, error, mean_error, coverage = series
    gone = lost.mean(axis=(0, 1))
    return MultiStep(len(costs), cost_scale, bias, error, mean_error, coverage, gone)
