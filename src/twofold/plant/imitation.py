"""Imitation of the logged controller, so that replays react to noise as it did.

Logged actions u_t were reactions to the noise in the logged states s'_t. A roll-out has other noise
and other states s_t, where the same actions would no longer stabilise the plant: even replays on
the plant itself would cost more than the log. A replay therefore applies

    a_t = u_t + π(s_t) − π(s'_t),

within the bounds, with a network π fitted to the logged actions. What is left of the logged
actions, u_t − π(s'_t), is exploration. If that is independent of the plant's noise and π is right,
replays of the right model have the right mean. With a constant π, a_t = u_t.

What a log explores usually persists, and is then no reaction to the states that it has led to. π is
therefore fitted with autocorrelated residuals: with ρ for each action it minimises

    Σ_t (u_t − π(s'_t) − ρ (u_{t-1} − π(s'_{t-1})))²

by Adam, with early stopping on held-out blocks of the log. An action that it does not predict there
better than a linear regression on the previous actions is replayed as logged.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from twofold.core.arrays import Array, Bool, Float, Int, Key
from twofold.core.numerics import Standardizer, select
from twofold.estimators.linear import LinearGaussian
from twofold.model import network
from twofold.plant import policy
from twofold.plant.policy import DTYPE, PolicyNetwork

HIDDEN = (20, 20)
BLOCKS, HELD_OUT = 20, 4  # every fourth of twenty consecutive blocks of rows is held out
FEWEST_ROWS = 100
BATCH, UPDATES, LOOKS = 256, 2_000, 20
LEARNING_RATE = 1e-2
LEAST_EXPLAINED = 0.02  # share of the variance of an action, given the previous one
STREAM = 0
OPTIMISER = optax.scale_by_adam()


class Pairs(NamedTuple):
    """Standardised features and actions (from -1 to 1) of rows and of the rows before."""

    features: Float[Array, "N F"]
    actions: Float[Array, "N A"]
    features_before: Float[Array, "N F"]
    actions_before: Float[Array, "N A"]


def imitate(
    shape: PolicyNetwork,
    features: Float[np.ndarray, "N F"],
    actions: Float[np.ndarray, "N A"],
    follows: Bool[np.ndarray, "N"],
) -> Float[np.ndarray, "P"]:
    """Weights of a policy that imitates the logged controller, from raw features; actions that it
    cannot predict get the middle of their bounds. ``follows`` marks rows that continue the row
    before."""
    nothing = np.zeros(network.num_weights(shape.sizes), DTYPE)
    later = np.flatnonzero(follows)
    if len(later) < FEWEST_ROWS:
        return nothing
    block = np.arange(len(later)) * BLOCKS // len(later)
    held_out = block % HELD_OUT == HELD_OUT - 1
    seen = Standardizer.fit(features.astype(float)).transform(features)
    low, high = np.array(shape.low), np.array(shape.high)
    aims = (2.0 * actions - low - high) / (high - low)
    known, unknown = (
        Pairs(*(jnp.asarray(part[at], DTYPE) for at in (rows, rows - 1) for part in (seen, aims)))
        for rows in (later[~held_out], later[held_out])
    )
    weights, error = _train(shape, jax.random.key(STREAM), known, unknown)
    persistent = LinearGaussian.fit(aims[later[~held_out] - 1], aims[later[~held_out]])
    predicted = persistent.predict(aims[later[held_out] - 1])
    rest = np.square(aims[later[held_out]] - predicted).mean(axis=0)
    lost = np.asarray(error) >= (1.0 - LEAST_EXPLAINED) * rest
    return nothing if lost.all() else np.asarray(silence(shape, weights, lost))


def imitate_actions(
    shape: PolicyNetwork, weights: Float[Array, "P"], features: Float[Array, "N F"]
) -> Float[Array, "N A"]:
    """Actions at standardised features, scaled to lie between -1 and 1."""
    return jnp.tanh(network.apply_rows(policy.layers_of(shape, weights[None]), features[None])[0])


def silence(shape: PolicyNetwork, weights: Array, which: np.ndarray) -> Float[Array, "P"]:
    """Weights with which some actions stay in the middle of their bounds."""
    silent = np.append(np.repeat(which, shape.sizes[-2]), which)  # of the last kernel and bias
    return weights.at[-len(silent) :].set(jnp.where(silent, 0.0, weights[-len(silent) :]))


@partial(jax.jit, static_argnums=0)
def _train(
    shape: PolicyNetwork, key: Key, known: Pairs, unknown: Pairs
) -> tuple[Float[Array, "P"], Float[Array, "A"]]:
    """The best weights on held-out rows, and the squared error of each action there."""
    start_key, batch_key = jax.random.split(key)
    begin = policy.init(start_key, shape), jnp.zeros(len(shape.low), DTYPE)

    def error(fit: tuple[Array, Array], pairs: Pairs) -> Float[Array, "A"]:
        weights, persistence = fit
        now = pairs.actions - imitate_actions(shape, weights, pairs.features)
        before = pairs.actions_before - imitate_actions(shape, weights, pairs.features_before)
        return jnp.mean(jnp.square(now - persistence * before), axis=0)

    def update(number: Int[Array, ""], carry: tuple[Any, Any]) -> tuple[Any, Any]:
        fit, moments = carry
        own = jax.random.fold_in(batch_key, number)
        rows = jax.random.randint(own, (BATCH,), 0, known.actions.shape[0])
        batch = jax.tree.map(lambda leaf: leaf[rows], known)
        slope = jax.grad(lambda fit: jnp.sum(error(fit, batch)))(fit)
        direction, moments = OPTIMISER.update(slope, moments)
        rate = LEARNING_RATE * 0.5 * (1.0 + jnp.cos(jnp.pi * number / UPDATES))
        return jax.tree.map(lambda leaf, by: leaf - rate * by, fit, direction), moments

    def look(carry: Any, number: Int[Array, ""]) -> tuple[Any, None]:
        fit, moments, best, least = carry
        first = number * (UPDATES // LOOKS)
        bounds = first, first + UPDATES // LOOKS
        fit, moments = jax.lax.fori_loop(*bounds, update, (fit, moments))
        now = error(fit, unknown)
        better = jnp.sum(now) < jnp.sum(least)
        best, least = select(better, (fit[0], now), (best, least))
        return (fit, moments, best, least), None

    worst = jnp.full(len(shape.low), jnp.inf)
    started = begin, OPTIMISER.init(begin), begin[0], worst
    (*_, best, least), _ = jax.lax.scan(look, started, jnp.arange(LOOKS))
    return best, least
