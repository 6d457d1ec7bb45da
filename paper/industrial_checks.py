"""Checks of our industrial benchmark against the published one: ten trajectories step by step, and
costs of the original under known policies.

The trajectories were made with NumPy's legacy generator, so their noise can be redrawn in the
original order and injected. The original is PyPI's ``industrial_benchmark_python``, run with the
episodes of ``twofold.envs.industrial.task``.
"""

import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from paper.records import Context, Record
from twofold.envs.industrial import dynamics, goldstone
from twofold.envs.industrial.dynamics import PAPER, Drift, Noise, Params, State, no_drifts
from twofold.envs.industrial.task import (
    HIGH_MIDDLE,
    HISTORY,
    HORIZON,
    LONGEST_EXTRA,
    LOW_MIDDLE,
    PUSH,
    PUSH_DEVIATION,
    SETPOINTS,
)

COLUMNS = "coc hg hv he domain response angle ge ve MC c p v g h f fb oc reward".split()
BUFFER = 10
FIRST_SEED, POINT_SEED = 1005, 501
PACKAGE = "industrial_benchmark_python"
SEED = 0
EPISODES, SMOKE_EPISODES = 10_000, 20


def published_trajectories() -> Path:
    """Their folder: under ``$TWOFOLD_DATA``, or ``../shared/data``."""
    folder = Path(os.environ.get("TWOFOLD_DATA", "../shared/data"))
    return folder / "industrial_benchmark" / "markov_states.npz"


def markov_columns(state: State) -> jax.Array:
    """The 29 columns of the published files: ten operational costs and ``COLUMNS``."""
    point = state.point.value
    velocity, gain, shift = state.steering
    position = dynamics.effective_shift(shift, point)
    numbers = [
        state.operational[-1],
        *state.hidden,
        position,
        *state.calibration,
        dynamics.effective_gain(gain, point),
        dynamics.effective_velocity(velocity, gain, point),
        -goldstone.penalty(state.calibration.angle, position),
        state.consumption,
        point,
        *state.steering,
        state.fatigue,
        dynamics.basic_fatigue(velocity, gain),
        dynamics.delayed_cost(state.operational),
        -dynamics.cost(PAPER, state),
    ]
    return jnp.concatenate([state.operational, jnp.stack(numbers)])


@partial(jax.jit, static_argnums=0)
def run_plant(
    params: Params, point: Any, first: Drift, noise: Noise, actions: jax.Array
) -> jax.Array:
    """The columns after each action; the first noise is that of the reset."""
    begin, rest = (
        jax.tree.map(lambda leaf, cut=cut: leaf[cut], noise) for cut in (0, slice(1, None))
    )
    state = dynamics.reset(params, point, first, begin)

    def advance(state, inputs):
        state = dynamics.step(params, state, *inputs)
        return state, markov_columns(state)

    return jax.lax.scan(advance, state, (actions, rest))[1]


def redraw(point: float, seed: int, published: np.ndarray) -> tuple[np.ndarray, Noise]:
    """Redraw the actions and noise of a published trajectory."""
    draw = np.random.RandomState(seed)
    draw.randint(1, 100), draw.rand(2)
    gain = dynamics.effective_gain(jnp.asarray(50.0), jnp.asarray(point))
    velocity = dynamics.effective_velocity(*map(jnp.asarray, (50.0, 50.0, point)))
    noises = [_step_noise(draw, float(gain), float(velocity), saturated=False)]
    actions = []
    for row in published:
        named = dict(zip(COLUMNS, row[BUFFER:], strict=True))
        actions.append(2 * draw.rand(3) - 1)
        saturated = max(named["hg"], named["hv"]) == dynamics.AMPLIFIED_MOST
        noises.append(_step_noise(draw, named["ge"], named["ve"], saturated))
    exponential, uniform, coins, amplified, last = (
        jnp.asarray(column, float) for column in zip(*noises, strict=True)
    )
    noise = Noise(exponential, uniform, coins, amplified, last, no_drifts(len(noises)))
    return np.array(actions), noise


