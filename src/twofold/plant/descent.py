"""An update of policies: one gradient step on J (paper, §5).

An update draws starts from the log, M sets of weights from the posterior and N noise sequences for
each. All policies searched together share these draws, so they differ only by their risk weights β
and γ and by their initial weights. The search is an ``Algorithm`` like those of ``inference``, with
policies as members, so the same loop runs, resumes and stops it.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from twofold.core.arrays import Array, Float, Int, Key, Keys
from twofold.core.numerics import select
from twofold.inference.loop import Algorithm, Info, Schedule, bind, learning_rate
from twofold.inference.method import check_integer
from twofold.model.spec import Draws, Posterior
from twofold.plant import policy
from twofold.plant.cost import criterion, distances
from twofold.plant.log import Starts
from twofold.plant.rollout import (
    Noise,
    Scales,
    Task,
    Trace,
    draw_noise,
    particles,
    rollout,
    values_and_gradients,
)

Index = Int[Array, ""]


@dataclass(frozen=True)
class Config:
    """Static settings of compiled updates: sizes as in ``SearchSettings``; ``distance`` selects the
    criterion of the nearest-neighbour baseline."""

    task: Task
    horizon: int
    weight_draws: int
    noise_draws: int
    starts: int
    updates: int = 100
    clip: float = 10.0
    distance: bool = False

    def __post_init__(self):
        check_integer("horizon", self.horizon, 1)
        if not self.distance:
            check_draws(self.weight_draws, self.noise_draws)


class RiskWeights(NamedTuple):
    """β and γ of each policy, and its initial weights (None: random)."""

    epistemic: Float[Array, "*S"]
    aleatoric: Float[Array, "*S"]
    begin: Float[Array, "*S P"] | None = None


class Plant(NamedTuple):
    """Shared by all policies: the model, starts of roll-outs, and the random key; ``centroids`` are
    those of the nearest-neighbour baseline, and empty otherwise."""

    key: Key
    posterior: Posterior
    scales: Scales
    starts: Starts
    schedule: Schedule
    centroids: Float[Array, "C F"]


class State(NamedTuple):
    """State of the search: policies and optimiser."""

    weights: Float[Array, "*S P"]
    moments: Any


def optimiser(config: Config) -> optax.GradientTransformation:
    """Adam with gradient clipping; the learning rate is applied separately."""
    return optax.chain(optax.clip_by_global_norm(config.clip), optax.scale_by_adam())


def objective(
    config: Config, risk_weights: RiskWeights, plant: Plant, trace: Trace
) -> Float[Array, "S"]:
    """The criterion of each policy: mean over starts, per step, so that horizons are comparable."""
    if config.distance:
        risk = distances(trace.reached, plant.centroids)
        return jnp.mean(trace.costs + risk_weights.epistemic[:, None] * risk, axis=(0, 1, 3))
    steps, draws, policies, _ = trace.costs.shape
    apart = trace.costs.reshape(steps, draws, policies, config.starts, config.noise_draws)
    of_starts = jax.vmap(criterion, in_axes=(2, None, None, None))
    of_policies = jax.vmap(of_starts, in_axes=(2, 0, 0, None))
    weights = risk_weights.epistemic, risk_weights.aleatoric
    return jnp.mean(of_policies(apart, *weights, plant.scales.cost), axis=1) / steps


def init(config: Config, key: Key, problem: RiskWeights) -> State:
    """The initial weights of a policy; equal keys give equal random weights."""
    begin = problem.begin
    weights = policy.init(key, config.task.shape) if begin is None else begin
    return State(weights, optimiser(config).init(weights))


def step(
    config: Config, keys: Keys, state: State, problem: RiskWeights, plant: Plant, epoch: Index
) -> tuple[State, Info]:
    """One epoch of updates of all policies."""

    def one_update(index: Array, carry: tuple[State, Array, Array]) -> tuple[State, Array, Array]:
        state, total, skipped = carry
        state, info = update(config, state, problem, plant, epoch * config.updates + index)
        return state, total + info.energy, skipped + info.skipped

    members = keys.shape[0]
    nothing = state, jnp.zeros(members), jnp.zeros(members, int)
    state, total, skipped = jax.lax.fori_loop(0, config.updates, one_update, nothing)
    return state, Info(total / (config.updates - skipped), skipped)


def update(
    config: Config, state: State, problem: RiskWeights, plant: Plant, number: Index
) -> tuple[State, Info]:
    """One update; for a policy with a non-finite gradient it is skipped and counted."""
    of_trace, draws = partial(objective, config, problem, plant), draw(config, plant, number)
    given = config.task, plant.scales, state.weights
    values, gradients = values_and_gradients(of_trace, *given, *draws)
    fine = jnp.isfinite(values) & jnp.all(jnp.isfinite(gradients), axis=1)
    gradients = gradients / plant.scales.cost
    rate = learning_rate(plant.schedule, number / (plant.schedule.epochs * config.updates))
    directions, moments = jax.vmap(optimiser(config).update)(gradients, state.moments)
    after = select(fine, State(state.weights - rate * directions, moments), state)
    return after, Info(jnp.where(fine, values, 0.0), 1 - fine.astype(int))


def draw(config: Config, plant: Plant, number: Index) -> tuple[Draws, Noise, Starts]:
    """All random draws of an update, from its number alone; shared by all policies."""
    start_key, draw_key, noise_key = jax.random.split(jax.random.fold_in(plant.key, number), 3)
    rows = jax.random.randint(start_key, (config.starts,), 0, plant.starts.observations.shape[0])
    sizes = config.horizon, config.weight_draws, config.starts * config.noise_draws
    return (
        plant.posterior.sample(draw_key, config.weight_draws),
        draw_noise(noise_key, config.task.model, *sizes),
        particles(jax.tree.map(lambda leaf: leaf[rows], plant.starts), config.noise_draws),
    )


@partial(jax.jit, static_argnums=0)
def compare(
    config: Config,
    problem: RiskWeights,
    plant: Plant,
    weights: Float[Array, "Q P"],
    numbers: Int[Array, "updates"],
) -> Float[Array, "S Q"]:
    """J of all policies under the risk weights of S problems, on the draws of some updates."""

    def on_draws(number: Index) -> Float[Array, "S Q"]:
        trace = rollout(config.task, plant.scales, weights, *draw(config, plant, number))

        def by_weights(epistemic: Array, aleatoric: Array) -> Float[Array, "Q"]:
            alike = jnp.ones(weights.shape[0])
            own = RiskWeights(epistemic * alike, aleatoric * alike)
            return objective(config, own, plant, trace)

        return jax.vmap(by_weights)(problem.epistemic, problem.aleatoric)

    return jnp.mean(jax.lax.map(on_draws, numbers), axis=0)


def build(config: Config) -> Algorithm:
    """The search as an algorithm whose members are policies."""
    return bind(init, step, config, together=True)


def check_draws(weight_draws: int, noise_draws: int) -> None:
    """Refuse fewer than two draws."""
    for name, value in (("weight_draws", weight_draws), ("noise_draws", noise_draws)):
        if value < 2:
            raise ValueError(f"{name} must be at least 2 to estimate a variance, got {value}")
