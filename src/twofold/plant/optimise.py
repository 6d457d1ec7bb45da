"""Policy search: minimise J by stochastic gradients through roll-outs (paper, §5).

An update draws starts from the log, M sets of weights from the posterior and N noise sequences for
each; all policies that are searched together see the same draws, so that they differ by their
weights β and γ and by where they began, and not by luck. It is an ``Algorithm`` like those of
``inference``, with policies as members, so that the same loop runs, resumes and stops it.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from twofold.core.arrays import Array, Float, Int, Key, Keys
from twofold.inference.base import Algorithm, Info, bind
from twofold.inference.schedule import Schedule, learning_rate
from twofold.model.posterior import Draws, Posterior
from twofold.plant import network as policy
from twofold.plant.baseline import distances
from twofold.plant.risk import criterion
from twofold.plant.rollout import (
    Noise,
    Scales,
    Task,
    Trace,
    draw_noise,
    particles,
    values_and_gradients,
)
from twofold.plant.windows import Window


@dataclass(frozen=True)
class Config:
    """Sizes of an update: T steps, M weight draws, N roll-outs of each, from some starts.

    ``updates`` make an epoch.
    ``clip`` bounds the norm of the gradient of J per step, in units of the deviation of the costs.
    ``distance`` makes the nearest-neighbour baseline's criterion of it.
    """

    task: Task
    horizon: int
    weight_draws: int
    noise_draws: int
    starts: int
    updates: int = 100
    clip: float = 10.0
    distance: bool = False

    def __post_init__(self):
        for name in ("horizon", "starts", "updates"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        least = 1 if self.distance else 2
        for name in ("weight_draws", "noise_draws"):
            if getattr(self, name) < least:
                raise ValueError(
                    f"{name} must be at least {least}, got {getattr(self, name)}; a variance needs "
                    "two"
                )


class Weights(NamedTuple):
    """What a policy is to be careful of: β and γ."""

    epistemic: Float[Array, "*S"]
    aleatoric: Float[Array, "*S"]


class Plant(NamedTuple):
    """What all policies share: the model, where roll-outs start, and the randomness.

    ``centroids`` are those of the nearest-neighbour baseline, and empty for all others.
    """

    key: Key
    posterior: Posterior
    scales: Scales
    starts: Window
    schedule: Schedule
    centroids: Float[Array, "C F"]


class State(NamedTuple):
    """Policies on their way."""

    weights: Float[Array, "*S P"]
    moments: Any


def optimiser(config: Config) -> optax.GradientTransformation:
    """Adam behind a clipped gradient, for a learning rate that is multiplied later."""
    return optax.chain(optax.clip_by_global_norm(config.clip), optax.scale_by_adam())


def objective(config: Config, wanted: Weights, plant: Plant, trace: Trace) -> Float[Array, "S"]:
    """The criterion of each policy, a mean over starts, and per step, so that horizons compare."""
    if config.distance:
        risk = distances(trace.reached, plant.centroids)
        return jnp.mean(trace.costs + wanted.epistemic[:, None] * risk, axis=(0, 1, 3))
    steps, draws, policies, _ = trace.costs.shape
    apart = trace.costs.reshape(steps, draws, policies, config.starts, config.noise_draws)
    of_starts = jax.vmap(criterion, in_axes=(2, None, None, None))
    of_policies = jax.vmap(of_starts, in_axes=(2, 0, 0, None))
    found = of_policies(apart, *wanted, plant.scales.cost_scale)
    return jnp.mean(found, axis=1) / steps


def init(config: Config, key: Key, problem: Weights) -> State:
    """A random policy; those of the same key begin alike."""
    weights = policy.init(key, config.task.shape)
    return State(weights, optimiser(config).init(weights))


def step(
    config: Config,
    keys: Keys,
    state: State,
    problem: Weights,
    plant: Plant,
    epoch: Int[Array, ""],
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
    config: Config, state: State, problem: Weights, plant: Plant, number: Int[Array, ""]
) -> tuple[State, Info]:
    """One update; that of a policy whose gradient is not finite is counted and not made."""
    windows, draws, noise = draw(config, plant, number)
    values, gradients = values_and_gradients(
        lambda trace: objective(config, problem, plant, trace),
        config.task,
        plant.scales,
        state.weights,
        draws,
        noise,
        windows,
    )
    fine = jnp.isfinite(values) & jnp.all(jnp.isfinite(gradients), axis=1)
    gradients = gradients / plant.scales.cost_scale
    rate = learning_rate(plant.schedule, number / (plant.schedule.epochs * config.updates))
    directions, moments = jax.vmap(optimiser(config).update)(gradients, state.moments)
    after = State(state.weights - rate * directions, moments)

    def kept(new: Array, old: Array) -> Array:
        return jnp.where(fine.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    after = jax.tree.map(kept, after, state)
    return after, Info(jnp.where(fine, values, 0.0), 1 - fine.astype(int))


def draw(config: Config, plant: Plant, number: Int[Array, ""]) -> tuple[Window, Draws, Noise]:
    """Everything random about an update, from its number alone: shared by all policies."""
    start_key, draw_key, noise_key = jax.random.split(jax.random.fold_in(plant.key, number), 3)
    rows = jax.random.randint(start_key, (config.starts,), 0, plant.starts.observations.shape[0])
    sizes = config.horizon, config.weight_draws, config.starts * config.noise_draws
    return (
        particles(Window(*(leaf[rows] for leaf in plant.starts)), config.noise_draws),
        plant.posterior.sample(draw_key, config.weight_draws),
        draw_noise(noise_key, config.task.model, *sizes),
    )


def build(config: Config) -> Algorithm:
    """The search as an algorithm whose members are policies."""
    return bind(init, step, config, together=True)
