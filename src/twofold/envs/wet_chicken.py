"""The wet-chicken river (Depeweg et al. 2018, Appendix C.2): a canoeist above a waterfall.

The state is the position ``(x, y)`` in ``[0, width] × [0, length]``, the action the paddling
``(a_x, a_y)`` in ``[-1, 1]²``. At the left bank (small x) the river is turbulent; at the right bank
it drifts towards the waterfall at ``y = length``. A fall leads back to the origin.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float, Key, Scalar
from twofold.envs.system import System, check_fields, check_horizon, memoryless


@dataclass(frozen=True)
class Params:
    """The river; the defaults are those of the paper."""

    width: float = 5.0
    length: float = 5.0
    largest_drift: float = 3.0
    largest_turbulence: float = 3.5
    setback: float = 1.0  # Downward displacement per step without paddling: ``a_y − 1``.

    def __post_init__(self):
        check_fields(self, "width length", "be positive", lambda value: value > 0)


PAPER = Params()


def drift(params: Params, x: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """``v = 3 x / w``: displacement by the river in one step."""
    return params.largest_drift * x / params.width


def turbulence_magnitude(params: Params, x: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """``s = 3.5 − v``: largest displacement by turbulence, in either direction."""
    return params.largest_turbulence - drift(params, x)


def step(
    params: Params, state: Float[Array, "2"], action: Float[Array, "2"], turbulence: Scalar
) -> Float[Array, "2"]:
    """The next position for a given turbulence τ; actions are not clipped."""
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


def wet_chicken(params: Params = PAPER, horizon: int = 100) -> System:
    """The river as a system that starts at the origin, with random paddling as behaviour policy."""
    check_horizon(horizon)

    def advance(key: Key, state: Float[Array, "2"], action: Float[Array, "2"]) -> Array:
        return step(params, state, jnp.clip(action, -1.0, 1.0), sample_turbulence(key))

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
        step=advance,
        observe=lambda state: state,
        cost=lambda state: -reward(params, state),
        behaviour=memoryless(lambda key, seen: sample_actions(key, 1)[0]),
    )
