"""The systems of the paper's policy search (§5): batch, known dynamics, starts of policies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from paper.truth import Starts, warm_up
from twofold.core.arrays import Array, Key, Keys
from twofold.envs.industrial import dynamics
from twofold.envs.industrial.task import HISTORY, Watched, industrial_benchmark
from twofold.envs.system import Policy, System, episodes, uniform
from twofold.envs.wet_chicken import wet_chicken
from twofold.envs.wind import task as wind
from twofold.plant.columns import Transform
from twofold.plant.embedding import Embedding, embed
from twofold.plant.log import Log, Window, from_episodes

STEERINGS = ("velocity", "gain", "shift")
# Far beyond the range of such a turbine.
LIMITS = {
    "power (MW)": Transform("logit", -0.5, 6.0),
    "rotor speed (rpm)": Transform("logit", 4.0, 17.0),
    "generator torque (kN m)": Transform("logit", 0.0, 60.0),
    "pitch (deg)": Transform("logit", -6.0, 30.0),
    "tower moment (MN m)": Transform("logit", -50.0, 150.0),
    "tower moment range (MN m)": Transform("log1p_logit", -0.2, 4.6),
}


@dataclass(frozen=True)
class ControlProblem:
    """A system with its batch and the embedding for a model.

    ``embed(log)`` makes the embedding; ``starts(key, num)`` are states of the true system to
    evaluate policies from, distributed like those of the batch.
    """

    name: str
    system: System
    behaviour: Policy
    transitions: int
    length: int
    cost: Callable[[Mapping[str, Any]], Any]
    embed: Callable[[Log], Embedding]
    starts: Callable[[Key, int], Starts]
    horizon: int

    def batch(self, seed: int, transitions: int | None = None) -> Log:
        """A log of the behaviour policy."""
        num = -(-(transitions or self.transitions) // self.length)
        key = jax.random.key(seed)
        simulated = episodes(key, self.system, self.behaviour, self.length, num)
        return from_episodes(self.system, simulated)


def known_steering(now: Mapping[str, Any], action: Mapping[str, Any]) -> dict[str, Array]:
    """Known dynamics: the steerings of the industrial benchmark follow from the actions alone."""
    steering = jnp.stack([now[name] for name in STEERINGS])
    after = dynamics.steer(steering, jnp.stack([action[f"{name}_change"] for name in STEERINGS]))
    return dict(zip(STEERINGS, after, strict=True))


def embed_industrial(log: Log) -> Embedding:
    """The paper's 61 inputs: the set-point and 15 values of each steering and of the cost."""
    lags = dict.fromkeys((*STEERINGS, "cost"), HISTORY)
    return embed(
        log,
        history=HISTORY,
        window={"setpoint": 1, **lags},
        action_history=0,
        targets=["cost"],
        held=["setpoint"],
        transforms={"cost": "log1p_logit"},
        known=known_steering,
    )


def industrial_starts(key: Key, num: int) -> Starts:
    """Starts after 15 to 64 random actions, the protocol for comparing policies."""
    return _industrial_starts(jax.random.split(key, num))


@jax.jit
def _industrial_starts(keys: Keys) -> Starts:
    states: Watched = jax.vmap(industrial_benchmark().reset)(keys)
    return Starts(states, jax.vmap(watched_window)(states))


def watched_window(state: Watched) -> Window:
    """The plant's memory as a window; past actions are not observed."""
    setpoint = jnp.full((HISTORY, 1), state.plant.point.value)
    return Window(jnp.concatenate([setpoint, state.window], axis=1), jnp.zeros((HISTORY - 1, 3)))


def _industrial(behaviour: Policy, transitions: int, length: int) -> ControlProblem:
    system = industrial_benchmark(history=1)
    return ControlProblem(
        name="industrial",
        system=system,
        behaviour=behaviour,
        transitions=transitions,
        length=length,
        cost=lambda row: row["cost"],
        embed=embed_industrial,
        starts=lambda key, num: warm_up(key, system, behaviour, 2 * HISTORY, HISTORY, num),
        horizon=100,
    )


def industrial() -> ControlProblem:
    """The paper's batch: 30,000 transitions of its behaviour policy."""
    return _industrial(industrial_benchmark().behaviour, 30_000, 1000)


def industrial_quick() -> ControlProblem:
    """The same batch, for smaller models and searches on two cores."""
    return replace(industrial(), name="industrial_quick")


def industrial_random() -> ControlProblem:
    """The authors' other batch: 68,600 windows of uniform random actions, of 70 episodes."""
    length = 980 + HISTORY - 1
    problem = _industrial(uniform(industrial_benchmark()), 70 * length, length)
    return replace(problem, name="industrial_random", starts=industrial_starts)


def river() -> ControlProblem:
    """Wet-chicken: positions as logits between the banks, so that predictions stay between them."""
    system = wet_chicken()
    bounded = {"x": "logit", "y": "logit"}
    return ControlProblem(
        name="wet_chicken",
        system=system,
        behaviour=system.behaviour,
        transitions=2_500,
        length=50,
        cost=lambda row: 5.0 - row["y"],
        embed=partial(embed, deltas=False, transforms=bounded),
        starts=lambda key, num: warm_up(key, system, system.behaviour, 10, 1, num),
        horizon=25,
    )


def turbine() -> ControlProblem:
    """The wind turbine: 5,000 transitions around the neutral offsets.

    The model gets an engineer's prior knowledge: the wind does not depend on the offsets and keeps
    its last value, and everything else stays within ``LIMITS``. Without the former, a model may
    predict that offsets change the wind; without the latter, roll-outs of some weight draws
    diverge.
    """
    params = wind.Params(history=1)
    system = wind.wind_turbine(params)

    def cost(row: Mapping[str, Any]) -> Any:
        bending = row["tower moment range (MN m)"] / wind.LOAD_SCALE
        return -row["power (MW)"] / wind.RATED_POWER + params.load_weight * bending

    def known(now: Mapping[str, Any], action: Mapping[str, Any]) -> dict[str, Array]:
        return {
            "pitch offset (deg)": params.pitch_bound * action["pitch offset"],
            "torque offset (%)": params.torque_bound * action["torque offset"],
        }

    return ControlProblem(
        name="wind",
        system=system,
        behaviour=system.behaviour,
        transitions=5_000,
        length=100,
        cost=cost,
        embed=partial(
            embed,
            history=5,
            action_history=0,
            targets=list(LIMITS),
            held=["wind (m/s)"],
            known=known,
            deltas=False,
            transforms=LIMITS,
        ),
        starts=lambda key, num: warm_up(key, system, system.behaviour, 10, 5, num),
        horizon=100,
    )
