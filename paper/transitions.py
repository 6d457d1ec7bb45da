"""Data of the wet-chicken river: transitions along a random walk, and from uniform states."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float, Key
from twofold.envs.wet_chicken import PAPER, Params, sample_actions, sample_turbulence, step


def random_transitions(key: Key, num: int, params: Params = PAPER) -> tuple[np.ndarray, np.ndarray]:
    """One trajectory of random actions from the origin.

    Inputs ``[num, 4]`` with columns x, y, a_x, a_y; targets ``[num, 2]``, the next x, y.
    """
    inputs, targets = _explore(key, num, params)
    return np.array(inputs), np.array(targets)


def uniform_transitions(
    key: Key, num: int, params: Params = PAPER
) -> tuple[np.ndarray, np.ndarray]:
    """Single steps from states and actions uniform in their ranges; arrays as above."""
    inputs, targets = _scatter(key, num, params)
    return np.array(inputs), np.array(targets)


@partial(jax.jit, static_argnums=(1, 2))
def _explore(key: Key, num: int, params: Params) -> tuple[Float[Array, "N 4"], Float[Array, "N 2"]]:
    action_key, turbulence_key = jax.random.split(key)
    actions = sample_actions(action_key, num)
    turbulences = sample_turbulence(turbulence_key, (num,))

    def advance(state, choices):
        new_state = step(params, state, *choices)
        return new_state, (state, new_state)

    origin = jnp.zeros(2, actions.dtype)
    _, (states, targets) = jax.lax.scan(advance, origin, (actions, turbulences))
    return jnp.concatenate([states, actions], axis=1), targets


@partial(jax.jit, static_argnums=(1, 2))
def _scatter(key: Key, num: int, params: Params) -> tuple[Float[Array, "N 4"], Float[Array, "N 2"]]:
    state_key, action_key, turbulence_key = jax.random.split(key, 3)
    states = jnp.array([params.width, params.length]) * jax.random.uniform(state_key, (num, 2))
    actions = sample_actions(action_key, num)
    turbulences = sample_turbulence(turbulence_key, (num,))
    targets = jax.vmap(partial(step, params))(states, actions, turbulences)
    return jnp.concatenate([states, actions], axis=1), targets
