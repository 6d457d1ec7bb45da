"""The systems as Gymnasium environments, one at a time or many side by side.

Importing this module registers ``twofold/WetChicken-v0`` and the others. The reward is minus the
cost; nothing ever terminates, and an episode is cut off at the system's horizon.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from twofold.envs import catalogue
from twofold.envs.system import System

try:
    import gymnasium
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise ImportError(
        "environments need Gymnasium, which is not installed; pip install 'twofold[rl]'"
    ) from error

IDS = {
    "wet_chicken": "twofold/WetChicken-v0",
    "industrial_benchmark": "twofold/IndustrialBenchmark-v0",
    "wind_turbine": "twofold/WindTurbine-v0",
}


def spaces(system: System) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box]:
    """Of observations and actions."""
    observation = gymnasium.spaces.Box(
        system.observation_low.astype(np.float32), system.observation_high.astype(np.float32)
    )
    action = gymnasium.spaces.Box(
        system.action_low.astype(np.float32), system.action_high.astype(np.float32)
    )
    return observation, action


def _checked(action: Any, system: System, shape: tuple[int, ...]) -> np.ndarray:
    values = np.asarray(action, np.float32)
    if values.shape != shape or not np.isfinite(values).all():
        raise ValueError(f"an action must be {shape} finite numbers, got {action!r}")
    return np.clip(values, system.action_low, system.action_high).astype(np.float32)


class SystemEnv(gymnasium.Env):
    """One system; actions beyond the bounds are taken as the bounds."""

    metadata = {"render_modes": []}  # noqa: RUF012  (Gymnasium's own name for it)

    def __init__(self, system: System):
        self.system = system
        self.observation_space, self.action_space = spaces(system)
        self._reset = jax.jit(system.reset)
        self._step = jax.jit(system.step)
        self._see = jax.jit(lambda state: (system.observe(state), system.cost(state)))
        self._state: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """A new episode."""
        super().reset(seed=seed)
        self._state = self._reset(self._key())
        return self._seen()[0], {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One step."""
        if self._state is None:
            raise gymnasium.error.ResetNeeded("call reset before the first step")
        action = _checked(action, self.system, self.system.action_low.shape)
        self._state = self._step(self._key(), self._state, action)
        observation, cost = self._seen()
        return observation, -cost, False, False, {}

    def _key(self) -> jax.Array:
        return jax.random.key(int(self.np_random.integers(2**31)))

    def _seen(self) -> tuple[np.ndarray, float]:
        observation, cost = jax.device_get(self._see(self._state))
        return observation.astype(np.float32), float(cost)


class SystemVectorEnv(VectorEnv):
    """Many copies of a system in one compiled program; the step after an episode's last resets."""

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, system: System, num_envs: int = 1):
        self.system, self.num_envs = system, num_envs
        self.single_observation_space, self.single_action_space = spaces(system)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._begin = jax.jit(jax.vmap(system.reset))
        self._advance = jax.jit(jax.vmap(system.step))
        self._see = jax.jit(jax.vmap(lambda state: (system.observe(state), system.cost(state))))
        self._renew = jax.jit(self._renewed)
        self._states: Any = None
        self._elapsed = np.zeros(num_envs, int)

    def _renewed(self, keys: jax.Array, states: Any, over: jax.Array) -> Any:
        def choose(fresh: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(over.reshape(-1, *[1] * (old.ndim - 1)), fresh, old)

        return jax.tree.map(choose, jax.vmap(self.system.reset)(keys), states)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """New episodes everywhere."""
        super().reset(seed=seed)
        self._states = self._begin(self._keys())
        self._elapsed[:] = 0
        return np.asarray(self._see(self._states)[0], np.float32), {}

    def step(
        self, actions: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One step of each copy; of one whose episode is over, the reset of the next."""
        if self._states is None:
            raise gymnasium.error.ResetNeeded("call reset before the first step")
        over = self._elapsed >= self.system.horizon
        actions = _checked(actions, self.system, (self.num_envs, *self.system.action_low.shape))
        stepped = self._advance(self._keys(), self._states, actions)
        # A reset can cost as much as dozens of steps, and is called for in few of them.
        self._states = self._renew(self._keys(), stepped, over) if over.any() else stepped
        observations, costs = self._see(self._states)
        self._elapsed = np.where(over, 0, self._elapsed + 1)
        rewards = np.where(over, 0.0, -np.asarray(costs, np.float64))
        never = np.zeros(self.num_envs, bool)
        cut = self._elapsed >= self.system.horizon
        return np.asarray(observations, np.float32), rewards, never, cut, {}

    def _keys(self) -> jax.Array:
        key = jax.random.key(int(self.np_random.integers(2**31)))
        return jax.random.split(key, self.num_envs)


def make_env(system: str, **params: Any) -> SystemEnv:
    """The environment of a system by its name, with parameters of its own where given."""
    return SystemEnv(catalogue.make(system, **params))


def make_vector_env(
    system: str, num_envs: int = 1, max_episode_steps: int | None = None, **params: Any
) -> SystemVectorEnv:
    """Many of them, cut off at ``max_episode_steps`` or the system's horizon."""
    made = catalogue.make(system, **params)
    return SystemVectorEnv(made._replace(horizon=max_episode_steps or made.horizon), num_envs)


def register() -> None:
    """Make Gymnasium know the systems."""
    for name, identifier in IDS.items():
        gymnasium.register(
            identifier,
            entry_point="twofold.envs.gym:make_env",
            vector_entry_point="twofold.envs.gym:make_vector_env",
            max_episode_steps=catalogue.make(name).horizon,
            kwargs={"system": name},
        )


register()
