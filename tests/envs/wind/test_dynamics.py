"""Drive train, tower and actuators against SciPy, closed forms and the balance of energy."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from paper.wind.energy import flows, stored_energy
from twofold.envs.wind import dynamics
from twofold.envs.wind.dynamics import (
    Commands,
    Plant,
    limit,
    step,
    tower_moment,
)
from twofold.envs.wind.params import DEGREE, NREL_5MW, Actuators, Turbine

RUNNING = Plant(1.2, 97 * 1.19, 0.004, 0.3, 0.1, 2.0 * DEGREE, 38_000.0)


LOADS = jax.jit(partial(dynamics.loads, NREL_5MW.rotor, dynamics.nrel_5mw()))


def floats(plant):
    return jax.tree.map(lambda value: jnp.asarray(value, float), plant)


def trajectory(turbine, plant, wind, commands, steps):
    """The states after each time step."""
    advance = partial(
        step, turbine, dynamics.nrel_5mw(), wind=jnp.asarray(wind), commands=floats(commands)
    )

    @jax.jit
    def run(plant):
        return jax.lax.scan(lambda p, _: (advance(p),) * 2, plant, length=steps)[1]

    return jax.tree.map(np.array, run(floats(plant)))


def naive_derivative(time, state, wind, pitch_command, torque_command):
    """The report's numbers once more, in NumPy."""
    rotor, generator, twist, position, velocity, pitch, torque = state
    felt = (jnp.asarray(value) for value in (rotor, pitch, wind - velocity))
    aerodynamic, thrust = LOADS(*felt)
    shaft = 867_637_000.0 * twist + 6_215_000.0 * (rotor - generator / 97.0)
    omega = 2 * np.pi * 0.324
    acceleration = float(thrust) / 403_983.0 - omega**2 * position - 0.02 * omega * velocity
    rate = np.radians(8.0)
    return [
        (float(aerodynamic) - shaft) / 38_759_228.0,
        (shaft / 97.0 - torque) / 534.116,
        rotor - generator / 97.0,
        velocity,
        acceleration,
        np.clip((pitch_command - pitch) / 0.2, -rate, rate),
        np.clip((torque_command - torque) / 0.1, -15_000.0, 15_000.0),
    ]


def test_two_seconds_equal_scipys_integration(x64):
    # Commands 0.05° and 500 N·m away: no rate limit is met, so that the right side stays smooth.
    arguments = (11.0, 2.05 * DEGREE, 38_500.0)
    found = trajectory(
        replace(NREL_5MW, time_step=0.01), RUNNING, 11.0, Commands(*arguments[1:]), 200
    )
    reference = solve_ivp(naive_derivative, (0, 2), RUNNING, args=arguments, rtol=1e-9, atol=1e-9)
    last = [value[-1] for value in found]
    np.testing.assert_allclose(last, reference.y[:, -1], rtol=2e-5, atol=1e-6)


def test_energy_of_the_drive_train_balances(x64):
    turbine = replace(NREL_5MW, time_step=0.005)
    plants = trajectory(turbine, RUNNING, 11.0, Commands(3 * DEGREE, 30_000.0), 4000)
    table = dynamics.nrel_5mw()
    parts = jax.vmap(lambda plant: flows(turbine, table, plant, jnp.array(11.0)))(plants)
    energy = jax.vmap(partial(stored_energy, turbine))(plants)
    work = np.trapezoid(parts.aerodynamic, dx=turbine.time_step)
    out = np.trapezoid(parts.generator + parts.damping, dx=turbine.time_step)
    change = energy[-1] - energy[0]
    # The trapezoidal rule leaves (Δt · 14 rad/s)² / 12 = 4e-4 of what the torsion moves, which is
    # itself less than a thousandth of the work.
    assert work > 5e7 and abs(work - out - change) < 4e-7 * work
    np.testing.assert_allclose(parts.electric, 0.944 * parts.generator)


def test_the_tower_swings_at_its_frequency_and_dies_out_with_its_damping(x64):
    still = Plant(0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
    calm = trajectory(NREL_5MW, still, 0.0, Commands(0.0, 0.0), 1000)
    time, omega = 0.05 * (1 + np.arange(1000)), 2 * np.pi * 0.324
    damped = omega * np.sqrt(1 - 1e-4)
    decay = np.exp(-0.01 * omega * time)
    expected = decay * (np.cos(damped * time) + 0.01 / np.sqrt(1 - 1e-4) * np.sin(damped * time))
    # In calm air the rotor stands still; moving against it only the tower's own air would matter.
    np.testing.assert_allclose(calm.tower_position, expected, atol=0.02)


def test_the_shaft_twists_at_its_frequency(x64):
    wound = Plant(0.0, 0.0, 1e-3, 0.0, 0.0, 0.0, 0.0)
    twist = trajectory(
        replace(NREL_5MW, time_step=0.01), wound, 0.0, Commands(0.0, 0.0), 2000
    ).twist
    inertia = 1 / (1 / 38_759_228.0 + 1 / (97.0**2 * 534.116))
    omega = np.sqrt(867_637_000.0 / inertia)
    ratio = 6_215_000.0 / (2 * inertia * omega)
    time, damped = 0.01 * (1 + np.arange(2000)), omega * np.sqrt(1 - ratio**2)
    wave = np.cos(damped * time) + ratio / np.sqrt(1 - ratio**2) * np.sin(damped * time)
    np.testing.assert_allclose(twist, 1e-3 * np.exp(-ratio * omega * time) * wave, atol=1e-6)


def test_actuators_keep_their_rates_and_range():
    far = Commands(80 * DEGREE, 60_000.0)
    found = trajectory(NREL_5MW, RUNNING._replace(torque=0.0), 11.0, far, 200)
    assert np.diff(found.pitch).max() <= 8 * DEGREE * 0.05 * 1.001
    assert np.diff(found.torque).max() <= 15_000 * 0.05 * 1.001
    np.testing.assert_allclose(found.torque[-1], 47_402.91, rtol=1e-5)
    lowest = limit(Actuators(), floats(Commands(-1.0, -5.0)))
    np.testing.assert_allclose(lowest, [-5 * DEGREE, 0.0], rtol=1e-6)


def test_the_moment_at_the_foot_balances_a_steady_thrust(x64):
    force = 5e5
    leaning = floats(RUNNING)._replace(
        tower_position=force / NREL_5MW.tower.stiffness, tower_velocity=jnp.zeros(())
    )
    np.testing.assert_allclose(tower_moment(NREL_5MW, leaning), 90.0 * force)


@pytest.mark.parametrize("size", [0.0, -0.1, 0.5])
def test_a_time_step_that_misses_the_torsion_is_refused(size):
    with pytest.raises(ValueError, match=r"time_step must lie in \(0, 0.1\] s"):
        Turbine(time_step=size)
