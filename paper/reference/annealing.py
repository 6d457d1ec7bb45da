"""Annealed populations: sequential Monte Carlo from the prior to the posterior (Del Moral et al.
2006), with Hamiltonian Monte Carlo between the powers of the likelihood.

A population starts as draws from the prior. The power β of the likelihood rises from 0 to 1 in
stages. Each stage raises β as far as the weights ``L^(β' − β)`` keep an effective fraction SPREAD
of the population, resamples the population by these weights, and moves each particle along
trajectories of Hamiltonian Monte Carlo that leave ``prior × L^β'`` invariant. Modes are reached
while it is easy to move between them, and the weights decide how many particles each gets.
Populations are independent, so they can be compared like chains.

In the coordinates used, the prior is standard normal; there a quarter of a period, π / 2,
decorrelates a trajectory from its start. The step size follows the acceptance of each population.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float, Int, Key

SPREAD = 0.7
ACCEPTANCE, ADAPTATION = 0.8, 0.5
FIRST_STEP, SHORTENING = 0.2, 0.35
LENGTH = np.pi / 2
FEWEST_STEPS, MOST_PATHS = 5, 8

Function = Callable[[Float[Array, "C d"]], Array]


class Density(NamedTuple):
    """Log-likelihoods of many positions, and forces: gradients or approximations of them."""

    log_likelihood: Function
    force: Function


class State(NamedTuple):
    """G populations of P particles each; ``evidence`` is the estimate of ``log p(y | X)``."""

    positions: Float[Array, "G P d"]
    log_likelihood: Float[Array, "G P"]
    power: Float[Array, "G"]
    log_step: Float[Array, "G"]
    evidence: Float[Array, "G"]
    acceptance: Float[Array, "G"]


def init(density: Density, key: Key, groups: int, particles: int, dimension: int) -> State:
    """Draws from the prior."""
    positions = jax.random.normal(key, (groups, particles, dimension), jnp.float32)
    nothing = jnp.zeros(groups, jnp.float32)
    log_likelihood = density.log_likelihood(positions.reshape(-1, dimension))
    log_step = nothing + np.log(FIRST_STEP)
    return State(
        positions, log_likelihood.reshape(groups, particles), nothing, log_step, nothing, nothing
    )


def effective_share(log_weights: Float[Array, "P"]) -> Float[Array, ""]:
    """``(Σ w)² / (P Σ w²)``."""
    twice = jax.nn.logsumexp(2.0 * log_weights)
    return jnp.exp(2.0 * jax.nn.logsumexp(log_weights) - twice) / len(log_weights)


def next_power(log_likelihood: Float[Array, "P"], power: Float[Array, ""]) -> Float[Array, ""]:
    """The largest power whose weights keep an effective fraction SPREAD of the population, by
    bisection in the logarithm of the step."""

    def halve(_: int, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = 0.5 * (low + high)
        enough = effective_share(jnp.exp(middle) * log_likelihood) >= SPREAD
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

    top = jnp.log(jnp.maximum(1.0 - power, 1e-12))
    whole = effective_share((1.0 - power) * log_likelihood) >= SPREAD
    low, _ = jax.lax.fori_loop(0, 40, halve, (top - 30.0, top))
    return jnp.where(whole, 1.0, power + jnp.exp(low))


def choose(key: Key, log_weights: Float[Array, "P"]) -> Int[Array, "P"]:
    """Systematic resampling: particle i is chosen ``P w_i`` times on average."""
    count = len(log_weights)
    bounds = jnp.cumsum(jax.nn.softmax(log_weights))
    places = (jnp.arange(count) + jax.random.uniform(key)) / count
    return jnp.clip(jnp.searchsorted(bounds, places * bounds[-1]), 0, count - 1)


def reweigh(key: Key, state: State) -> State:
    """Reweight and resample the populations at their next powers."""
    power = jax.vmap(next_power)(state.log_likelihood, state.power)
    log_weights = (power - state.power)[:, None] * state.log_likelihood
    size = log_weights.shape[1]
    evidence = state.evidence + jax.nn.logsumexp(log_weights, axis=1) - jnp.log(size)
    chosen = jax.vmap(choose)(jax.random.split(key, len(power)), log_weights)
    return state._replace(
        positions=jnp.take_along_axis(state.positions, chosen[..., None], axis=1),
        log_likelihood=jnp.take_along_axis(state.log_likelihood, chosen, axis=1),
        power=power,
        log_step=state.log_step - shorten(state.power, power),
        evidence=evidence,
    )


def shorten(before: Float[Array, "G"], after: Float[Array, "G"]) -> Float[Array, "G"]:
    """Decrease of the log step size as the posterior gets narrower, at most SHORTENING."""
    return jnp.clip(0.5 * jnp.log(after / jnp.maximum(before, 1e-12)), 0.0, SHORTENING)


def move(density: Density, key: Key, state: State, steps: Int[Array, ""]) -> State:
    """A Hamiltonian trajectory of ``steps`` leapfrog steps for every particle, accepted or
    rejected."""
    groups, size, dimension = state.positions.shape
    momentum_key, jitter_key, test_key = jax.random.split(key, 3)
    start = state.positions.reshape(-1, dimension)
    power = jnp.repeat(state.power, size)[:, None]
    jitter = jax.random.uniform(jitter_key, (groups * size, 1), minval=0.8, maxval=1.2)
    step = jnp.repeat(jnp.exp(state.log_step), size)[:, None] * jitter
    momentum = jax.random.normal(momentum_key, start.shape, start.dtype)

    def force(position: Array) -> Array:
        return power * density.force(position) - position

    def leap(_: int, where: tuple[Array, Array]) -> tuple[Array, Array]:
        position, momentum = where
        position = position + step * momentum
        return position, momentum + step * force(position)

    # Start with half a momentum step; half of the last full one is undone.
    pushed = momentum + 0.5 * step * force(start)
    position, pushed = jax.lax.fori_loop(0, steps, leap, (start, pushed))
    pushed = pushed - 0.5 * step * force(position)
    proposed = density.log_likelihood(position)
    before = power[:, 0] * state.log_likelihood.ravel() - _energy(start, momentum)
    gain = power[:, 0] * proposed - _energy(position, pushed) - before
    gain = jnp.where(jnp.isfinite(gain), gain, -jnp.inf)
    accepted = jnp.log(jax.random.uniform(test_key, gain.shape)) < gain
    rate = jnp.mean(jnp.exp(jnp.minimum(gain, 0.0)).reshape(groups, size), axis=1)
    return state._replace(
        positions=jnp.where(accepted[:, None], position, start).reshape(state.positions.shape),
        log_likelihood=jnp.where(accepted, proposed, state.log_likelihood.ravel()).reshape(
            groups, size
        ),
        log_step=state.log_step + ADAPTATION * (rate - ACCEPTANCE),
        acceptance=rate,
    )


def _energy(position: Float[Array, "C d"], momentum: Float[Array, "C d"]) -> Float[Array, "C"]:
    """Prior energy plus kinetic energy."""
    return 0.5 * jnp.sum(jnp.square(position) + jnp.square(momentum), axis=1)


@partial(jax.jit, static_argnames="density")
def advance(density: Density, key: Key, state: State, steps: Int[Array, "paths"]) -> State:
    """A stage: the next power, then trajectories of these numbers of steps (0: none)."""
    reweigh_key, key = jax.random.split(key)
    state = reweigh(reweigh_key, state)

    def one(index: int, state: State) -> State:
        return move(density, jax.random.fold_in(key, index), state, steps[index])

    return jax.lax.fori_loop(0, jnp.sum(steps > 0), one, state)


def path_steps(
    rng: np.random.Generator, state: State, work: int, most: int
) -> Int[np.ndarray, "paths"]:
    """Numbers of steps of the trajectories of a stage: lengths between LENGTH / 2 and LENGTH, at
    ``most`` this many steps; as many trajectories as make up ``work`` steps in total, at least
    two."""
    step = np.exp(np.median(np.asarray(state.log_step)))
    lengths = rng.uniform(0.5, 1.0, MOST_PATHS) * min(LENGTH / step, most)
    steps = np.maximum(lengths, min(FEWEST_STEPS, most)).astype(np.int32)
    steps[max(2, int(np.searchsorted(np.cumsum(steps), work))) :] = 0
    return steps
