"""The balance of energy of the turbine's drive train."""

from typing import NamedTuple

from twofold.core.arrays import Scalar
from twofold.envs.wind import dynamics
from twofold.envs.wind.dynamics import Plant
from twofold.envs.wind.params import Turbine


class Flows(NamedTuple):
    """Power into the drive train and out of it, in W; ``electric`` is a share of ``generator``."""

    aerodynamic: Scalar
    generator: Scalar
    damping: Scalar
    electric: Scalar


def stored_energy(turbine: Turbine, plant: Plant) -> Scalar:
    """Kinetic energy of rotor and generator and the shaft's elastic energy, in J."""
    train = turbine.drive_train
    rotor = turbine.rotor.inertia * plant.rotor_speed**2
    generator = train.generator_inertia * plant.generator_speed**2
    return 0.5 * (rotor + generator + train.stiffness * plant.twist**2)


def flows(turbine: Turbine, table: dynamics.Table, plant: Plant, wind: Scalar) -> Flows:
    """``Q Ω`` comes in; ``T ω`` and the shaft's damping ``c φ'²`` go out."""
    relative = wind - plant.tower_velocity
    torque, _ = dynamics.loads(turbine.rotor, table, plant.rotor_speed, plant.pitch, relative)
    generator = plant.torque * plant.generator_speed
    damping = turbine.drive_train.damping * dynamics.twist_rate(turbine, plant) ** 2
    electric = turbine.drive_train.efficiency * generator
    return Flows(torque * plant.rotor_speed, generator, damping, electric)
