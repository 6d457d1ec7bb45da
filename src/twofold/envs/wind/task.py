"""The task: offsets for a mistuned baseline controller, in changing wind.

The controller keeps running with a slightly wrong fine pitch and torque gain; every second a policy
may add a pitch offset and scale the torque. Actions lie in [-1, 1], as fractions of the largest
offsets; 0 is neutral. Observations are averages over the last seconds: wind, power, speeds, loads
and the offsets. The cost per second is the negative electric power, in units of the rated power,
plus a penalty on the bending of the tower.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float, Key, Scalar
from twofold.envs.system import Policy, System, check_fields
from twofold.envs.wind import controller, dynamics, turbulence
from twofold.envs.wind.params import DEGREE, NREL_5MW, RPM, Control, Turbine

SIGNALS = {
    "wind (m/s)": (0.0, 50.0),
    "power (MW)": (0.0, 10.0),
    "rotor speed (rpm)": (0.0, 30.0),
    "generator torque (kN m)": (0.0, 50.0),
    "pitch (deg)": (-10.0, 90.0),
    "tower moment (MN m)": (-200.0, 400.0),
    "tower moment range (MN m)": (0.0, 600.0),
    "pitch offset (deg)": (-90.0, 90.0),
    "torque offset (%)": (-100.0, 100.0),
}
"""Observations of each second, with bounds that are never reached."""

RATED_POWER = 5.0  # MW, electric
LOAD_SCALE = 10.0  # MN m


def mistuned(torque: float = 1.25, fine_pitch: float = 2.0) -> Turbine:
    """The machine with too large a torque gain, and a fine pitch in degrees that is not 0."""
    gain = torque * NREL_5MW.control.torque_gain
    control = replace(Control(), torque_gain=gain, fine_pitch=fine_pitch * DEGREE)
    return replace(NREL_5MW, control=control)


@dataclass(frozen=True)
class Params:
    """The machine, its wind and the rules: bounds in degrees and percent, times in seconds."""

    turbine: Turbine = field(default_factory=mistuned)
    spectrum: turbulence.Spectrum = field(default_factory=turbulence.Spectrum)
    mean_wind: tuple[float, float] = (7.0, 13.0)
    intensity: tuple[float, float] = (0.12, 0.16)
    pitch_bound: float = 3.0
    torque_bound: float = 20.0
    load_weight: float = 0.1
    history: int = 5
    decision: float = 1.0
    warm_up: int = 30
    horizon: int = 100
    anemometer_noise: float = 0.2
    exploration: float = 0.15  # standard deviation of the behaviour policy's actions
    persistence: float = 0.9

    def __post_init__(self):
        for name in ("mean_wind", "intensity"):
            low, high = getattr(self, name)
            if not 0 < low <= high:
                raise ValueError(f"{name} must satisfy 0 < low <= high, got {(low, high)}")
        check_fields(self, "history horizon", "be 1 decision or more", lambda value: value >= 1)
        weights = "load_weight warm_up anemometer_noise exploration"
        check_fields(self, weights, "be 0 or more", lambda value: value >= 0)
        check_fields(self, "pitch_bound torque_bound", "be positive", lambda value: value > 0)
        steps = self.decision / self.turbine.time_step
        if not (steps >= 1 and abs(steps - round(steps)) < 1e-6):
            expected = f"a multiple of the time step of {self.turbine.time_step} s"
            raise ValueError(f"decision must be {expected}, got {self.decision}")
        check_fields(self, "persistence", "lie in [0, 1)", lambda value: 0 <= value < 1)

    @property
    def bounds(self) -> np.ndarray:
        """Largest offsets of pitch in degrees and of torque in percent."""
        return np.array([self.pitch_bound, self.torque_bound])

    @property
    def substeps(self) -> int:
        """Number of time steps between two decisions."""
        return round(self.decision / self.turbine.time_step)


PARAMS = Params()


class State(NamedTuple):
    """The machine, the whole wind, the time in s, and the last seconds, newest first."""

    machine: controller.Machine
    wind: turbulence.Wind
    time: Scalar
    seconds: Float[Array, "H F"]


def offsets(params: Params, action: Float[Array, "2"]) -> controller.Offsets:
    """The offsets of an action (clipped to its bounds), in the controller's units."""
    pitch, torque = jnp.clip(action, -1.0, 1.0) * jnp.asarray(params.bounds, float)
    return controller.Offsets(pitch * DEGREE, torque / 100.0)


