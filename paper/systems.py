"""Are the systems the ones they claim to be? Parity, costs of known policies, speed."""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import numpy as np

from paper import industrial_parity
from paper.figures.river import river_figure
from paper.records import Record
from paper.wind.balance import energy_gap
from paper.wind.gains import fixed_offset_gain
from paper.wind.steady import steady_state_errors, steady_states
from twofold.envs.industrial import dynamics
from twofold.envs.industrial.dynamics import PAPER
from twofold.envs.industrial.task import industrial_benchmark
from twofold.envs.system import Policy, System, constant, episodes, uniform
from twofold.envs.wet_chicken import PAPER as RIVER
from twofold.envs.wet_chicken import wet_chicken
from twofold.envs.wind.task import PARAMS as TURBINE
from twofold.envs.wind.task import Params as TurbineTask
from twofold.report.style import style

SEED = 0
EPISODES, SMOKE_EPISODES = 10_000, 20
PLANTS, STEPS, REPEATS = 20_000, 100, 5
CANOES, PADDLED = 3, 14


def run(smoke: bool, work: Path) -> Record:
    """All that is measured of the systems; ``smoke`` is a rehearsal on few episodes."""
    del work
    system = industrial_benchmark()
    num = SMOKE_EPISODES if smoke else EPISODES
    record = Record(
        "systems", {"episodes": num, "plants": PLANTS, "steps": STEPS, "repeats": REPEATS}, [SEED]
    )
    path = industrial_parity.trajectories()
    if path.exists():
        record.add("industrial/parity/max_abs_error", industrial_parity.max_abs_error(path))
    for name, policy in policies(system).items():
        record.add_mean(f"industrial/{name}/cost", episode_costs(system, policy, num))
    measure_speed(record, smoke)
    if not smoke:
        measure_turbine(record)
    return record


def run_speed(smoke: bool, work: Path) -> Record:
    """The speed alone, for other devices."""
    del work
    record = Record("systems", {"plants": PLANTS, "steps": STEPS, "repeats": REPEATS}, [SEED])
    measure_speed(record, smoke)
    return record


def measure_speed(record: Record, smoke: bool) -> None:
    """Under the name of the platform that it was measured on."""
    platform = jax.devices()[0].platform
    record.add(f"industrial/steps_per_second/{platform}", steps_per_second(smoke))


def measure_turbine(record: Record) -> None:
    """Its steady states against the published ones, its energy, and what there is to gain."""
    for name, value in steady_state_errors(steady_states()).items():
        record.add(f"wind/steady_state/{name}", value)
    record.add("wind/energy_gap", energy_gap(jax.random.key(SEED)))
    measure_fixed_offset(record, "wind/fixed_offset", TURBINE)
    measure_fixed_offset(record, "wind/fixed_offset_no_load", replace(TURBINE, load_weight=0.0))


def measure_fixed_offset(record: Record, name: str, params: TurbineTask) -> None:
    """The best fixed offset, in degrees and percent, and what it saves of the neutral cost."""
    found = fixed_offset_gain(jax.random.key(SEED), params)
    record.add(f"{name}/pitch", found.pitch)
    record.add(f"{name}/torque", found.torque)
    record.add(f"{name}/neutral_cost", found.neutral_cost)
    record.add(f"{name}_gain", found.gain)
    record.add(f"{name}_gain_se", found.standard_error)


def policies(system: System) -> dict[str, Policy]:
    """Those with a known cost."""
    zero = constant(np.zeros(len(system.actions)))
    return {"zero": zero, "random": uniform(system), "behaviour": system.behaviour}


def episode_costs(system: System, policy: Policy, num: int) -> np.ndarray:
    """Mean cost per step of each of ``num`` episodes, which all policies share the seeds of."""
    found = episodes(jax.random.key(SEED), system, policy, system.horizon, num)
    return np.asarray(found.costs, np.float64).mean(axis=1)


def steps_per_second(smoke: bool) -> float:
    """Steps of many plants side by side with random actions, noise included; the median."""
    plants = PLANTS // 100 if smoke else PLANTS
    noise = dynamics.sample_noises(jax.random.key(SEED), plants)
    states = jax.jit(jax.vmap(lambda one: dynamics.reset(PAPER, 50.0, one.drift, one)))(noise)
    times = []
    for repeat in range(REPEATS + 1):
        started = time.perf_counter()
        jax.block_until_ready(_advance(jax.random.key(repeat), states))
        times.append(time.perf_counter() - started)
    return plants * STEPS / float(np.median(times[1:]))


@jax.jit
def _advance(key: jax.Array, states: dynamics.State) -> tuple[dynamics.State, jax.Array]:
    plants = states.fatigue.shape[0]

    def step(states, step_key):
        action_key, noise_key = jax.random.split(step_key)
        actions = jax.random.uniform(action_key, (plants, 3), minval=-1.0, maxval=1.0)
        noise = dynamics.sample_noises(noise_key, plants)
        states = jax.vmap(partial(dynamics.step, PAPER))(states, actions, noise)
        return states, jax.vmap(partial(dynamics.cost, PAPER))(states).mean()

    return jax.lax.scan(step, states, jax.random.split(key, STEPS))


def draw_river(results: Path) -> Path:
    """Some canoes that paddle at random, as ``river.png``."""
    system = wet_chicken()
    found = episodes(jax.random.key(SEED), system, system.behaviour, PADDLED, CANOES)
    path = results / "river.png"
    with style():
        paths, actions = map(np.asarray, found[:2])
        river_figure(RIVER, paths, actions).savefig(path, dpi=110)
    return path
