"""Three control tasks that were made elsewhere, as pure functions: logs of simple controllers.

- *pendulum*: Gymnasium's ``Pendulum-v1``, swung up by an energy controller that is too weak;
- *reactor*: pc-gym's ``cstr``, a cooled reaction whose concentration follows a set-point while the
  feed's temperature wanders (an exogenous column), under a proportional controller;
- *four_tank*: pc-gym's ``four_tank``, whose lower levels follow set-points through the upper tanks,
  under two proportional controllers.

All controllers explore by noise that is correlated in time. Tests compare the equations with what
Gymnasium and pc-gym compute. A policy is tried for ``horizon`` steps after ``WARM_UP`` steps of the
logged controller.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from paper.control_problems import ControlProblem
from paper.truth import Starts, warm_up
from twofold.core.arrays import Array, Float, Key
from twofold.envs.system import Policy, System
from twofold.plant.embedding import embed
from twofold.plant.log import Log

WARM_UP, CORRELATION = 5, 0.8
SUBSTEPS = 20


class State(NamedTuple):
    """What a plant is, what is measured of it, and what was done last."""

    values: Float[Array, "V"]
    seen: Float[Array, "D"]
    action: Float[Array, "A"]


class Plant(NamedTuple):
    """A plant's parts; ``control(observation)`` is what its logged controller does but for the
    exploration, which has deviations ``explored``."""

    name: str
    observations: tuple[str, ...]
    actions: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    begin: Callable[[Key], Array]
    follow: Callable[[Key, Array, Array], Array]
    measure: Callable[[Key, Array], Array]
    control: Callable[[Array], Array]
    explored: tuple[float, ...]
    cost: Callable[[Mapping[str, Any]], Any]


def runge_kutta(slope: Callable[[Array], Array], values: Array, duration: float) -> Array:
    """Values after a time, by ``SUBSTEPS`` classical steps of fourth order."""
    h = duration / SUBSTEPS

    def one(_: int, x: Array) -> Array:
        first = slope(x)
        second = slope(x + 0.5 * h * first)
        third = slope(x + 0.5 * h * second)
        return x + h / 6.0 * (first + 2.0 * second + 2.0 * third + slope(x + h * third))

    return jax.lax.fori_loop(0, SUBSTEPS, one, values)


def swing(values: Array, action: Array) -> Array:
    """The pendulum's angle (0 is upright) and velocity 0.05 s later, as Gymnasium has them."""
    angle, velocity = values
    velocity = velocity + (15.0 * jnp.sin(angle) + 3.0 * action[0]) * 0.05
    velocity = jnp.clip(velocity, -8.0, 8.0)
    return jnp.stack([angle + 0.05 * velocity, velocity])


def pendulum_cost(row: Mapping[str, Any]) -> Any:
    """Gymnasium's, of the state that a step led to."""
    angle = jnp.arctan2(row["sine"], row["cosine"])
    return angle**2 + 0.1 * row["velocity"] ** 2 + 0.001 * row["torque"] ** 2


def pump_energy(seen: Array) -> Array:
    """Drive the energy to that of standing upright, and balance there, both too weakly."""
    cosine, sine, velocity = seen
    lacking = 15.0 * (1.0 - cosine) - 0.5 * velocity**2
    pumped = jnp.clip(0.1 * lacking * velocity, -1.2, 1.2)
    balanced = -8.0 * sine - 1.5 * velocity
    return jnp.where(cosine > 0.9, balanced, pumped)[None]


PENDULUM = Plant(
    name="pendulum",
    observations=("cosine", "sine", "velocity"),
    actions=("torque",),
    low=(-2.0,),
    high=(2.0,),
    begin=lambda key: jax.random.uniform(key, (2,), minval=-1.0) * jnp.array([jnp.pi, 1.0]),
    follow=lambda key, values, action: swing(values, action),
    measure=lambda key, values: jnp.stack([jnp.cos(values[0]), jnp.sin(values[0]), values[1]]),
    control=pump_energy,
    explored=(0.8,),
    cost=pendulum_cost,
)


