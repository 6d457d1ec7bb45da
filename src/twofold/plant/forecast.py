"""Forecasts of policies on a model: expected costs and both risks over the horizon, and how far
roll-outs leave the data.

The distance of a visited state from the data is that to the nearest logged state, in the policy's
standardised inputs. Distances of held-out episodes serve as reference: within the training log they
would be too small, because rows of one episode resemble each other.
"""

import warnings
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from sklearn.neighbors import NearestNeighbors

from twofold.core import memory, sharding
from twofold.core.arrays import Array, Float, Key
from twofold.core.content import check_kinds
from twofold.model.spec import Draws
from twofold.plant.cost import risks
from twofold.plant.log import Log, Start, Starts, Window
from twofold.plant.policy import DTYPE, LearnedPolicy
from twofold.plant.replay import PASSAGES, Passages, choose_passages, replay_costs
from twofold.plant.rollout import DynamicsModel, Noise, Scales, Task, draw_noise, particles, rollout

ROLLOUTS_AT_ONCE = 20_000
NOISE_DRAWS = 8  # roll-outs per weight draw and held-out window
# Held-out windows and weight draws of the roll-outs that find visited states.
STARTS, WEIGHT_DRAWS = 25, 20
CAUTION = 2.0  # multiple of the epistemic risk in the risk-adjusted cost
DIGITS = 5  # significant digits stored: enough for figures, in a third of the file size
# Sample sizes of logged states (the neighbour search takes about a second) and of visited states
# for the epistemic part (200 per decile).
MOST_ROWS, MOST_STATES = 4_000, 2_000
FAR = 0.99
GROUPS = 10
RISKIEST, EPISTEMIC = 10, "epistemic part"
# Quantiles of visited states at each step, for the bands in a report.
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class Forecast(NamedTuple):
    """For each start and step the expected cost and both variances, ``[B, T]``, the expected costs
    under each weight draw, ``[M, T]``, and those of one roll-out from each start, ``[B, T]``."""

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
        return self.cost + float(_root(variance).mean())

    @property
    def epistemic_risk(self) -> float:
        """Standard deviation between weight draws, averaged over steps and starts."""
        return float(_root(self.epistemic).mean())

    @property
    def aleatoric_risk(self) -> float:
        """Standard deviation within weight draws, averaged over steps and starts."""
        return float(_root(self.aleatoric).mean())


def _root(variance: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(variance, 0.0))


