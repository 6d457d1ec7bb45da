"""What the HAWC2 adapter must be told of a model: where it shows what, and how large it is."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from twofold.envs.wind.params import DEGREE, RPM
from twofold.envs.wind.task import LOAD_SCALE, SIGNALS


class Sensor(NamedTuple):
    """An output line of HAWC2, the place of the value meant, the factor into the task's unit."""

    line: str
    value: int = 0
    factor: float = 1.0


class Sensors(NamedTuple):
    """Where a model shows what the task sees.

    The defaults suit models shaped like DTU's 10-MW: its first DLL is the controller, which asks
    for a torque of the low-speed shaft, its second one the generator, which tells the electric
    power.
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
    """A model's size: rated electric power in MW, rated torque in kN m at the shaft that the
    sensor tells of, and the range of the tower's moment that costs as much as ``load_weight``
    times the rated power, in MN m."""

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
        """Bounds of what is seen, far beyond what a machine of this size reaches."""
        return SIGNALS | {
            "power (MW)": (0.0, 2.0 * self.power),
            "generator torque (kN m)": (0.0, 2.0 * self.torque),
            "tower moment (MN m)": (-20.0 * self.load_scale, 40.0 * self.load_scale),
            "tower moment range (MN m)": (0.0, 60.0 * self.load_scale),
        }


DTU_10MW = Ratings(power=10.0, torque=9_950.0, load_scale=25.0)
"""The default sensors' machine: 10 MW at 9.6 rpm, and a tower that bears 2.5 times the moment."""
