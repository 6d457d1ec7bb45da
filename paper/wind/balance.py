"""Does the drive train keep its energy? The wind's work on it, and where that goes."""

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float, Key
from twofold.envs.wind import aero, dynamics, machine, turbulence
from twofold.envs.wind.params import NREL_5MW, Turbine

MEAN, INTENSITY = 11.0, 0.14  # m/s, and class B: the rotor passes below and above rated


def energy_gap(key: Key, turbine: Turbine = NREL_5MW, seconds: float = 100.0) -> float:
    """Share of the work done in a turbulent wind that is neither stored nor taken out.

    Work is the trapezoidal rule's; the wind stays as it is within a time step.
    """
    mean = jnp.asarray(MEAN)
    spectrum = turbulence.Spectrum(rotor_radius=turbine.rotor.radius)
    wind = turbulence.sample(key, spectrum, mean, turbulence.deviation(INTENSITY, mean))
    times = turbine.time_step * (0.5 + jnp.arange(round(seconds / turbine.time_step)))
    energies, flows = _run(turbine, mean, turbulence.rotor_wind(wind, times))
    work, generator, damping = (
        turbine.time_step * np.asarray(part, np.float64).mean(axis=1).sum() for part in flows[:3]
    )
    return float(abs(work - generator - damping - np.diff(energies)[0]) / work)


def _run(
    turbine: Turbine, mean: Float[Array, ""], winds: Float[Array, "T"]
) -> tuple[np.ndarray, dynamics.Flows]:
    """Energy of the drive train at the beginning and the end, flows at both ends of each step."""
    table, offsets = aero.nrel_5mw(), machine.no_offsets()

    def advance(before, wind):
        after = machine.step(turbine, table, before, wind, offsets)
        ends = jax.tree.map(lambda *pair: jnp.stack(pair), before.plant, after.plant)
        return after, jax.vmap(lambda plant: dynamics.flows(turbine, table, plant, wind))(ends)

    @jax.jit
    def run(winds):
        first = machine.start(turbine, table, mean)
        last, flows = jax.lax.scan(advance, first, winds)
        energies = [dynamics.stored_energy(turbine, state.plant) for state in (first, last)]
        return jnp.stack(energies), flows

    energies, flows = run(winds)
    return np.asarray(energies, np.float64), flows
