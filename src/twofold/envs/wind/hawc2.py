"""HAWC2 behind the task's Gymnasium interface, for those who have DTU's licence.

Package ``h2lib`` brings HAWC2 as a library; without a licence it ends as soon as it reads a model.
The user brings the model: an htc file whose controller adds ``general variable 1``, an offset in
rad, to its pitch and scales its torque by 1 plus ``general variable 2``.
"""

import importlib
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from twofold.envs.gym import spaces
from twofold.envs.wind.params import DEGREE, RPM
from twofold.envs.wind.task import (
    LOAD_SCALE,
    PARAMS,
    RATED_POWER,
    SIGNALS,
    Params,
    wind_turbine,
)

PITCH_VARIABLE, TORQUE_VARIABLE = 1, 2
REFUSAL = re.compile(r"error-code: *(\d+)[^\n]*")


class LicenceError(RuntimeError):
    """HAWC2 would not run without a licence."""


class Sensor(NamedTuple):
    """An output line of HAWC2, the place of the value meant, the factor into the task's unit."""

    line: str
    value: int = 0
    factor: float = 1.0


class Sensors(NamedTuple):
    """Where a model shows what the task sees; the defaults suit models shaped like DTU's 10-MW."""

    wind: Sensor = Sensor("wind free_wind 1 0.0 0.0 -119.0", value=1)
    power: Sensor = Sensor("aero power", factor=1e-3)
    rotor_speed: Sensor = Sensor("constraint bearing1 shaft_rot 1 only 2", factor=1.0 / RPM)
    torque: Sensor = Sensor("dll inpvec 1 1", factor=1e-3)
    pitch: Sensor = Sensor("constraint bearing2 pitch1 1 only 1", factor=1.0 / DEGREE)
    moment: Sensor = Sensor("mbdy momentvec tower 1 1 tower only 1", factor=1e-3)


SENSORS = Sensors()


def load_library() -> Callable[..., Any]:
    """``h2lib.H2Lib``, which runs HAWC2 in a process of its own."""
    try:
        return importlib.import_module("h2lib").H2Lib
    except ImportError as error:
        raise ImportError(
            "HAWC2 needs the package h2lib, which is not installed; pip install 'twofold[wind]'"
        ) from error


def last_words(htc: str, model_path: str) -> str:
    """What HAWC2 prints when it reads a model; it says why it ends only there."""
    call = f"from h2lib import H2Lib; H2Lib().read_input({htc!r}, {model_path!r})"
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


def explain(printed: str, cause: Exception) -> RuntimeError:
    """The error that tells a user what HAWC2 has said."""
    refusal = REFUSAL.search(printed)
    if refusal:
        return LicenceError(
            f"HAWC2 refused to run ({refusal.group().strip()}): it needs a licence from DTU "
            "(https://www.hawc2.dk), installed where HAWC2 looks for it, for example as "
            "~/.config/hawc2/license.cfg; without one use the turbine of twofold.envs.wind.task"
        )
    lines = "; ".join(printed.strip().splitlines()[-3:])
    return RuntimeError(f"HAWC2 could not be started with this model: {cause}; it printed: {lines}")


class Hawc2Env(gymnasium.Env):
    """A HAWC2 model with the observation, the actions and the reward of the task.

    ``htc`` is the input file, relative to ``model_path``, or a function that gives it for the seed
    of an episode, so that each can have its own wind. ``sample`` is the time between two
    measurements, in seconds.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  (Gymnasium's own name for it)

    def __init__(
        self,
        htc: str | Callable[[int], str],
        model_path: str = ".",
        params: Params = PARAMS,
        sensors: Sensors = SENSORS,
        sample: float = 0.1,
        library: Callable[..., Any] | None = None,
    ):
        self.observation_space, self.action_space = spaces(wind_turbine(params))
        self.htc, self.model_path, self.params, self.sample = htc, model_path, params, sample
        self.sensors = sensors
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
        self._decide(np.clip(np.asarray(action, float), -1.0, 1.0))
        self._steps += 1
        power, span = self._seconds[0, 1], self._seconds[0, 6]
        reward = power / RATED_POWER - self.params.load_weight * span / LOAD_SCALE
        over = self._steps >= self.params.horizon
        return self._observation(), float(reward), False, over, {"time": self._time}

    def close(self) -> None:
        if self._hawc2 is not None:
            self._hawc2.close()
            self._hawc2 = None

    def _start(self, htc: str) -> None:
        hawc2 = self._library(suppress_output=True)
        try:
            hawc2.read_input(htc, self.model_path)
            hawc2.init()
        except Exception as error:
            raise explain(last_words(htc, self.model_path), error) from error
        self._ids = [hawc2.add_sensor(sensor.line)[sensor.value] for sensor in self.sensors]
        self._factors = np.array([sensor.factor for sensor in self.sensors])
        self._hawc2 = hawc2

    def _decide(self, action: np.ndarray) -> None:
        """Pass the offsets on, run for one decision and take its averages down."""
        pitch, torque = action * self.params.bounds
        self._hawc2.set_variable_sensor_value(PITCH_VARIABLE, pitch * DEGREE)
        self._hawc2.set_variable_sensor_value(TORQUE_VARIABLE, torque / 100.0)
        seen = []
        for _ in range(round(self.params.decision / self.sample)):
            self._time = round(self._time + self.sample, 6)
            self._hawc2.run(self._time)
            seen.append(self._factors * self._hawc2.get_sensor_values(self._ids))
        means, moments = np.mean(seen, axis=0), np.array(seen)[:, -1]
        second = [*means, moments.max() - moments.min(), pitch, torque]
        self._seconds = np.concatenate([[second], self._seconds[:-1]])

    def _observation(self) -> np.ndarray:
        return self._seconds.reshape(-1).astype(np.float32)
