"""Costs of steps, the risk-sensitive criterion J, and its two risks (paper, §5).

With the cost ``c[t, m, n]`` at step t under weight draw m in roll-out n,

    J = Σ_t { mean c(t) + [ β² E(t) + γ² A(t) ]^½ }

with the epistemic risk ``E(t) = Var_m(E_n c(t))`` and the aleatoric ``A(t) = E_m(Var_n c(t))``; β
is ``epistemic_weight``, γ is ``aleatoric_weight``. The paper's nearest-neighbour baseline, for a
deterministic model, uses as risk the distance of a state to k-means centroids of the logged ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.cluster import MiniBatchKMeans

from twofold.core.arrays import Array, Float
from twofold.core.persistence import fingerprint
from twofold.plant.columns import place_of, user_errors
from twofold.plant.log import Log, LogError, check_known

CostFunction = Callable[[Mapping[str, Any]], Any]
NUMBERS = jax.Array, np.ndarray, np.generic, float, int
# Rows near a logged one are moved by this fraction of the way to random points in its ranges.
NEAR = 1e-3
FINITE = (
    "the search needs finite gradients: keep the arguments of roots, logarithms and divisions away "
    "from 0, as in jnp.sqrt(jnp.maximum(x, 1e-6)); jnp.where around the result does not help"
)
# A risk below this fraction of the costs' spread is rounding; its root's gradient would explode.
SMALLEST = 1e-4
# Penalty of a step, in deviations of the logged costs, per deviation of a column beyond a limit.
LIMIT_WEIGHT = 10.0


@dataclass(frozen=True)
class Cost:
    """The cost of a step: a function of a row of observations after and actions during the step."""

    function: CostFunction
    observations: tuple[str, ...]
    actions: tuple[str, ...]

    def __call__(
        self, observation: Float[Array, "D"], action: Float[Array, "A"]
    ) -> Float[Array, ""]:
        """The cost of arriving at an observation by an action."""
        names, values = (*self.observations, *self.actions), (*observation, *action)
        return self.function(dict(zip(names, values, strict=True)))

    def of(self, log: Log) -> list[np.ndarray]:
        """The costs of each episode's steps."""
        rows = _rows(log)
        with jax.enable_x64(True):
            costs = np.asarray(jax.jit(jax.vmap(self))(*rows))
        return np.split(costs, np.cumsum([len(one) for one in log.episodes])[:-1])

    def find_lost(
        self, observations: Float[Array, "N D"], actions: Float[Array, "N A"]
    ) -> tuple[np.ndarray, str]:
        """Rows where the cost or else its gradient is not finite, and the start of a message."""

        def value(observation: Array, action: Array) -> Array:
            return jnp.asarray(self(observation, action), observation.dtype)

        slopes = jax.vmap(jax.value_and_grad(value, argnums=(0, 1)))
        costs, (by_state, by_action) = jax.jit(slopes)(observations, actions)
        steep = ~np.isfinite(np.hstack([by_state, by_action])).all(axis=1)
        lost = np.flatnonzero(~np.isfinite(costs))
        what = "cost(row)" if len(lost) else "the gradient of cost(row)"
        rows = np.append(lost, np.setdiff1d(np.flatnonzero(steep), lost))
        return rows, f"{place_of(self.function)}{what} is not finite"

    def describe(self, observation: Any, action: Any) -> str:
        """A row in words: ``level = 2, flow = 0.5``."""
        pairs = zip((*self.observations, *self.actions), (*observation, *action), strict=True)
        return ", ".join(f"{name} = {value:g}" for name, value in pairs)

    def fingerprint(self, log: Log) -> str:
        """Equal for two costs that agree on the log and on all probes."""
        with jax.enable_x64(True):
            beyond = jax.jit(jax.vmap(self))(*map(jnp.asarray, log.probes()))
            return fingerprint(*self.of(log), np.asarray(beyond))


def cost_of(function: CostFunction, log: Log) -> Cost:
    """Make a cost from a function of named columns, and check it on the log.

    ``function(row)`` takes a mapping from column names to values and returns one finite number, to
    be minimised. It must use ``jax.numpy``, because the search needs its gradient.
    """
    cost = Cost(function, log.observations, log.actions)
    known, rule = (*log.observations, *log.actions), "be written with jax.numpy, without if, max() "
    rule += "or float() of values (use jnp.where and jnp.maximum)"
    row = log.episodes[0].observations[1], log.episodes[0].actions[0]

    def check(*row: Array) -> Any:
        value = cost(*row)
        got = "None; it needs a return" if value is None else f"a {type(value).__name__}"
        got = f"shape {jnp.shape(value)}" if isinstance(value, NUMBERS) else got
        if got != "shape ()":
            where = f"{place_of(function)}cost(row)"
            raise LogError(f"{where} must return one number per row, got {got}")
        return value

    with user_errors(function, "cost(row)", rule, f"the log has {', '.join(known)}", known):
        jax.eval_shape(check, *row)
    for episode, costs in zip(log.episodes, cost.of(log), strict=True):
        bad = np.flatnonzero(~np.isfinite(costs))
        if len(bad):
            row = episode.observations[bad[0] + 1], episode.actions[bad[0]]
            raise LogError(
                f"{place_of(function)}cost(row) must be finite, got {costs[bad[0]]} in episode "
                f"{episode.name!r}, step {bad[0]}, where {cost.describe(*row)}"
            )
    return cost


