"""HAWC2 behind the task's Gymnasium interface, for users with a licence from DTU.

Package ``h2lib`` brings HAWC2 as a library; without a licence it ends as soon as it reads a model.
The user brings the model: an htc file whose controller adds ``general variable 1``, an offset in
rad, to its pitch and scales its torque by 1 plus ``general variable 2``.
"""

import importlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from twofold.envs.gym import spaces
from twofold.envs.wind.params import DEGREE, RPM
from twofold.envs.wind.task import LOAD_SCALE, PARAMS, SIGNALS, Params, wind_turbine

PITCH_VARIABLE, TORQUE_VARIABLE = 1, 2
PATIENCE = 120.0  # seconds to wait for HAWC2's error message
REFUSAL = re.compile(r"error-code: *(\d+)[^\n]*")


class Sensor(NamedTuple):
    """An output line of HAWC2, the index of the value, and the factor to the task's unit."""

    line: str
    value: int = 0
    factor: float = 1.0


class Sensors(NamedTuple):
    """Location of the task's observations in the outputs of a model.

    The defaults suit models structured like DTU's 10-MW: the first DLL is the controller, which
    commands a torque of the low-speed shaft; the second is the generator, which outputs the
    electric power.
    """

    wind: Sensor = Sensor("wind free_wind 1 0.0 0.0 -119.0", value=1)
    power: Sensor = Sensor("dll inpvec 2 2", factor=1e-6)
    rotor_speed: Sensor = Sensor("constraint bearing1 shaft_rot 1 only 2", factor=1.0 / RPM)
    torque: Sensor = Sensor("dll inpvec 1 1", factor=1e-3)
    pitch: Sensor = Sensor("constraint bearing2 pitch1 1 only 1", factor=1.0 / DEGREE)
    moment: Sensor = Sensor("mbdy momentvec tower 1 1 tower only 1", factor=1e-3)


SENSORS = Sensors()


@dataclass(frozen=True)
class Ratings:
    """A model's size: rated electric power in MW, rated torque in kN m at the shaft of the sensor,
    and the range of the tower moment (MN m) that costs ``load_weight`` times the rated power."""

    power: float
    torque: float
    load_scale: float = LOAD_SCALE

    def __post_init__(self):
        for name in ("power", "torque", "load_scale"):
            value = getattr(self, name)
            if not 0 < value < np.inf:
                raise ValueError(f"{name} must be positive and finite, got {value}")

    @property
    def signals(self) -> dict[str, tuple[float, float]]:
        """Bounds of the observations, far beyond the range of a turbine of this size."""
        return SIGNALS | {
            "power (MW)": (0.0, 2.0 * self.power),
            "generator torque (kN m)": (0.0, 2.0 * self.torque),
            "tower moment (MN m)": (-20.0 * self.load_scale, 40.0 * self.load_scale),
            "tower moment range (MN m)": (0.0, 60.0 * self.load_scale),
        }


DTU_10MW = Ratings(power=10.0, torque=9_950.0, load_scale=25.0)
"""The default sensors' machine: 10 MW at 9.6 rpm, and a tower that bears 2.5 times the moment."""


class LicenceError(RuntimeError):
    """HAWC2 refused to run without a licence."""


def load_library() -> Callable[..., Any]:
    """``h2lib.H2Lib``, which runs HAWC2 in a process of its own."""
    try:
        return importlib.import_module("h2lib").H2Lib
    except ImportError as error:
        raise ImportError(
            "HAWC2 needs the package h2lib, which is not installed; pip install 'twofold[wind]'"
        ) from error


