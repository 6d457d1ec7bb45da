"""What a model says about a policy: expected costs and both risks over the horizon.

``forecast`` has all numbers of it; a ``Trial`` has those that a report needs, and beside them where
the policy leads.
"""

from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from twofold.core import sharding
from twofold.core.arrays import Array, Float, Key
from twofold.estimators import memory
from twofold.model.posterior import Draws
from twofold.plant.cost import risks
from twofold.plant.dynamics import DynamicsModel
from twofold.plant.log import Log, Window
from twofold.plant.policy import LearnedPolicy
from twofold.plant.reach import QUANTILES, Reach, States, measure_reach
from twofold.plant.rollout import Noise, Scales, Task, draw_noise, particles, rollout

ROLLOUTS_AT_ONCE = 20_000
# Held-out windows that a policy is rolled out from.
STARTS = 32
# Times the epistemic risk is what a careful person adds to an expected cost.
CAUTION = 2.0
# Enough for a drawing, and a third of the file that all digits would make.
DIGITS = 5
STEPWISE = ("expected", "epistemic", "aleatoric", "apart", "beyond")
KINDS: dict[Any, tuple[type, ...]] = {
    float: (int, float),
    np.ndarray: (np.ndarray,),
    dict[str, float]: (dict,),
    dict[str, np.ndarray]: (dict,),
}


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


@dataclass(frozen=True, eq=False)
class Trial:
    """A policy on the model, from held-out starts.

    ``expected`` are costs at each of T steps, ``epistemic`` and ``aleatoric`` their deviations,
    ``apart`` and ``beyond`` the median distance of visited states to the nearest logged one and the
    share of them that is farther than 99 % of held-out states (``far``) are. ``columns`` are
    observations with the share of the epistemic part that they explain, largest first, and
    ``riskiest`` the visited states where it is largest, by column. ``rollouts`` are costs of some
    roll-outs ``[R, T]``, ``visited`` has for each column the quantiles ``[T, 5]`` of its values at
    each step, and ``logged`` the least, the same quantiles and the largest of the log's values.
    The last three are empty in files that an older version wrote.
    """

    epistemic_weight: float
    aleatoric_weight: float
    expected: np.ndarray
    epistemic: np.ndarray
    aleatoric: np.ndarray
    apart: np.ndarray
    beyond: np.ndarray
    usual: float
    far: float
    columns: dict[str, float]
    riskiest: dict[str, np.ndarray]
    rollouts: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    visited: dict[str, np.ndarray] = field(default_factory=dict)
    logged: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self):
        for part in fields(self):
            value = getattr(self, part.name)
            if not isinstance(value, KINDS[part.type]):
                raise ValueError(f"{part.name} of a trial cannot be {value!r}")
        steps = {len(getattr(self, name)) for name in STEPWISE}
        if len(steps) != 1 or 0 in steps:
            raise ValueError("the parts of a trial have different numbers of steps, or none")

    @property
    def risk_weights(self) -> tuple[float, float]:
        """β and γ."""
        return self.epistemic_weight, self.aleatoric_weight

    @property
    def cost(self) -> float:
        """The expected cost per step."""
        return float(self.expected.mean())

    @property
    def epistemic_risk(self) -> float:
        """The deviation of the cost between weight draws, averaged over steps."""
        return float(self.epistemic.mean())

    @property
    def aleatoric_risk(self) -> float:
        """The deviation of the cost within weight draws, averaged over steps."""
        return float(self.aleatoric.mean())

    @property
    def careful_cost(self) -> float:
        """The expected cost and twice the epistemic risk."""
        return self.cost + CAUTION * self.epistemic_risk

    @property
    def share_beyond(self) -> float:
        """Of visited states, those beyond the data."""
        return float(self.beyond.mean())


def evaluate_policy(
    model: DynamicsModel, policy: LearnedPolicy, held_out: Log, horizon: int, random_state: int
) -> Trial:
    """Forecast a policy from held-out windows, and see how far it leaves the data."""
    windows = model.embedding.steps(held_out).windows
    rng = np.random.default_rng(random_state)
    rows = rng.permutation(len(windows.observations))[:STARTS]
    starts = jax.tree.map(lambda leaf: leaf[rows], windows)
    costs = forecast(model, policy, starts, horizon, random_state=random_state)
    reach = measure_reach(model, policy, held_out, horizon, random_state=random_state)
    return summarise(policy, costs, reach, model.log)


def summarise(policy: LearnedPolicy, costs: Forecast, reach: Reach, log: Log) -> Trial:
    """Means over starts; of risks those of deviations, as in the criterion."""
    distances = reach.distances
    return Trial(
        *policy.risk_weights,
        expected=costs.expected.mean(axis=0),
        epistemic=np.sqrt(np.maximum(costs.epistemic, 0.0)).mean(axis=0),
        aleatoric=np.sqrt(np.maximum(costs.aleatoric, 0.0)).mean(axis=0),
        apart=distances.median,
        beyond=distances.beyond,
        usual=distances.usual,
        far=distances.far,
        columns={column.name: column.explained for column in reach.columns},
        riskiest=_by_column(reach.riskiest, log),
        rollouts=_round(costs.sampled),
        visited=dict(zip((*log.observations, *log.actions), _round(reach.quantiles), strict=True)),
        logged=logged_range(log),
    )


def logged_range(log: Log) -> dict[str, np.ndarray]:
    """For each column the least value, ``QUANTILES`` and the largest."""
    seen = np.concatenate([episode.observations for episode in log.episodes])
    done = np.concatenate([episode.actions for episode in log.episodes])
    return {
        name: _round(np.nanquantile(column, (0.0, *QUANTILES, 1.0)))
        for name, column in zip((*log.observations, *log.actions), (*seen.T, *done.T), strict=True)
    }


def _round(values: np.ndarray) -> np.ndarray:
    """To a few digits."""
    return np.vectorize(lambda value: float(f"{value:.{DIGITS}g}"), otypes=[float])(values)


def _by_column(states: States, log: Log) -> dict[str, np.ndarray]:
    """States with the names of their columns."""
    return {
        "after steps": states.steps,
        **dict(zip(log.observations, states.observations.T, strict=True)),
        **dict(zip(log.actions, states.actions.T, strict=True)),
        "epistemic part": states.epistemic,
    }
