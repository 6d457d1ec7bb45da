"""The NREL 5-MW reference turbine in numbers.

Jonkman, Butterfield, Musial, Scott 2009, *Definition of a 5-MW Reference Wind Turbine for Offshore
System Development*, NREL/TP-500-38060; sections and tables below are of that report. SI units,
radians; generator speeds are those of the high-speed shaft.
"""

import math
from dataclasses import dataclass, field

from twofold.envs.system import check_fields

RPM = math.pi / 30.0  # rad/s
DEGREE = math.pi / 180.0


@dataclass(frozen=True)
class Rotor:
    """Rotor and air (Table 1-1; the air of §9)."""

    radius: float = 63.0
    air_density: float = 1.225
    hub_height: float = 90.0
    inertia: float = 38_759_228.0  # §7: 43,784,725 of the drive train, less 97² · 534.116


@dataclass(frozen=True)
class DriveTrain:
    """Two inertias and a shaft (Table 5-1); the twist is referred to the low-speed side."""

    gear_ratio: float = 97.0
    generator_inertia: float = 534.116
    stiffness: float = 867_637_000.0
    damping: float = 6_215_000.0
    efficiency: float = 0.944


@dataclass(frozen=True)
class Tower:
    """The first fore-aft mode (§6, Table 9-1): its frequency, its damping, its mass. The modal mass
    is that of nacelle, hub and blades, 350,000 kg, and of the tower weighted with the squared mode
    shape, 53,983 kg."""

    frequency: float = 0.324
    damping_ratio: float = 0.01
    modal_mass: float = 403_983.0

    @property
    def stiffness(self) -> float:
        """``k = m (2 π f)²``."""
        return self.modal_mass * (2.0 * math.pi * self.frequency) ** 2

    @property
    def damping(self) -> float:
        """``c = 2 ζ m (2 π f)``."""
        return 2.0 * self.damping_ratio * self.modal_mass * 2.0 * math.pi * self.frequency


@dataclass(frozen=True)
class Actuators:
    """Rates and range of pitch and torque (Table 7-2); the lags are not in the report."""

    pitch_rate: float = 8.0 * DEGREE
    lowest_pitch: float = -5.0 * DEGREE
    highest_pitch: float = 90.0 * DEGREE
    pitch_lag: float = 0.2
    torque_rate: float = 15_000.0
    highest_torque: float = 47_402.91
    torque_lag: float = 0.1


@dataclass(frozen=True)
class Control:
    """The baseline control (§7, Table 7-2): speeds of the generator in rad/s, torque in N·m."""

    rated_power: float = 5_296_610.0  # mechanical, at the generator's shaft
    rated_speed: float = 1173.7 * RPM
    cut_in_speed: float = 670.0 * RPM
    optimum_speed: float = 871.0 * RPM
    rated_share: float = 0.99  # fraction of the rated speed at which region 2½ ends
    slip: float = 0.1
    torque_gain: float = 0.0255764 / RPM**2
    filter_frequency: float = 0.25
    proportional_gain: float = 0.01882681
    integral_gain: float = 0.008068634
    doubling_pitch: float = 6.302336 * DEGREE
    fine_pitch: float = 0.0
    region_pitch: float = 1.0 * DEGREE  # above it the torque keeps the power constant

    def __post_init__(self):
        gains = "torque_gain proportional_gain integral_gain doubling_pitch"
        check_fields(self, gains, "be positive", lambda value: value > 0)


@dataclass(frozen=True)
class Turbine:
    """The whole turbine; ``time_step`` is that of the integration and of the controller."""

    rotor: Rotor = field(default_factory=Rotor)
    drive_train: DriveTrain = field(default_factory=DriveTrain)
    tower: Tower = field(default_factory=Tower)
    actuators: Actuators = field(default_factory=Actuators)
    control: Control = field(default_factory=Control)
    time_step: float = 0.05

    def __post_init__(self):
        if not 0 < self.time_step <= 0.1:
            why = "longer steps do not resolve the torsion of the drive train at 2.2 Hz"
            raise ValueError(f"time_step must lie in (0, 0.1] s, got {self.time_step}: {why}")


NREL_5MW = Turbine()
