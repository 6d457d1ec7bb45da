"""The same turbine under another controller: NREL's ROSCO library, for a cross-check.

Package ``rosco`` ships the reference open-source controller as a compiled library with its tuning
for the NREL 5-MW machine. Here it drives the turbine of this package in place of the baseline.
"""

import importlib
import re
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from paper.wind.checks import no_offsets
from twofold.envs.wind import controller, dynamics
from twofold.envs.wind.params import DEGREE, NREL_5MW, RPM, Turbine

FLAGS = {"VS_ControlMode": "1", "PS_Mode": "0", "WE_Mode": "0"}
"""Settings that make ROSCO comparable: torque ``k ω²`` below rated, no peak shaving, measured
wind."""

QUIET = {"LoggingLevel": "0", "Ext_Interface": "0"}
"""No files, and the standard exchange with the library, the only one in its Python interface."""


class Run(NamedTuple):
    """Time in s, rotor speed in rpm, pitch in degrees, electric power in kW."""

    time: np.ndarray
    rotor_speed: np.ndarray
    pitch: np.ndarray
    power: np.ndarray


def load(module: str) -> Any:
    """A module of the package ``rosco``."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            "the cross-check needs the package rosco, which is not installed; "
            "pip install 'twofold[wind]'"
        ) from error


def write_input(folder: Path) -> Path:
    """ROSCO's own input file for this machine with the flags above."""
    source = Path(load("rosco").__file__).parent.parent / "Examples/Test_Cases/NREL-5MW"
    text = (source / "DISCON.IN").read_text()
    for flag, value in (FLAGS | QUIET).items():
        text = re.sub(rf"^\S+(\s+! {flag}\b)", rf"{value}\1", text, flags=re.MULTILINE)
    text = text.replace('"Cp_Ct_Cq.NREL5MW.txt"', f'"{source / "Cp_Ct_Cq.NREL5MW.txt"}"')
    target = folder / "DISCON.IN"
    target.write_text(text)
    return target


def measured(turbine: Turbine, plant: dynamics.Plant, time: float, wind: float) -> dict[str, float]:
    """Measurements passed to ROSCO, under the names of its interface."""
    return {
        "iStatus": 1,
        "t": time,
        "dt": turbine.time_step,
        "ws": wind,
        "bld_pitch": float(plant.pitch),
        "gen_torque": float(plant.torque),
        "gen_speed": float(plant.generator_speed),
        "gen_eff": turbine.drive_train.efficiency,
        "rot_speed": float(plant.rotor_speed),
        "Yaw_fromNorth": 0.0,
        "Y_MeasErr": 0.0,
    }


def summary(turbine: Turbine, plants: dynamics.Plant) -> Run:
    """The run of states with a leading axis of time."""
    power = plants.torque * plants.generator_speed * turbine.drive_train.efficiency
    time = turbine.time_step * (1 + np.arange(len(power)))
    parts = (plants.rotor_speed / RPM, plants.pitch / DEGREE, power / 1e3)
    return Run(time, *(np.asarray(part) for part in parts))


def rosco_run(folder: Path, winds: np.ndarray, turbine: Turbine = NREL_5MW) -> Run:
    """The turbine under ROSCO in a series of winds, one for each time step."""
    interface, table = load("rosco.toolbox.control_interface"), dynamics.nrel_5mw()
    plant = controller.start(turbine, table, jnp.asarray(winds[0], float)).plant
    library = interface.ControllerInterface(
        load("rosco").discon_lib_path,
        param_filename=str(write_input(folder)),
        sim_name=str(folder / "run"),
        DT=turbine.time_step,
        pitch=float(plant.pitch) / DEGREE,
    )
    advance = jax.jit(partial(dynamics.step, turbine, table))
    plants = []
    for number, wind in enumerate(winds):
        told = measured(turbine, plant, number * turbine.time_step, float(wind))
        torque, pitch, _ = library.call_controller(told)
        plant = advance(plant, wind, dynamics.Commands(jnp.float32(pitch), jnp.float32(torque)))
        plants.append(plant)
    library.kill_discon()
    return summary(turbine, jax.tree.map(lambda *values: np.stack(values), *plants))


def baseline_run(winds: np.ndarray, turbine: Turbine = NREL_5MW) -> Run:
    """The turbine under its baseline control in the same series."""
    table, offsets = dynamics.nrel_5mw(), no_offsets()

    def advance(state, wind):
        state = controller.step(turbine, table, state, wind, offsets)
        return state, state.plant

    series = jnp.asarray(winds, float)
    return summary(
        turbine, jax.lax.scan(advance, controller.start(turbine, table, series[0]), series)[1]
    )


def stairs(winds: np.ndarray, seconds: float, turbine: Turbine = NREL_5MW) -> np.ndarray:
    """A series of winds that holds each value for some time."""
    return np.repeat(np.asarray(winds, np.float32), round(seconds / turbine.time_step))