def _step_noise(
    draw: np.random.RandomState, gain: float, velocity: float, saturated: bool
) -> tuple[Any, ...]:
    """The draws of one step, in the original order; thresholds of 0 and 1 fix the coins."""
    exponential = [draw.exponential(0.1), draw.exponential(0.1)]
    uniform = [draw.rand(), draw.rand()]
    coins = [draw.binomial(1, chance) for chance in np.clip([gain, velocity], 0.001, 0.999)]
    amplified = (draw.normal(2.4, 0.4) - 2.4) / 0.4 if saturated else 0.0
    return exponential, uniform, 1.0 - np.array(coins), amplified, draw.randn()


def max_abs_error(path: Path) -> float:
    """The largest difference in any column of any step of the published trajectories."""
    with np.load(path) as file:
        published = file["states"]
    draw = np.random.RandomState(POINT_SEED)
    points = [float(draw.randint(1, 100)) for _ in published]
    worst = 0.0
    with jax.enable_x64(True):
        for index, (point, states) in enumerate(zip(points, published, strict=True)):
            actions, noise = redraw(point, FIRST_SEED + index, states)
            first = jax.tree.map(lambda leaf: leaf[0], noise.drift)
            simulated = run_plant(PAPER, point, first, noise, actions)
            worst = max(worst, float(np.abs(simulated - states).max()))
    return worst


def measure_original(context: Context) -> Record:
    """Mean cost per step of each policy on the original benchmark."""
    plant = load_plant()
    num = SMOKE_EPISODES if context.smoke else EPISODES
    record = Record("systems", {"episodes": num, PACKAGE: version(PACKAGE)}, [SEED])
    # NumPy 2 has no ``numpy.float``, which the original calls.
    with mock.patch.object(np, "float", float, create=True):
        for name, act in POLICIES.items():
            costs = [episode_cost(plant, act, episode) for episode in range(num)]
            record.add_mean(f"industrial/original/{name}/cost", costs)
    return record


def load_plant() -> Callable[..., Any]:
    """The plant class of the original."""
    try:
        return import_module(f"{PACKAGE}.IDS").IDS
    except ImportError as error:
        raise ImportError(
            f"this needs {PACKAGE}, which is not installed; pip install 'twofold[dev]'"
        ) from error


def episode_cost(plant: Callable[..., Any], act: Callable[..., np.ndarray], episode: int) -> float:
    """Mean cost per step of one episode; all policies share the initial phase."""
    rng = np.random.default_rng([SEED, episode])
    running = plant(rng.choice(SETPOINTS), inital_seed=episode)
    for _ in range(HISTORY + rng.integers(LONGEST_EXTRA)):
        running.step(random(rng, running.state))
    costs = []
    for _ in range(HORIZON):
        running.step(act(rng, running.state))
        costs.append(running.state["cost"])
    return float(np.mean(costs))


def zero(rng: np.random.Generator, state: dict[str, Any]) -> np.ndarray:
    """No change."""
    return np.zeros(3)


def random(rng: np.random.Generator, state: dict[str, Any]) -> np.ndarray:
    """Uniform changes within the bounds."""
    return rng.uniform(-1.0, 1.0, 3)


def behaviour(rng: np.random.Generator, state: dict[str, Any]) -> np.ndarray:
    """The paper's behaviour policy, implemented independently."""
    action = random(rng, state)
    for place, value in enumerate((state["v"], state["g"])):
        push = rng.normal(PUSH, PUSH_DEVIATION)
        if value < LOW_MIDDLE:
            action[place] = push
        elif value > HIGH_MIDDLE:
            action[place] = -push
    return np.clip(action, -1.0, 1.0)


POLICIES = {"zero": zero, "random": random, "behaviour": behaviour}
