"""What a model says about a policy: expected costs and both risks over the horizon."""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from twofold.core import sharding
from twofold.core.arrays import Array, Float, Key
from twofold.estimators import memory
from twofold.model.posterior import Draws
from twofold.plant.dynamics import DynamicsModel
from twofold.plant.policy import LearnedPolicy
from twofold.plant.risk import risks
from twofold.plant.rollout import Noise, Scales, Task, draw_noise, particles, rollout
from twofold.plant.windows import Window

ROLLOUTS_AT_ONCE = 20_000


class Forecast(NamedTuple):
    """For each start and step the expected cost and both variances, ``[B, T]``, the expected costs
    over all starts under each weight draw, ``[M, T]``, and the costs of one roll-out from each
    start, ``[B, T]``, as far as possible each under a weight draw of its own."""

    expected: np.ndarray
    epistemic: np.ndarray
    aleatoric: np.ndarray
    by_draw: np.ndarray
    sampled: np.ndarray
    noise_draws: int

    @property
    def cost(self) -> float:
        """The expected cost per step."""
        return float(self.expected.mean())

    def criterion(self, epistemic_weight: float, aleatoric_weight: float) -> float:
        """J per step, averaged over starts."""
        variance = epistemic_weight**2 * self.epistemic + aleatoric_weight**2 * self.aleatoric
        return self.cost + float(np.sqrt(np.maximum(variance, 0.0)).mean())

    @property
    def epistemic_risk(self) -> float:
        """The deviation between weight draws, averaged over steps and starts."""
        return float(np.sqrt(np.maximum(self.epistemic, 0.0)).mean())

    @property
    def aleatoric_risk(self) -> float:
        """The deviation within weight draws, averaged over steps and starts."""
        return float(np.sqrt(np.maximum(self.aleatoric, 0.0)).mean())


def forecast(
    model: DynamicsModel,
    policy: LearnedPolicy,
    starts: Window,
    horizon: int,
    *,
    weight_draws: int = 50,
    noise_draws: int = 25,
    random_state: int = 0,
) -> Forecast:
    """Roll a policy out from windows ``[B, H, D]``, with the same luck for every policy."""
    task = replace(model.task(policy.shape.hidden), shape=policy.shape)
    weights, *units = policy.leaves
    scales = model.scales._replace(feature_mean=units[0], feature_scale=units[1])
    weight_draws = model.draws_of(weight_draws)
    draw_key, noise_key = jax.random.split(jax.random.key(random_state))
    draws = model.posterior.sample(draw_key, weight_draws)
    num = starts.observations.shape[0]
    at_once = max(1, min(num, ROLLOUTS_AT_ONCE // (weight_draws * noise_draws)))
    # The noise of every step and the costs, twice each on their way.
    each = 2 * 4 * (task.model.latents + task.model.outputs + 1)
    memory.refuse_beyond(
        each * horizon * at_once * weight_draws * noise_draws,
        f"roll-outs of {horizon:,} steps",
        "use a shorter horizon, or fewer weight_draws or noise_draws",
    )
    mesh = sharding.devices_for(at_once)
    parts = []
    for first in range(0, num, at_once):
        rows = np.minimum(np.arange(first, first + at_once), num - 1)
        own = Window(*(jnp.asarray(np.asarray(leaf)[rows], jnp.float32) for leaf in starts))
        key = jax.random.fold_in(noise_key, first)
        given = sharding.copied(mesh, (key, scales, weights, draws, own, rows))
        found = sharding.on_host(_forecast(task, horizon, noise_draws, mesh, *given))
        filled = min(at_once, num - first)
        parts.append([part[:filled].astype(np.float64) for part in found])
    expected, epistemic, aleatoric, of_draws, sampled = map(
        np.concatenate, zip(*parts, strict=True)
    )
    return Forecast(expected, epistemic, aleatoric, of_draws.mean(axis=0), sampled, noise_draws)


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _forecast(
    task: Task,
    horizon: int,
    noise_draws: int,
    mesh: Mesh | None,
    key: Key,
    scales: Scales,
    weights: Float[Array, "P"],
    draws: Draws,
    starts: Window,
    rows: Array,
) -> tuple[Array, Array, Array, Array, Array]:
    """All starts, shared out over the devices; the noise is that of one device."""
    members, count = draws.weights.shape[0], starts.observations.shape[0]
    noise = draw_noise(key, task.model, horizon, members, count * noise_draws)
    # The devices' shares must be of one size: the last start is repeated, with any noise.
    more = sharding.room(mesh, count) - count
    starts, rows = jax.tree.map(
        lambda leaf: jnp.pad(leaf, ((0, more), *[(0, 0)] * (leaf.ndim - 1)), "edge"),
        (starts, rows),
    )
    beside = (0, 0), (0, 0), (0, more * noise_draws), (0, 0)
    noise = jax.tree.map(lambda leaf: jnp.pad(leaf, beside), noise)
    whole, shared = sharding.WHOLE, sharding.SHARED
    share = sharding.divided(
        partial(_share, task, horizon, noise_draws),
        mesh,
        [whole, whole, whole, PartitionSpec(None, None, sharding.AXIS), shared, shared],
    )
    return share(scales, weights, draws, noise, starts, rows)


def _share(
    task: Task,
    horizon: int,
    noise_draws: int,
    scales: Scales,
    weights: Float[Array, "P"],
    draws: Draws,
    noise: Noise,
    starts: Window,
    rows: Array,
) -> tuple[Array, Array, Array, Array, Array]:
    members = draws.weights.shape[0]
    trace = rollout(task, scales, weights[None], draws, noise, particles(starts, noise_draws))
    costs = jnp.moveaxis(trace.costs.reshape(horizon, members, -1, noise_draws), 2, 0)
    found = jax.vmap(risks)(costs)
    of_draws = jnp.moveaxis(costs.mean(axis=3), 2, 1)
    sampled = jax.vmap(lambda own, row: own[:, row % members, 0])(costs, rows)
    return costs.mean(axis=(2, 3)), found.epistemic, found.aleatoric, of_draws, sampled