def react(values: Array, coolant: Array, feed: Array) -> Array:
    """Concentration and temperature of pc-gym's reactor 26/60 minutes later."""

    def slope(now: Array) -> Array:
        concentration, temperature = now
        rate = 7.2e10 * jnp.exp(-8750.0 / temperature) * concentration
        heat = (5e4 * rate + 5e4 / 100.0 * (coolant - temperature)) / (1000.0 * 0.239)
        return jnp.stack([1.0 - concentration - rate, feed - temperature + heat])

    return runge_kutta(slope, values, 26.0 / 60.0)


def begin_reactor(key: Key) -> Array:
    """Somewhere usual, with a set-point for the episode."""
    low, high = jnp.array([0.85, 320.0, 348.0, 0.85]), jnp.array([0.93, 330.0, 352.0, 0.92])
    return jax.random.uniform(key, (4,), minval=low, maxval=high)


def follow_reactor(key: Key, values: Array, action: Array) -> Array:
    """The feed's temperature wanders around 350 K, with a deviation of 2 K."""
    feed = 350.0 + 0.95 * (values[2] - 350.0) + 0.62 * jax.random.normal(key)
    return jnp.concatenate([react(values[:2], action[0], feed), jnp.stack([feed, values[3]])])


REACTOR = Plant(
    name="reactor",
    observations=("concentration", "temperature", "feed", "setpoint"),
    actions=("coolant",),
    low=(295.0,),
    high=(302.0,),
    begin=begin_reactor,
    follow=follow_reactor,
    # A measurement is off by a thousandth, which is what pc-gym's examples have.
    measure=lambda key, values: (
        values * (1.0 + 1e-3 * jax.random.normal(key, (4,)) * jnp.array([1.0, 1.0, 0.0, 0.0]))
    ),
    control=lambda seen: (298.5 + 40.0 * (seen[0] - seen[3]))[None],
    explored=(0.8,),
    cost=lambda row: 1000.0 * (row["concentration"] - row["setpoint"]) ** 2,
)


def drain(levels: Array, volts: Array) -> Array:
    """Levels of pc-gym's four tanks 1000/60 s later."""
    outlets = jnp.array([0.0035, 0.0030, 0.0020, 0.0025])
    into = jnp.array([0.2, 0.2, 0.8, 0.8]) * jnp.array([0.00085, 0.00095, 0.00095, 0.00085])
    pumped = into * volts[jnp.array([0, 1, 1, 0])]

    def slope(now: Array) -> Array:
        out = outlets * jnp.sqrt(2.0 * 9.81 * jnp.maximum(now, 1e-6))
        return pumped - out + jnp.concatenate([out[2:], jnp.zeros(2)])

    return runge_kutta(slope, levels, 1000.0 / 60.0)


def begin_tanks(key: Key) -> Array:
    """Levels somewhere, and two set-points for the episode."""
    low, high = jnp.array([0.02] * 4 + [0.05] * 2), jnp.array([0.3] * 4 + [0.25] * 2)
    return jax.random.uniform(key, (6,), minval=low, maxval=high)


def tank_cost(row: Mapping[str, Any]) -> Any:
    """Squares of the lower levels' errors, in units of 5 cm, and of the pumps' effort."""
    errors = (row["level 1"] - row["setpoint 1"]) ** 2 + (row["level 2"] - row["setpoint 2"]) ** 2
    return errors / 0.05**2 + 0.002 * (row["pump 1"] ** 2 + row["pump 2"] ** 2)


FOUR_TANK = Plant(
    name="four_tank",
    observations=("level 1", "level 2", "level 3", "level 4", "setpoint 1", "setpoint 2"),
    actions=("pump 1", "pump 2"),
    low=(0.1, 0.1),
    high=(10.0, 10.0),
    begin=begin_tanks,
    follow=lambda key, values, action: jnp.concatenate([drain(values[:4], action), values[4:]]),
    measure=lambda key, values: (
        values + 0.002 * jax.random.normal(key, (6,)) * jnp.array([1.0] * 4 + [0.0] * 2)
    ),
    # The second pump fills the first level, through the third tank.
    control=lambda seen: 5.0 + 20.0 * (seen[4:] - seen[:2])[::-1],
    explored=(1.0, 1.0),
    cost=tank_cost,
)


