"""Imitation of the logged controller, so that replays react to noise as it did.

Logged actions u_t were reactions to the noise in the logged states s'_t. A roll-out has other noise
and other states s_t, where the same actions would no longer stabilise the plant: even replays on
the plant itself would cost more than the log. A replay therefore applies

    a_t = u_t + π(s_t) − π(s'_t),

within the bounds, with a network π fitted to the logged actions. What is left of the logged
actions, u_t − π(s'_t), is exploration. If that is independent of the plant's noise and π is right,
replays of the right model have the right mean. With a constant π, a_t = u_t.

π is trained with Adam and early stopping on held-out blocks of the log. An action that it does not
predict there better than a linear regression on the previous action is replayed as logged: slow
exploration persists, and is no reaction to the state.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from twofold.core.arrays import Array, Float, Int, Key
from twofold.core.numerics import Standardizer
from twofold.estimators.linear import LinearGaussian
from twofold.model import network
from twofold.plant import policy
from twofold.plant.policy import DTYPE, PolicyNetwork

HIDDEN = (20, 20)
BLOCKS, HELD_OUT = 20, 4  # every fourth of twenty consecutive blocks of rows is held out
FEWEST_ROWS = 100
BATCH, UPDATES, LOOKS = 256, 2_000, 20
LEARNING_RATE = 1e-2
LEAST_EXPLAINED = 0.1  # share of the variance of an action, given the previous one
STREAM = 0
OPTIMISER = optax.scale_by_adam()


def imitate(
    shape: PolicyNetwork,
    features: Float[np.ndarray, "N F"],
    actions: Float[np.ndarray, "N A"],
    previous: Float[np.ndarray, "N A"],
) -> Float[np.ndarray, "P"]:
    """Weights of a policy that acts as the logged controller, from raw features; actions that it
    cannot predict have the middle of their bounds. ``previous`` are the actions one step before."""
    nothing = np.zeros(network.num_weights(shape.sizes), DTYPE)
    if len(features) < FEWEST_ROWS:
        return nothing
    block = np.arange(len(features)) * BLOCKS // len(features)
    held_out = block % HELD_OUT == HELD_OUT - 1
    seen = Standardizer.fit(features.astype(float)).transform(features)
    low, high = np.array(shape.low), np.array(shape.high)
    aims = (2.0 * actions - low - high) / (high - low)
    known, unknown = (
        [jnp.asarray(part[rows], DTYPE) for part in (seen, aims)] for rows in (~held_out, held_out)
    )
    weights, error = _train(shape, jax.random.key(STREAM), *known, *unknown)
    persistent = LinearGaussian.fit(previous[~held_out], aims[~held_out])
    rest = np.square(aims[held_out] - persistent.predict(previous[held_out])).mean(axis=0)
    lost = np.asarray(error) >= (1.0 - LEAST_EXPLAINED) * rest
    return nothing if lost.all() else np.asarray(silence(shape, weights, lost))


def act_alike(
    shape: PolicyNetwork, weights: Float[Array, "P"], features: Float[Array, "N F"]
) -> Float[Array, "N A"]:
    """Actions at standardised features, as fractions of the range around the middle: from -1 to
    1."""
    return jnp.tanh(network.apply_rows(policy.layers_of(shape, weights[None]), features[None])[0])


def silence(shape: PolicyNetwork, weights: Array, which: np.ndarray) -> Float[Array, "P"]:
    """Weights with which some actions stay in the middle of their bounds."""
    count, units = len(shape.low), shape.sizes[-2]
    silent = jnp.concatenate([jnp.repeat(jnp.asarray(which), units), jnp.asarray(which)])
    last = count * (units + 1)
    return weights.at[-last:].set(jnp.where(silent, 0.0, weights[-last:]))


@partial(jax.jit, static_argnums=0)
def _train(
    shape: PolicyNetwork,
    key: Key,
    features: Float[Array, "N F"],
    aims: Float[Array, "N A"],
    unseen: Float[Array, "V F"],
    unseen_aims: Float[Array, "V A"],
) -> tuple[Float[Array, "P"], Float[Array, "A"]]:
    """The best weights on held-out rows, and the squared error of each action there."""
    start_key, batch_key = jax.random.split(key)
    weights = policy.init(start_key, shape)

    def error(weights: Array, rows: Array, right: Array) -> Float[Array, "A"]:
        return jnp.mean(jnp.square(act_alike(shape, weights, rows) - right), axis=0)

    def total(weights: Array, rows: Array) -> Float[Array, ""]:
        return jnp.sum(error(weights, features[rows], aims[rows]))

    def update(number: Int[Array, ""], carry: tuple[Array, Any]) -> tuple[Array, Any]:
        weights, moments = carry
        own = jax.random.fold_in(batch_key, number)
        rows = jax.random.randint(own, (BATCH,), 0, features.shape[0])
        direction, moments = OPTIMISER.update(jax.grad(total)(weights, rows), moments)
        rate = LEARNING_RATE * 0.5 * (1.0 + jnp.cos(jnp.pi * number / UPDATES))
        return weights - rate * direction, moments

    def look(carry: Any, number: Int[Array, ""]) -> tuple[Any, None]:
        weights, moments, best, least = carry
        first = number * (UPDATES // LOOKS)
        bounds = first, first + UPDATES // LOOKS
        weights, moments = jax.lax.fori_loop(*bounds, update, (weights, moments))
        now = error(weights, unseen, unseen_aims)
        better = jnp.sum(now) < jnp.sum(least)
        best, least = jnp.where(better, weights, best), jnp.where(better, now, least)
        return (weights, moments, best, least), None

    worst = jnp.full(len(shape.low), jnp.inf)
    begin = weights, OPTIMISER.init(weights), weights, worst
    (*_, best, least), _ = jax.lax.scan(look, begin, jnp.arange(LOOKS))
    return best, least