def check_gradient(cost: Cost, log: Log) -> None:
    """Refuse a cost whose gradient is not finite near logged rows: every update would fail. It may
    be singular exactly at a logged row (such as the root of a square that is 0 there)."""
    observations, actions = _rows(log)
    ranges = (observations.min(axis=0), observations.max(axis=0)), (log.action_low, log.action_high)
    rng, rows = np.random.default_rng(0), zip((observations, actions), ranges, strict=True)
    near = [own + NEAR * (rng.uniform(*ends, own.shape) - own) for own, ends in rows]
    with jax.enable_x64(True):
        bad, what = cost.find_lost(*near)
    if len(bad):
        where = cost.describe(*(part[bad[0]] for part in near))
        number = f"{len(bad):,} of {len(actions):,}"
        raise LogError(f"{what} near {number} logged steps, for example where {where}; {FINITE}")


def keep_within(
    function: CostFunction, log: Log, limits: Mapping[str, tuple[float, float]]
) -> CostFunction:
    """The cost with a penalty for observations beyond their limits, ``{name: (low, high)}``. The
    penalty grows with the distance, so its gradient leads back; either end may be infinite."""
    check_known("name in limits", limits, log.observations)
    for name, (low, high) in limits.items():
        if not low < high:
            raise LogError(f"the limits of {name!r} need low < high, got {low:g} and {high:g}")
    spread = float(np.concatenate(cost_of(function, log).of(log)).std()) or 1.0
    units = {name: float(log.column(name).std()) or 1.0 for name in limits}

    @wraps(function)
    def limited(row: Mapping[str, Any]) -> Any:
        beyond = sum(
            jnp.maximum(jnp.maximum(low - row[name], row[name] - high), 0.0) / units[name]
            for name, (low, high) in limits.items()
        )
        return function(row) + LIMIT_WEIGHT * spread * beyond

    return limited if limits else function


def _rows(log: Log) -> tuple[np.ndarray, np.ndarray]:
    """The observation after each step, and the action applied during it."""
    parts = ((one.observations[1:], one.actions) for one in log.episodes)
    observations, actions = map(np.concatenate, zip(*parts, strict=True))
    return observations, actions


def with_costs(log: Log, function: CostFunction) -> Log:
    """The log with costs computed by a function of its columns."""
    costs = cost_of(function, log).of(log)
    pairs = zip(log.episodes, costs, strict=True)
    return replace(log, episodes=tuple(replace(one, costs=each) for one, each in pairs))


class Risks(NamedTuple):
    """Variances of the cost at each step, in squared units."""

    epistemic: Float[Array, "T"]
    aleatoric: Float[Array, "T"]


def risks(costs: Float[Array, "T M N"]) -> Risks:
    """Unbiased estimates of both risks. The mean of N roll-outs has variance ``A/N`` even if all
    weights are equal; that is subtracted, so E is unbiased and can be negative."""
    num = costs.shape[2]
    aleatoric = jnp.mean(jnp.var(costs, axis=2, ddof=1), axis=1)
    between = jnp.var(jnp.mean(costs, axis=2), axis=1, ddof=1)
    return Risks(between - aleatoric / num, aleatoric)


def criterion(
    costs: Float[Array, "T M N"],
    epistemic_weight: Float[Array, ""],
    aleatoric_weight: Float[Array, ""],
    cost_scale: Float[Array, ""] | float = 1.0,
) -> Float[Array, ""]:
    """J: expected cost and weighted risk, summed over the horizon. ``cost_scale`` is a typical
    deviation of costs: far smaller risks count as 0."""
    epistemic, aleatoric = risks(costs)
    variance = epistemic_weight**2 * epistemic + aleatoric_weight**2 * aleatoric
    least = jnp.square(SMALLEST * cost_scale)
    # With zero weights the gradient must be zero too, regardless of rounding in the variances.
    risk = jnp.where(variance > least, jnp.sqrt(jnp.maximum(variance, least)), 0.0)
    return jnp.sum(jnp.mean(costs, axis=(1, 2)) + risk)


def centroids(features: np.ndarray, num: int, seed: int) -> np.ndarray:
    """Centres of ``num`` clusters of standardised features ``[N, F]``."""
    clusters = MiniBatchKMeans(min(num, len(features)), random_state=seed, n_init=3)
    return clusters.fit(features).cluster_centers_


def distances(
    features: Float[Array, "*batch F"], centres: Float[Array, "C F"]
) -> Float[Array, "*batch"]:
    """The Euclidean distance of each point to the nearest centre."""
    products = jnp.einsum("...f,cf->...c", features, centres)
    squares = jnp.sum(jnp.square(features), axis=-1, keepdims=True)
    apart = squares - 2.0 * products + jnp.sum(jnp.square(centres), axis=1)
    # The root has no finite gradient at a centre.
    return jnp.sqrt(jnp.maximum(jnp.min(apart, axis=-1), 1e-12))
