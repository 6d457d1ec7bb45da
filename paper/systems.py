"""Checks of the systems: parity with published data, costs of known policies, speed."""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper import industrial_checks
from paper.markdown import markdown, mean_and_error, metrics
from paper.records import Context, Record
from paper.wind.checks import (
    energy_gap,
    fixed_offset_gain,
    steady_state_errors,
    steady_states,
)
from twofold.envs.industrial import dynamics
from twofold.envs.industrial.dynamics import PAPER
from twofold.envs.industrial.task import industrial_benchmark
from twofold.envs.system import Policy, System, constant, episodes, uniform
from twofold.envs.wet_chicken import PAPER as RIVER
from twofold.envs.wet_chicken import Params as River
from twofold.envs.wet_chicken import drift, turbulence_magnitude, wet_chicken
from twofold.envs.wind.task import PARAMS as TURBINE
from twofold.envs.wind.task import Params as TurbineTask
from twofold.report.figures import CHOSEN, PALETTE, style

SEED = 0
EPISODES, SMOKE_EPISODES = 10_000, 20
PLANTS, STEPS, REPEATS = 20_000, 100, 5
SIZES = {"plants": PLANTS, "steps": STEPS, "repeats": REPEATS}
CANOES, PADDLED = 3, 14
POLICIES = ("zero", "random", "behaviour")
ERRORS = ("power_error", "speed_error", "pitch_error_deg")
DEVICES = {"cpu": "two CPU cores", "gpu": "one GPU"}


def measure_systems(context: Context) -> Record:
    """Run all measurements; of the turbine only in a full run."""
    system = industrial_benchmark()
    num = SMOKE_EPISODES if context.smoke else EPISODES
    record = Record("systems", {"episodes": num, **SIZES}, [SEED])
    path = industrial_checks.published_trajectories()
    if path.exists():
        record.add("industrial/parity/max_abs_error", industrial_checks.max_abs_error(path))
    for name, policy in known_policies(system).items():
        record.add_mean(f"industrial/{name}/cost", episode_costs(system, policy, num))
    add_speed(record, context.smoke)
    if not context.smoke:
        measure_turbine(record)
    return record


def measure_speed(context: Context) -> Record:
    """Measure only the speed, for other devices."""
    record = Record("systems", SIZES, [SEED])
    add_speed(record, context.smoke)
    return record


def add_speed(record: Record, smoke: bool) -> None:
    """Add the speed under the name of the platform."""
    platform = jax.devices()[0].platform
    record.add(f"industrial/steps_per_second/{platform}", steps_per_second(smoke))


def measure_turbine(record: Record) -> None:
    """Steady states against the published ones, energy balance, and possible savings."""
    for name, value in steady_state_errors(steady_states()).items():
        record.add(f"wind/steady_state/{name}", value)
    record.add("wind/energy_gap", energy_gap(jax.random.key(SEED)))
    measure_fixed_offset(record, "wind/fixed_offset", TURBINE)
    measure_fixed_offset(record, "wind/fixed_offset_no_load", replace(TURBINE, load_weight=0.0))


def measure_fixed_offset(record: Record, name: str, params: TurbineTask) -> None:
    """The best fixed offset, in degrees and percent, and its saving against the neutral action."""
    best = fixed_offset_gain(jax.random.key(SEED), params)
    record.add(f"{name}/pitch", best.pitch)
    record.add(f"{name}/torque", best.torque)
    record.add(f"{name}/neutral_cost", best.neutral_cost)
    record.add(f"{name}_gain", best.gain)
    record.add(f"{name}_gain_se", best.standard_error)


def known_policies(system: System) -> dict[str, Policy]:
    """Policies with a known cost."""
    zero = constant(np.zeros(len(system.actions)))
    return {"zero": zero, "random": uniform(system), "behaviour": system.behaviour}


def episode_costs(system: System, policy: Policy, num: int) -> np.ndarray:
    """Mean cost per step of each of ``num`` episodes, with the same seeds for all policies."""
    simulated = episodes(jax.random.key(SEED), system, policy, system.horizon, num)
    return np.asarray(simulated.costs, np.float64).mean(axis=1)


def steps_per_second(smoke: bool) -> float:
    """Median number of steps per second of many parallel plants with random actions, noise
    included."""
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


def draw_river(context: Context) -> list[Path]:
    """Draw some canoes that paddle at random, as ``river.png``."""
    system = wet_chicken()
    simulated = episodes(jax.random.key(SEED), system, system.behaviour, PADDLED, CANOES)
    path = context.output / "river.png"
    with style():
        river_figure(RIVER, *map(np.asarray, simulated[:2])).savefig(path, dpi=110)
    return [path]


def tabulate_costs(results: Path) -> str:
    """Costs of known policies, and the difference from the published trajectories."""
    values = metrics("systems", results)
    rows = [
        [
            name,
            mean_and_error(values, f"industrial/original/{name}/cost", 1),
            mean_and_error(values, f"industrial/{name}/cost", 1),
        ]
        for name in POLICIES
    ]
    error = values["industrial/parity/max_abs_error"]
    rows.append(["largest difference from the published states", "", f"{error:.0e}"])
    return markdown(["policy", "original", "here"], rows)