def last_words(htc: str, model_path: str) -> str:
    """The output of HAWC2 when it starts with a model, the only place of its error messages."""
    start = f"hawc2 = H2Lib(); hawc2.read_input({htc!r}, {model_path!r}); hawc2.init()"
    with subprocess.Popen(
        [sys.executable, "-c", f"from h2lib import H2Lib; {start}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            return process.communicate(timeout=PATIENCE)[0]
        except subprocess.TimeoutExpired:
            end(process)
            return f"{process.communicate()[0].rstrip()}\nnothing more within {PATIENCE:g} s"


def end(process: subprocess.Popen) -> None:
    """End a process and, if the system has process groups, its children."""
    if os.name == "posix":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def explain(printed: str, cause: Exception) -> RuntimeError:
    """An error with HAWC2's message."""
    refusal = REFUSAL.search(printed)
    if refusal:
        return LicenceError(
            f"HAWC2 refused to run ({refusal.group().strip()}): it needs a licence from DTU "
            "(https://www.hawc2.dk), installed where HAWC2 looks for it, for example as "
            "~/.config/hawc2/license.cfg; without one use the turbine of twofold.envs.wind.task"
        )
    lines = "; ".join(printed.strip().splitlines()[-3:])
    return RuntimeError(f"HAWC2 could not be started with this model: {cause}; it printed: {lines}")


def place(hawc2: Any, sensor: Sensor) -> int:
    """The index of a sensor's value in HAWC2."""
    try:
        return hawc2.add_sensor(sensor.line)[sensor.value]
    except Exception as error:
        raise RuntimeError(
            f"the model has no value {sensor.value} of the sensor {sensor.line!r}: {error}; say in "
            "Sensors where it shows what the task sees"
        ) from error


def checked(action: Any) -> np.ndarray:
    """An action clipped to its bounds; invalid actions are refused."""
    values = np.asarray(action, float)
    if values.shape != (2,) or not np.isfinite(values).all():
        raise ValueError(f"an action must be (2,) finite numbers, got {action!r}")
    return np.clip(values, -1.0, 1.0)


class Hawc2Env(gymnasium.Env):
    """A HAWC2 model with the observation, the actions and the reward of the task.

    ``htc`` is the input file, relative to ``model_path``, or a function that gives it for the seed
    of an episode, so that each can have its own wind. ``ratings`` and ``sensors`` describe the
    model; of ``params`` only the rules of the task are used, not the machine and its wind.
    ``sample`` is the time between measurements, in seconds.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  (Gymnasium's own name for it)

    def __init__(
        self,
        htc: str | Callable[[int], str],
        model_path: str = ".",
        *,
        ratings: Ratings,
        params: Params = PARAMS,
        sensors: Sensors = SENSORS,
        sample: float = 0.1,
        library: Callable[..., Any] | None = None,
    ):
        self._samples = round(params.decision / sample) if sample > 0 else 0
        if not (self._samples and abs(self._samples * sample - params.decision) < 1e-6):
            raise ValueError(f"sample must be a share of {params.decision} s, got {sample}")
        low, high = np.tile(np.array(list(ratings.signals.values())).T, params.history)
        system = wind_turbine(params)._replace(observation_low=low, observation_high=high)
        self.observation_space, self.action_space = spaces(system)
        self.htc, self.model_path, self.params, self.sample = htc, model_path, params, sample
        self.ratings, self.sensors = ratings, sensors
        self._library = library or load_library()
        self._hawc2: Any = None
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.close()
        episode = int(self.np_random.integers(2**31))
        self._start(self.htc(episode) if callable(self.htc) else self.htc)
        self._time, self._steps = 0.0, 0
        self._seconds = np.zeros((self.params.history, len(SIGNALS)))
        for _ in range(max(self.params.warm_up, self.params.history)):
            self._decide(np.zeros(2))
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self._hawc2 is None:
            raise RuntimeError("there is no episode; call reset first")
        self._decide(checked(action))
        self._steps += 1
        power, span = self._seconds[0, 1], self._seconds[0, 6]
        load = self.params.load_weight * span / self.ratings.load_scale
        over = self._steps >= self.params.horizon
        reward = float(power / self.ratings.power - load)
        return self._observation(), reward, False, over, {"time": self._time}

    def close(self) -> None:
        hawc2, self._hawc2 = self._hawc2, None
        if hawc2 is not None:
            hawc2.close()

    @contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _start(self, htc: str) -> None:
        self._hawc2 = self._library(suppress_output=True)
        with self._closed_on_failure():
            try:
                self._hawc2.read_input(htc, self.model_path)
                self._hawc2.init()
            except Exception as error:
                raise explain(last_words(htc, self.model_path), error) from error
            self._ids = [place(self._hawc2, sensor) for sensor in self.sensors]
        self._factors = np.array([sensor.factor for sensor in self.sensors])

    def _decide(self, action: np.ndarray) -> None:
        """Pass on the offsets, run for one decision and record its averages."""
        pitch, torque = action * self.params.bounds
        with self._closed_on_failure():
            seen = self._run(pitch * DEGREE, torque / 100.0)
        means, moments = seen.mean(axis=0), seen[:, -1]
        second = [*means, moments.max() - moments.min(), pitch, torque]
        self._seconds = np.concatenate([[second], self._seconds[:-1]])

    def _run(self, pitch: float, torque: float) -> np.ndarray:
        """Sensor values, once per sample."""
        seen = []
        try:
            self._hawc2.set_variable_sensor_value(PITCH_VARIABLE, pitch)
            self._hawc2.set_variable_sensor_value(TORQUE_VARIABLE, torque)
            for _ in range(self._samples):
                self._time = round(self._time + self.sample, 6)
                self._hawc2.run(self._time)
                seen.append(self._factors * self._hawc2.get_sensor_values(self._ids))
        except Exception as error:
            raise RuntimeError(f"HAWC2 failed at {self._time:g} s: {error}; call reset") from error
        if not np.isfinite(seen).all():
            raise RuntimeError(f"HAWC2 told numbers that are not finite by {self._time:g} s")
        return np.array(seen)

    def _observation(self) -> np.ndarray:
        return self._seconds.reshape(-1).astype(np.float32)
