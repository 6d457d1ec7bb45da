"""The wet-chicken river (Depeweg et al. 2018, Appendix C.2): a canoeist above a waterfall.

The state is the position ``(x, y)`` in ``[0, width] × [0, length]``, the action the paddling
``(a_x, a_y)`` in ``[-1, 1]²``. Next to the left bank, at small x, the river is turbulent; next to
the right bank it drifts towards the waterfall at ``y = length``. Who falls starts at the origin.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float, Key, Scalar
from twofold.envs.system import Policy, System, check_fields


@dataclass(frozen=True)
class Params:
    """The river; the defaults are those of the paper."""

    width: float = 5.0
    length: float = 5.0
    largest_drift: float = 3.0
    largest_turbulence: float = 3.5
    setback: float = 1.0  # What a step takes back unless it is paddled away: ``a_y − 1``.

    def __post_init__(self):
        check_fields(self, "width length", "be positive", lambda value: value > 0)


PAPER = Params()


def drift(params: Params, x: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """``v = 3 x / w``: how far the river carries the canoe in one step."""
    return params.largest_drift * x / params.width


def turbulence_magnitude(params: Params, x: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """``s = 3.5 − v``: how far turbulence can throw the canoe, either way."""
    return params.largest_turbulence - drift(params, x)


def step(
    params: Params, state: Float[Array, "2"], action: Float[Array, "2"], turbulence: Scalar
) -> Float[Array, "2"]:
    """The next position for a given turbulence τ; actions are taken as they are, not clipped."""
    x, y = state
    paddle_x, paddle_y = action
    thrown = turbulence_magnitude(params, x) * turbulence
    new_y = y + (paddle_y - params.setback) + drift(params, x) + thrown
    new_x = jnp.clip(x + paddle_x, 0.0, params.width)
    landed = jnp.stack([new_x, jnp.maximum(new_y, 0.0)])
    return jnp.where(new_y > params.length, 0.0, landed)


def reward(params: Params, state: Float[Array, "*batch 2"]) -> Float[Array, "*batch"]:
    """``r = −(l − y)``: largest, 0, at the edge of the waterfall."""
    return -(params.length - state[..., 1])


def sample_turbulence(key: Key, shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
    """``τ ~ Unif([-1, 1])``."""
    return jax.random.uniform(key, shape, minval=-1.0, maxval=1.0)


def sample_actions(key: Key, num: int) -> Float[Array, "N 2"]:
    """Actions uniform in ``[-1, 1]²``."""
    return jax.random.uniform(key, (num, 2), minval=-1.0, maxval=1.0)


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


def wet_chicken(params: Params = PAPER, horizon: int = 100) -> System:
    """The river as a system: from the origin, with random paddling as its behaviour."""
    if horizon < 1:
        raise ValueError(f"horizon must be 1 step or more, got {horizon}")
    return System(
        name="wet_chicken",
        observations=("x", "y"),
        actions=("paddle_x", "paddle_y"),
        observation_low=np.zeros(2),
        observation_high=np.array([params.width, params.length]),
        action_low=-np.ones(2),
        action_high=np.ones(2),
        horizon=horizon,
        reset=lambda key: jnp.zeros(2),
        step=lambda key, state, action: step(
            params, state, jnp.clip(action, -1.0, 1.0), sample_turbulence(key)
        ),
        observe=lambda state: state,
        cost=lambda state: -reward(params, state),
        behaviour=Policy(
            init=lambda key: (), act=lambda key, memory, seen: (memory, sample_actions(key, 1)[0])
        ),
    )