def tabulate_wind(results: Path) -> str:
    """The turbine against its published steady states, and possible savings."""
    values = metrics("systems", results)
    error = {name: values[f"wind/steady_state/max_{name}"] for name in ERRORS}
    rows = [
        ["largest error of the power, 5–25 m/s", f"{error['power_error']:.1%}"],
        ["largest error of the rotor speed, 5–25 m/s", f"{error['speed_error']:.1%}"],
        ["largest error of the pitch, 5–25 m/s", f"{error['pitch_error_deg']:.2f}°"],
        ["work on the drive train that is unaccounted for", f"{values['wind/energy_gap']:.0e}"],
        *_fixed_offset(values, "wind/fixed_offset", ""),
        *_fixed_offset(values, "wind/fixed_offset_no_load", ", without a load penalty"),
    ]
    return markdown(["", "value"], rows)


def _fixed_offset(values: dict[str, float], name: str, case: str) -> list[list[str]]:
    """The best fixed offset and its saving."""
    pitch, torque = values[f"{name}/pitch"], values[f"{name}/torque"]
    neutral, gain = values[f"{name}/neutral_cost"], values[f"{name}_gain"]
    return [
        [f"best fixed offset{case}", f"pitch {signed(pitch)}°, torque {signed(torque)} %"],
        [f"cost of the neutral action, of rated power{case}", signed(neutral, ".3f")],
        [
            f"saved by the best fixed offset, of rated power{case}",
            f"{gain:.4f} ± {values[f'{name}_gain_se']:.4f}",
        ],
        [
            f"saved by the best fixed offset, of the neutral cost{case}",
            f"{gain / abs(neutral):.1%}",
        ],
    ]


def signed(value: float, form: str = "g") -> str:
    """A number with a proper minus sign."""
    return f"{value:{form}}".replace("-", "−")


def tabulate_speed(results: Path) -> str:
    """Million steps of the industrial benchmark per second."""
    values = metrics("systems", results)
    speeds = {
        label: values.get(f"industrial/steps_per_second/{name}") for name, label in DEVICES.items()
    }
    rows = [
        [label, "–" if speed is None else f"{speed / 1e6:.1f}"] for label, speed in speeds.items()
    ]
    return markdown(["20,000 plants side by side", "million steps per second"], rows)


def river_figure(params: River, paths: np.ndarray, actions: np.ndarray) -> Figure:
    """``paths [E, T + 1, 2]`` and ``actions [E, T, 2]`` of canoes, over the river's turbulence."""
    figure, axis = plt.subplots(figsize=(6.4, 6.2), layout="constrained")
    _water(axis, params)
    for number, (path, paddled) in enumerate(zip(paths, actions, strict=True)):
        # A canoe at x = 0 that has not paddled there has fallen.
        fell = (path[1:, 0] == 0.0) & (path[:-1, 0] + paddled[:, 0] > 0.0)
        _canoe(axis, path, fell, PALETTE[number % len(PALETTE)], f"canoe {number + 1}")
    axis.plot([], [], "x", color=CHOSEN, markersize=8, markeredgewidth=2, label="falls from here")
    axis.axhline(params.length, color="black", linewidth=3)
    axis.text(
        params.width / 2,
        params.length + 0.06,
        "waterfall: back to the origin",
        ha="center",
        va="bottom",
    )
    axis.set(
        xlabel="x (left bank to right bank)",
        ylabel="y (towards the waterfall)",
        xlim=(-0.15, params.width + 0.15),
        ylim=(-0.15, params.length + 0.45),
        aspect="equal",
    )
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def _water(axis: Axes, params: River) -> None:
    x = np.linspace(0.0, params.width, 101)
    reach = np.asarray(turbulence_magnitude(params, jnp.asarray(x)))
    water = axis.imshow(
        reach[None], extent=(0, params.width, 0, params.length), origin="lower",
        aspect="auto", cmap="Blues", vmin=0, vmax=float(reach.max()), alpha=0.5,
    )  # fmt: skip
    axis.figure.colorbar(water, ax=axis, label="turbulence: farthest throw in one step")
    places = np.linspace(0.5, params.width - 0.5, 5)
    speed = np.asarray(drift(params, jnp.asarray(places)))
    axis.text(places[-1], 0.98, "drift (to ¼ scale)", ha="center", fontsize=9, color="0.25")
    axis.quiver(
        places, np.full(5, 0.12), np.zeros(5), speed, color="0.35", alpha=0.8, width=0.006,
        angles="xy", scale_units="xy", scale=4.0,
    )  # fmt: skip


def _canoe(axis: Axes, path: np.ndarray, fell: np.ndarray, color: str, label: str) -> None:
    """A line per leg; a fall is marked at its start."""
    legs = np.split(path, np.flatnonzero(fell) + 1)
    for leg in legs:
        axis.plot(*leg.T, "o-", color=color, markersize=3, linewidth=1.2, label=label)
        label = "_again"
    at = path[:-1][fell]
    axis.plot(*at.T, "x", color=CHOSEN, markersize=8, markeredgewidth=2)
