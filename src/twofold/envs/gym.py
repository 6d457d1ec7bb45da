"""The systems as Gymnasium environments, single or vectorised.

Importing this module registers ``twofold/WetChicken-v0`` and the others. The reward is minus the
cost; episodes never terminate, and are truncated at the system's horizon, or earlier with
Gymnasium's ``max_episode_steps``.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core import numerics
from twofold.envs import catalogue
from twofold.envs.system import System

try:
    import gymnasium
    from gymnasium.utils.seeding import np_random
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

    def box(low: np.ndarray, high: np.ndarray) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(low.astype(np.float32), high.astype(np.float32))

    seen = box(system.observation_low, system.observation_high)
    return seen, box(system.action_low, system.action_high)


def _begin(system: System, stream: jax.Array) -> Any:
    """Start an episode: the advanced random stream, a new state and its observation."""
    stream, key = jax.random.split(stream)
    state = system.reset(key)
    return stream, state, system.observe(state)


def _advance(system: System, stream: jax.Array, state: Any, action: jax.Array) -> Any:
    """Take a step: the advanced random stream, the new state, its observation and the cost."""
    stream, key = jax.random.split(stream)
    state = system.step(key, state, action)
    return (stream, state, system.observe(state)), system.cost(state)


def _draw_seed(random: np.random.Generator) -> int:
    return int(random.integers(2**31))


class SystemVectorEnv(VectorEnv):
    """Many copies of a system in one program; the step after the last of an episode resets. Each
    copy has its own random stream, so its behaviour depends only on its own seed."""

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, system: System, num_envs: int = 1):
        self.system, self.num_envs = system, num_envs
        self.single_observation_space, self.single_action_space = spaces(system)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._begin = jax.jit(jax.vmap(partial(_begin, system)))
        self._advance = jax.jit(jax.vmap(partial(_advance, system)))
        # Restarts finished episodes from their streams.
        self._renew = jax.jit(lambda s, copies, over: numerics.select(over, self._begin(s), copies))
        self._copies: Any = None
        self._elapsed = np.zeros(num_envs, int)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin new episodes, in all copies or where ``options["reset_mask"]`` is true. ``seed`` is
        one integer per copy, or the first of consecutive ones."""
        if isinstance(seed, int):
            super().reset(seed=seed)
            seed = range(seed, seed + self.num_envs)
        mask = self._check_mask(options or {})
        streams = self._seed_streams([None] * self.num_envs if seed is None else seed, mask)
        anew = mask.all()
        self._copies = self._begin(streams) if anew else self._renew(streams, self._copies, mask)
        self._elapsed[mask] = 0
        return np.array(self._copies[2], np.float32), {}

    def step(
        self, actions: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One step of each copy; a copy whose episode is over is reset."""
        if self._copies is None:
            raise gymnasium.error.ResetNeeded("call reset before the first step")
        over = self._elapsed >= self.system.horizon
        given = np.asarray(actions, np.float32)
        if given.shape != self.action_space.shape or not np.isfinite(given).all():
            expected = f"finite numbers of shape {self.action_space.shape}"
            raise ValueError(f"actions must be {expected}, got {actions!r}")
        actions = np.clip(given, self.system.action_low, self.system.action_high, dtype=np.float32)
        streams, states, _ = self._copies
        stepped, costs = self._advance(streams, states, actions)
        # A reset can cost as much as dozens of steps, and is rarely needed.
        self._copies = self._renew(streams, stepped, over) if over.any() else stepped
        self._elapsed = np.where(over, 0, self._elapsed + 1)
        rewards = np.where(over, 0.0, -np.asarray(costs, np.float64))
        never = np.zeros(self.num_envs, bool)
        cut = self._elapsed >= self.system.horizon
        return np.array(self._copies[2], np.float32), rewards, never, cut, {}

    def _check_mask(self, options: dict[str, Any]) -> np.ndarray:
        mask = np.asarray(options.get("reset_mask", np.ones(self.num_envs, bool)))
        if mask.shape != (self.num_envs,) or mask.dtype != bool or not mask.any():
            expected = f"{self.num_envs} booleans, at least one of them true"
            raise ValueError(f"reset_mask must be {expected}, got {options['reset_mask']!r}")
        if self._copies is None and not mask.all():
            raise gymnasium.error.ResetNeeded("call reset without a mask first")
        return mask

    def _seed_streams(self, seeds: Sequence[int | None], mask: np.ndarray) -> jax.Array:
        """The streams of all copies, restarted where a seed is given."""
        if len(seeds) != self.num_envs:
            expected = f"one integer, or one for each of {self.num_envs} copies"
            raise ValueError(f"seed must be {expected}, got {seeds!r}")
        first = jax.random.key(_draw_seed(self.np_random)) if self._copies is None else None
        streams = self._copies[0] if first is None else jax.random.split(first, self.num_envs)
        given = mask & np.array([seed is not None for seed in seeds])
        fresh = [0 if seed is None else _draw_seed(np_random(int(seed))[0]) for seed in seeds]
        return jnp.where(given, jax.vmap(jax.random.key)(jnp.array(fresh)), streams)


class SystemEnv(gymnasium.Env):
    """A single system; actions are clipped to their bounds."""

    metadata = {"render_modes": []}  # noqa: RUF012  (Gymnasium's own name for it)

    def __init__(self, system: System):
        self.system, self._copy = system, SystemVectorEnv(system)
        self.observation_space, self.action_space = spaces(system)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return self._copy.reset(seed=seed)[0][0], {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        seen, rewards, _, cut, _ = self._copy.step(np.asarray(action, np.float32)[None])
        return seen[0], float(rewards[0]), False, bool(cut[0]), {}


def make_env(system: str, **params: Any) -> SystemEnv:
    """The environment of a system by name, with optional parameters."""
    return SystemEnv(catalogue.make(system, **params))


def make_vector_env(
    system: str, num_envs: int = 1, max_episode_steps: int | None = None, **params: Any
) -> SystemVectorEnv:
    """A vectorised environment; ``max_episode_steps`` (-1: none) may truncate episodes earlier."""
    made = catalogue.make(system, **params)
    if max_episode_steps is not None and max_episode_steps != -1:
        if max_episode_steps < 1:
            raise ValueError(f"max_episode_steps must be -1, or 1 or more, got {max_episode_steps}")
        made = made._replace(horizon=min(made.horizon, max_episode_steps))
    return SystemVectorEnv(made, num_envs)


def register() -> None:
    """Register the systems with Gymnasium; they truncate their episodes themselves."""
    for name, identifier in IDS.items():
        gymnasium.register(
            identifier,
            entry_point="twofold.envs.gym:make_env",
            vector_entry_point="twofold.envs.gym:make_vector_env",
            kwargs={"system": name},
        )


register()