def run(
    params: Params, state: State, wanted: controller.Offsets, winds: Float[Array, "steps"]
) -> tuple[controller.Machine, dict[str, Array]]:
    """The machine after one decision, and the measurements at each time step."""
    turbine, table = params.turbine, dynamics.nrel_5mw()

    def advance(state, wind):
        state = controller.step(turbine, table, state, wind, wanted)
        plant = state.plant
        seen = {
            "power": plant.torque * plant.generator_speed * turbine.drive_train.efficiency,
            "rotor_speed": plant.rotor_speed,
            "torque": plant.torque,
            "pitch": plant.pitch,
            "moment": dynamics.tower_moment(turbine, plant),
        }
        return state, seen

    return jax.lax.scan(advance, state.machine, winds)


def step(params: Params, state: State, action: Float[Array, "2"], noise: Scalar) -> State:
    """One decision; ``noise``, standard normal, is the anemometer's."""
    wanted = offsets(params, action)
    size = params.turbine.time_step
    winds, hub = turbulence.winds(state.wind, state.time + 0.5 * size, size, params.substeps)
    after, seen = run(params, state, wanted, winds)
    wind = hub + params.anemometer_noise * noise
    moment = seen["moment"] / 1e6
    second = [
        jnp.maximum(wind, 0.0),
        seen["power"].mean() / 1e6,
        seen["rotor_speed"].mean() / RPM,
        seen["torque"].mean() / 1e3,
        seen["pitch"].mean() / DEGREE,
        moment.mean(),
        moment.max() - moment.min(),
        wanted.pitch / DEGREE,
        wanted.torque * 100.0,
    ]
    seconds = jnp.concatenate([jnp.stack(second)[None], state.seconds[:-1]])
    return State(after, state.wind, state.time + params.decision, seconds)


def cost(params: Params, state: State) -> Scalar:
    """``−P / 5 MW + weight · range of the tower's moment / 10 MN m`` of the last second."""
    power, span = state.seconds[0, 1], state.seconds[0, 6]
    return -power / RATED_POWER + params.load_weight * span / LOAD_SCALE


def reset(key: Key, params: Params = PARAMS) -> State:
    """A random wind with uniform mean and intensity, and the machine after a neutral warm-up."""
    mean_key, intensity_key, wind_key, noise_key = jax.random.split(key, 4)
    mean = jax.random.uniform(mean_key, minval=params.mean_wind[0], maxval=params.mean_wind[1])
    low, high = params.intensity
    intensity = jax.random.uniform(intensity_key, minval=low, maxval=high)
    sigma = turbulence.deviation(intensity, mean)
    wind = turbulence.sample(wind_key, params.spectrum, mean, sigma)
    machine = controller.start(params.turbine, dynamics.nrel_5mw(), wind.mean)
    state = State(machine, wind, jnp.zeros(()), jnp.zeros((params.history, len(SIGNALS))))

    def advance(state: State, noise: Scalar) -> tuple[State, None]:
        return step(params, state, jnp.zeros(2), noise), None

    noises = jax.random.normal(noise_key, (max(params.warm_up, params.history),))
    return jax.lax.scan(advance, state, noises)[0]


def behaviour(params: Params = PARAMS) -> Policy:
    """Exploration around 0: autocorrelated normal actions."""
    spread = params.exploration
    kept, fresh = params.persistence, (1.0 - params.persistence**2) ** 0.5

    def act(key: Key, memory: Array, observation: Array) -> tuple[Array, Array]:
        memory = kept * memory + fresh * spread * jax.random.normal(key, (2,))
        return memory, jnp.clip(memory, -1.0, 1.0)

    return Policy(lambda key: spread * jax.random.normal(key, (2,)), act)


def wind_turbine(params: Params = PARAMS) -> System:
    low, high = np.tile(np.array(list(SIGNALS.values())).T, params.history)
    ages = ["", *(f", {age} s before" for age in range(1, params.history))]

    def advance(key: Key, state: State, action: Float[Array, "2"]) -> State:
        return step(params, state, action, jax.random.normal(key))

    return System(
        name="wind_turbine",
        observations=tuple(f"{signal}{age}" for age in ages for signal in SIGNALS),
        actions=("pitch offset", "torque offset"),
        observation_low=low,
        observation_high=high,
        action_low=-np.ones(2),
        action_high=np.ones(2),
        horizon=params.horizon,
        reset=partial(reset, params=params),
        step=advance,
        observe=lambda state: state.seconds.reshape(-1),
        cost=partial(cost, params),
        behaviour=behaviour(params),
    )