def forecast(
    model: DynamicsModel,
    policy: LearnedPolicy,
    starts: Starts,
    horizon: int,
    *,
    weight_draws: int = 50,
    noise_draws: int = 25,
    random_state: int = 0,
) -> Forecast:
    """Roll a policy out from windows ``[B, H, D]``; every policy gets the same random numbers."""
    task, scales, weights = model.under(policy)
    weight_draws = model.draws_of(weight_draws)
    draw_key, noise_key = jax.random.split(jax.random.key(random_state))
    draws = model.posterior.sample(draw_key, weight_draws)
    num = starts.observations.shape[0]
    at_once = max(1, min(num, ROLLOUTS_AT_ONCE // (weight_draws * noise_draws)))
    # The noise of every step and the costs, two copies each.
    each = 2 * 4 * (task.model.latents + task.model.num_noise + 1)
    memory.refuse_beyond(
        each * horizon * at_once * weight_draws * noise_draws,
        f"roll-outs of {horizon:,} steps",
        "use a shorter horizon, or fewer weight_draws or noise_draws",
    )
    mesh = sharding.devices_for(at_once)
    parts = []
    for first in range(0, num, at_once):
        rows = np.minimum(np.arange(first, first + at_once), num - 1)
        own = jax.tree.map(lambda x, rows=rows: jnp.asarray(np.asarray(x)[rows], DTYPE), starts)
        key = jax.random.fold_in(noise_key, first)
        given = sharding.copied(mesh, (key, scales, weights, draws, own, rows))
        found = sharding.on_host(_forecast(task, horizon, noise_draws, mesh, *given))
        filled = min(at_once, num - first)
        parts.append([part[:filled].astype(np.float64) for part in found])
    joined = map(np.concatenate, zip(*parts, strict=True))
    expected, epistemic, aleatoric, of_draws, sampled = joined
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
    starts: Starts,
    rows: Array,
) -> tuple[Array, ...]:
    """All starts, sharded over the devices; the noise does not depend on their number."""
    members, count = draws.weights.shape[0], starts.observations.shape[0]
    noise = draw_noise(key, task.model, horizon, members, count * noise_draws)
    # Shares must be of equal size: pad with the last start, with arbitrary noise.
    more = sharding.room(mesh, count) - count
    starts, rows = jax.tree.map(
        lambda leaf: jnp.pad(leaf, ((0, more), *[(0, 0)] * (leaf.ndim - 1)), "edge"), (starts, rows)
    )
    beside = (0, 0), (0, 0), (0, more * noise_draws), (0, 0)
    noise = Noise(*(jnp.pad(part, beside) for part in noise))

    def share(
        scales: Scales, weights: Array, draws: Draws, noise: Noise, starts: Window, rows: Array
    ) -> tuple[Array, ...]:
        trace = rollout(task, scales, weights[None], draws, noise, particles(starts, noise_draws))
        costs = jnp.moveaxis(trace.costs.reshape(horizon, members, -1, noise_draws), 2, 0)
        of_draws = jnp.moveaxis(costs.mean(axis=3), 2, 1)
        sampled = jax.vmap(lambda own, row: own[:, row % members, 0])(costs, rows)
        return costs.mean(axis=(2, 3)), *jax.vmap(risks)(costs), of_draws, sampled

    along = PartitionSpec(None, None, sharding.AXIS)
    divided = [*[sharding.WHOLE] * 3, along, sharding.SHARED, sharding.SHARED]
    return sharding.divided(share, mesh, divided)(scales, weights, draws, noise, starts, rows)


class Visited(NamedTuple):
    """States after each of T steps of all roll-outs: the policy's standardised inputs and its
    actions, the newest observations, and the model's inputs."""

    features: Float[Array, "T B F"]
    observations: Float[Array, "T B D"]
    actions: Float[Array, "T B A"]
    inputs: Float[Array, "T B I"]


def measure_reach(
    model: DynamicsModel, policy: LearnedPolicy, held_out: Log, horizon: int, random_state: int = 0
) -> dict[str, Any]:
    """Roll a policy out from held-out windows under each weight draw, and measure how far visited
    states are from the data, relative to held-out states: fields of a ``Trial``."""
    rng = np.random.default_rng(random_state)
    seen = model.embedding.starts(held_out, horizon)
    windows = jax.tree.map(partial(jnp.asarray, dtype=DTYPE), seen)
    rows = rng.permutation(len(windows.observations))[:STARTS]
    draw_key, noise_key = jax.random.split(jax.random.key(random_state))
    task, *of_policy = model.under(policy)
    draws = model.posterior.sample(draw_key, WEIGHT_DRAWS)
    begin = jax.tree.map(lambda leaf: leaf[rows], windows)
    found = visit(task, horizon, noise_key, *of_policy, draws, begin)
    parts = model.features, np.asarray(jax.vmap(model.embedding.features)(windows))
    samples = (rng.permutation(part)[:MOST_ROWS] for part in parts)
    known, usual = map(policy.standardizer.transform, samples)
    apart, beyond, middle, far = distances(known, usual, np.asarray(found.features))
    states = with_epistemic_part(model, found, rng)
    epistemic = states[EPISTEMIC]
    names = model.embedding.observations
    shares = {name: share_explained(states[name], epistemic) for name in names}
    top = np.argsort(-epistemic)[:RISKIEST]
    bands = zip((*names, *model.embedding.actions), quantiles(found), strict=True)
    return {
        "apart": apart, "beyond": beyond, "usual": middle, "far": far,
        "columns": dict(sorted(shares.items(), key=lambda item: -item[1])),
        "riskiest": {name: values[top] for name, values in states.items()},
        "visited": {name: _round(band) for name, band in bands},
    }  # fmt: skip


@partial(jax.jit, static_argnums=(0, 1))
def visit(
    task: Task,
    horizon: int,
    key: Key,
    scales: Scales,
    weights: Float[Array, "P"],
    draws: Draws,
    starts: Starts,
) -> Visited:
    """Roll out once from each start under each weight draw, one step beyond the horizon: the last
    state needs an action too."""
    history, count = task.embedding.history, draws.weights.shape[0]
    noise = draw_noise(key, task.model, horizon + 1, count, starts.observations.shape[0])
    if isinstance(starts, Start):  # of the extra step, only the state before it
        starts = starts._replace(coming=jnp.pad(starts.coming, ((0, 0), (0, 1), (0, 0)), "edge"))
    trace = rollout(task, scales, weights[None], draws, noise, starts)
    seen = _join(starts.observations, trace.observations)
    done = _join(starts.actions, trace.actions)
    coming = seen[:, history:, task.embedding.exogenous_places]

    def at(step: Array) -> tuple[Array, Array, Array]:
        cut = partial(jax.lax.dynamic_slice_in_dim, start_index=step, axis=1)
        window = Window(cut(seen, slice_size=history), cut(done, slice_size=history - 1))
        action = done[:, step + history - 1]
        inputs = jax.vmap(task.embedding.input)(window, action, coming[:, step])
        return window.observations[:, -1], action, inputs

    features = trace.features[1:].reshape(horizon, -1, trace.features.shape[-1])
    return Visited(features, *jax.vmap(at)(jnp.arange(1, horizon + 1)))


def _join(before: Float[Array, "B H D"], after: Float[Array, "T M S B D"]) -> Array:
    """Windows followed by roll-outs, ``[M · B, H + T, D]``, for one policy."""
    after = jnp.moveaxis(after[:, :, 0], 0, 2)
    before = jnp.broadcast_to(before, (after.shape[0], *before.shape))
    joined = jnp.concatenate([before, after], axis=2)
    return joined.reshape(-1, *joined.shape[2:])


def distances(
    known: Float[np.ndarray, "N F"],
    usual: Float[np.ndarray, "N F"],
    visited: Float[np.ndarray, "T B F"],
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Distances to the nearest known state (non-finite states are infinitely far): at each step the
    median over visited states and the share beyond the 99th percentile of held-out ones, and the
    median and that percentile of held-out states."""
    neighbours = NearestNeighbors(n_neighbors=1).fit(known)
    ordinary = neighbours.kneighbors(usual)[0][:, 0]
    apart = np.full(visited.shape[:2], np.inf)
    fine = np.isfinite(visited).all(axis=2)
    if fine.any():
        apart[fine] = neighbours.kneighbors(visited[fine])[0][:, 0]
    far = float(np.quantile(ordinary, FAR))
    beyond = (apart > far).mean(axis=1)
    return np.median(apart, axis=1), beyond, float(np.median(ordinary)), far


def with_epistemic_part(
    model: DynamicsModel, visited: Visited, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """A sample of visited states by column, their steps, and the epistemic part there: the variance
    of ``E[y | x, W]`` between weight draws, in squared deviations, summed over outputs."""
    fine = np.isfinite(visited.inputs).all(axis=2) & np.isfinite(visited.observations).all(axis=2)
    steps, rollouts = np.nonzero(fine)
    if len(steps) == 0:
        raise ValueError("no state visited by the policy is finite; assess the model")
    rows = rng.permutation(len(steps))[:MOST_STATES]
    steps, places = steps[rows] + 1, (steps[rows], rollouts[rows])
    _, observations, actions, inputs = (np.asarray(part, float)[places] for part in visited)
    split = model.regressor.decompose(inputs, by="variance").epistemic.reshape(len(inputs), -1)
    epistemic = (split / np.square(model.regressor.y_standardizer_.scale)).sum(axis=1)
    names = *model.embedding.observations, *model.embedding.actions
    columns = dict(zip(names, (*observations.T, *actions.T), strict=True))
    return {"after steps": steps, **columns, EPISTEMIC: epistemic}


def quantiles(visited: Visited) -> Float[np.ndarray, "columns T Q"]:
    """Quantiles of observations and actions at each step, over roll-outs that are finite there."""
    values = np.concatenate([visited.observations, visited.actions], axis=2).astype(float)
    values[~np.isfinite(values)] = np.nan
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice")
        found = np.nanquantile(values, QUANTILES, axis=1)
    return np.moveaxis(found, (0, 1, 2), (2, 1, 0))


def share_explained(values: np.ndarray, epistemic: np.ndarray) -> float:
    """η², the share of the epistemic part's variance that the deciles of a column explain."""
    deciles = np.quantile(values, np.linspace(0.0, 1.0, GROUPS + 1))
    group = np.searchsorted(deciles[1:-1], values, side="right")
    counts = np.bincount(group, minlength=GROUPS)
    with np.errstate(invalid="ignore"):
        means = np.bincount(group, epistemic, minlength=GROUPS) / counts
    between = np.nansum(counts * np.square(means - epistemic.mean()))
    total = np.square(epistemic - epistemic.mean()).sum()
    return float(between / total) if total else 0.0


@dataclass(frozen=True, eq=False)
class Trial:
    """A policy on the model, from held-out starts.

    ``expected`` holds the costs at each of T steps, ``epistemic`` and ``aleatoric`` their
    deviations. ``apart`` is the median distance of visited states to the nearest logged one
    (``usual``: that of held-out states), ``beyond`` the share of them farther than 99 % of held-out
    states (``far``). ``columns`` lists observations with the share of the epistemic part that they
    explain, largest first; ``riskiest`` the visited states where it is largest, by column.
    ``rollouts`` are costs of some roll-outs ``[R, T]``; ``visited`` has quantiles ``[T, 5]`` of
    each column at each step, ``logged`` those of the log. ``saving`` is the saving per step against
    the logged controller, replayed from the same starts (NaN: unknown), and ``saving_risk`` its
    deviation between weight draws; ``second_saving`` is the saving by a second opinion (NaN: not
    asked for, or not finite).
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
    saving: float = np.nan
    saving_risk: float = np.nan
    second_saving: float = np.nan

    def __post_init__(self):
        check_kinds(self, "trial")
        stepwise = self.expected, self.epistemic, self.aleatoric, self.apart, self.beyond
        steps = list(map(len, stepwise))
        if len(set(steps)) != 1 or 0 in steps:
            raise ValueError(f"the parts of a trial need equally many steps, got {steps}")

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
        """Standard deviation of the cost between weight draws, averaged over steps."""
        return float(self.epistemic.mean())

    @property
    def aleatoric_risk(self) -> float:
        """Standard deviation of the cost within weight draws, averaged over steps."""
        return float(self.aleatoric.mean())

    @property
    def careful_cost(self) -> float:
        """The risk-adjusted cost: expected cost plus twice the epistemic risk."""
        return self.cost + CAUTION * self.epistemic_risk

    @property
    def careful_saving(self) -> float:
        """The risk-adjusted saving: expected saving minus twice its epistemic risk."""
        return self.saving - CAUTION * self.saving_risk

    @property
    def share_beyond(self) -> float:
        """Share of visited states beyond the data."""
        return float(self.beyond.mean())


def evaluate_policy(
    model: DynamicsModel,
    policy: LearnedPolicy,
    held_out: Log,
    horizon: int,
    random_state: int,
    second: DynamicsModel | None = None,
) -> Trial:
    """Forecast a policy from the starts of the held-out passages that evaluate the model, and
    measure how far it leaves the data. ``second`` is another model to forecast its saving with."""
    rng = np.random.default_rng(random_state)
    passages, logged = choose_passages(model, held_out, horizon, PASSAGES, rng)
    draws = {"noise_draws": NOISE_DRAWS, "random_state": random_state}
    costs = forecast(model, policy, passages.start, horizon, **draws)
    saving = measure_saving(model, passages, logged.mean(), costs, random_state)
    opinion = np.array(np.nan)
    if second is not None:
        of_second = forecast(second, policy, passages.start, horizon, **draws)
        opinion = measure_saving(second, passages, None, of_second, random_state)
    reach = measure_reach(model, policy, held_out, horizon, random_state)
    columns, ends = {name: model.log.column(name) for name in reach["visited"]}, (0, *QUANTILES, 1)
    return Trial(
        *policy.risk_weights,
        # Means over starts; for risks, means of standard deviations, as in the criterion.
        expected=costs.expected.mean(axis=0),
        epistemic=_root(costs.epistemic).mean(axis=0),
        aleatoric=_root(costs.aleatoric).mean(axis=0),
        rollouts=_round(costs.sampled),
        logged={name: _round(np.nanquantile(own, ends)) for name, own in columns.items()},
        saving=float(saving.mean()),
        saving_risk=float(saving.std(ddof=1)),
        second_saving=float(opinion.mean()),
        **reach,
    )


def measure_saving(
    model: DynamicsModel, passages: Passages, logged: float | None, costs: Forecast, seed: int
) -> Float[np.ndarray, "M"]:
    """Saving per step of a policy against the logged controller, under each weight draw.

    The controller's cost is known, ``logged``. Its replay from the same windows, with the same
    weight draws, is a control variate: its error is subtracted as far as the error of the policy's
    forecast is correlated with it. If ``logged`` is None, the saving is against the replay:
    identical draws tell nothing about that correlation.
    """
    draw_key, noise_key = jax.random.split(jax.random.key(seed))
    draws = model.posterior.sample(draw_key, len(costs.by_draw))
    replayed = replay_costs(model, NOISE_DRAWS, noise_key, draws, passages)
    policy = costs.by_draw[:, : replayed.shape[3]].mean(axis=1)
    replayed = replayed.mean(axis=(1, 2, 3))
    return replayed - policy if logged is None else save_against(logged, replayed, policy)


def save_against(
    logged: float, replayed: Float[np.ndarray, "M"], policy: Float[np.ndarray, "M"]
) -> Float[np.ndarray, "M"]:
    """``C + c (R_m − C) − P_m`` with the logged cost C, its replays R and the policy's costs P; c,
    from 0 to 1, minimises the variance."""
    variance = replayed.var()
    common = np.mean((replayed - replayed.mean()) * (policy - policy.mean()))
    share = np.clip(common / variance, 0.0, 1.0) if variance > 0.0 else 1.0
    return logged + share * (replayed - logged) - policy


def _round(values: np.ndarray) -> np.ndarray:
    """Round to a few significant digits."""
    return np.vectorize(lambda value: float(f"{value:.{DIGITS}g}"), otypes=[float])(values)