def explore(plant: Plant) -> Policy:
    """The logged controller, with noise that is correlated from step to step."""
    fresh = jnp.asarray(plant.explored) * (1.0 - CORRELATION**2) ** 0.5
    low, high = jnp.asarray(plant.low), jnp.asarray(plant.high)

    def act(key: Key, noise: Array, seen: Array) -> tuple[Array, Array]:
        noise = CORRELATION * noise + fresh * jax.random.normal(key, fresh.shape)
        return noise, jnp.clip(plant.control(seen) + noise, low, high)

    first = jnp.asarray(plant.explored)
    return Policy(lambda key: first * jax.random.normal(key, first.shape), act)


def system_of(plant: Plant, length: int) -> System:
    """A plant as a system, whose costs are those of what is measured."""
    names, actions = plant.observations, len(plant.actions)

    def reset(key: Key) -> State:
        first, second = jax.random.split(key)
        values = plant.begin(first)
        return State(values, plant.measure(second, values), jnp.zeros(actions))

    def step(key: Key, state: State, action: Array) -> State:
        first, second = jax.random.split(key)
        action = jnp.clip(action, jnp.asarray(plant.low), jnp.asarray(plant.high))
        values = plant.follow(first, state.values, action)
        return State(values, plant.measure(second, values), action)

    def pay(state: State) -> Any:
        values = *state.seen, *state.action
        return plant.cost(dict(zip((*names, *plant.actions), values, strict=True)))

    anywhere = np.full(len(names), np.inf)
    return System(
        name=plant.name,
        observations=names,
        actions=plant.actions,
        observation_low=-anywhere,
        observation_high=anywhere,
        action_low=np.array(plant.low),
        action_high=np.array(plant.high),
        horizon=length,
        reset=reset,
        step=step,
        observe=lambda state: state.seen,
        cost=pay,
        behaviour=explore(plant),
    )


def _problem(plant: Plant, episodes: int, length: int, **seen: Any) -> ControlProblem:
    system, history = system_of(plant, length), seen.get("history", 1)

    def starts(key: Key, num: int) -> Starts:
        # One action more than a history asks for: policies that move slowly know the last one.
        return warm_up(key, system, system.behaviour, WARM_UP, max(2, history), num)

    return ControlProblem(
        name=plant.name,
        system=system,
        behaviour=system.behaviour,
        transitions=episodes * length,
        length=length,
        cost=plant.cost,
        embed=partial(embed, **seen),
        starts=starts,
        horizon=length - WARM_UP,
    )


OUTSIDE = {
    "pendulum": _problem(PENDULUM, 50, 200),
    "reactor": _problem(REACTOR, 100, 100, history=3, held=["setpoint"], exogenous=["feed"]),
    "four_tank": _problem(FOUR_TANK, 100, 100, history=3, held=["setpoint 1", "setpoint 2"]),
}


def make_log(task: str, seed: int) -> Log:
    """The log of a task."""
    return OUTSIDE[task].batch(seed)


def true_cost(
    task: str, act: Callable[[np.ndarray], np.ndarray], seed: int, episodes: int
) -> np.ndarray:
    """The mean cost per step of each episode under ``act``, which takes observations ``[E, D]`` and
    gives actions ``[E, A]``; episodes of one seed begin alike and have the same luck."""
    problem = OUTSIDE[task]
    first, second = jax.random.split(jax.random.key(seed))
    state = problem.starts(first, episodes).states
    step = jax.jit(jax.vmap(problem.system.step))
    total = np.zeros(episodes)
    for number in range(problem.horizon):
        keys = jax.random.split(jax.random.fold_in(second, number), episodes)
        actions = np.asarray(act(np.asarray(state.seen)), np.float32)
        state = step(keys, state, actions.reshape(state.action.shape))
        total += np.asarray(jax.vmap(problem.system.cost)(state), float)
    return total / problem.horizon
