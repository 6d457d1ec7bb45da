"""The baseline control against the report's numbers and a plain transcription of its loop."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

from twofold.envs.wind.controller import (
    Memory,
    Offsets,
    act,
    gain_factor,
    low_pass,
    region_torque,
    torque_demand,
    transition_speed,
)
from twofold.envs.wind.params import DEGREE, NREL_5MW, RPM, Control

CONTROL = Control()


def torque_at(rpm, pitch=0.0, offset=0.0):
    return float(torque_demand(CONTROL, jnp.array(rpm * RPM), jnp.array(pitch), jnp.array(offset)))


@pytest.mark.parametrize(
    ("rpm", "torque"),
    [
        (600.0, 0.0),  # Region 1
        (670.0, 0.0),
        (871.0, 0.0255764 * 871.0**2),  # End of region 1½
        (1000.0, 25_576.4),  # Region 2
        (1173.7, 43_093.55),  # Rated
        (1300.0, 5_296_610.0 / (1300.0 * RPM)),  # Region 3
    ],
)
def test_torque_at_speeds_of_the_report(x64, rpm, torque):
    assert torque_at(rpm) == pytest.approx(torque, rel=2e-5, abs=1e-6)


def test_torque_is_continuous_below_rated(x64):
    borders = [670 * RPM, 871 * RPM, transition_speed(CONTROL), 0.99 * 1173.7 * RPM]
    for border in borders:
        below, above = (
            torque_demand(CONTROL, jnp.array(border * (1 + side)), jnp.array(0.0), jnp.array(0.0))
            for side in (-1e-9, 1e-9)
        )
        assert abs(float(below - above)) < 1.0


def test_the_transition_is_where_parabola_and_line_meet(x64):
    end = 0.99 * CONTROL.rated_speed
    start = end / 1.1

    def gap(speed):
        line = 5_296_610.0 / end * (speed - start) / (end - start)
        return CONTROL.torque_gain * speed**2 - line

    assert transition_speed(CONTROL) == pytest.approx(brentq(gap, 1.01 * start, end), rel=1e-9)
    middle = (transition_speed(CONTROL) + end) / 2
    line = 5_296_610.0 / end * (middle - start) / (end - start)
    assert float(region_torque(CONTROL, jnp.array(middle))) == pytest.approx(line)


def test_pitched_blades_mean_constant_power(x64):
    assert torque_at(1000.0, pitch=2 * DEGREE) == pytest.approx(5_296_610.0 / (1000.0 * RPM))
    assert torque_at(1000.0, pitch=0.5 * DEGREE) == pytest.approx(25_576.4, rel=1e-5)


def test_offsets_scale_the_torque_up_to_the_rated_power(x64):
    assert torque_at(1000.0, offset=-0.1) == pytest.approx(0.9 * 25_576.4, rel=1e-5)
    assert torque_at(1000.0, offset=0.1) == pytest.approx(1.1 * 25_576.4, rel=1e-5)
    assert torque_at(1250.0, offset=0.2) == pytest.approx(5_296_610.0 / (1250.0 * RPM))
    assert torque_at(1250.0, offset=-0.2) == pytest.approx(0.8 * 5_296_610.0 / (1250.0 * RPM))


def test_the_filter_answers_a_step_with_an_exponential(x64):
    value, step = jnp.array(0.0), 0.05
    for _ in range(20):
        value = low_pass(CONTROL, value, jnp.array(1.0), step)
    assert float(value) == pytest.approx(1 - np.exp(-2 * np.pi * 0.25))


def test_gains_halve_where_the_rotor_answers_twice_as_strongly(x64):
    factors = [float(gain_factor(CONTROL, jnp.array(p * DEGREE))) for p in (0.0, 6.302336)]
    assert factors == pytest.approx([1.0, 0.5])


def naive_pitch_control(speeds, step):
    """The report's loop in Python: filter, scheduled gains, integral within its limits."""
    filtered, integral, pitch, found = speeds[0], 0.0, 0.0, []
    alpha = np.exp(-2 * np.pi * 0.25 * step)
    for speed in speeds:
        filtered = alpha * filtered + (1 - alpha) * speed
        gain = 1 / (1 + pitch / 0.1099965)
        error = filtered - 1173.7 * np.pi / 30
        integral += error * step
        integral = min(max(integral, 0.0), (np.pi / 2) / (gain * 0.008068634))
        pitch = gain * (0.01882681 * error + 0.008068634 * integral)
        pitch = min(max(pitch, 0.0), np.pi / 2)
        found.append(pitch)
    return found


def test_the_pitch_loop_equals_the_reports(x64, rng):
    speeds = 123 + 8 * np.sin(0.1 * np.arange(400)) + rng.normal(size=400)
    memory, found = Memory(*(jnp.array(v) for v in (speeds[0], 0.0, 0.0))), []
    for speed in speeds:
        nothing = Offsets(jnp.array(0.0), jnp.array(0.0))
        memory, commands = act(NREL_5MW, memory, jnp.array(speed), nothing)
        found.append(float(commands.pitch))
    np.testing.assert_allclose(found, naive_pitch_control(speeds, 0.05), rtol=2e-5, atol=1e-6)
    assert min(found) == 0.0 and max(found) > 0.05


def test_a_pitch_offset_is_added_and_not_integrated(x64):
    memory = Memory(*(jnp.array(v) for v in (1000 * RPM, 0.0, 0.0)))
    offsets = Offsets(jnp.array(-0.03), jnp.array(0.0))
    after, commands = act(NREL_5MW, memory, jnp.array(1000 * RPM), offsets)
    assert float(commands.pitch) == pytest.approx(-0.03) and float(after.integral) == 0.0


@pytest.mark.parametrize("name", ["torque_gain", "doubling_pitch"])
def test_gains_must_be_positive(name):
    with pytest.raises(ValueError, match=f"{name} must be positive, got 0"):
        Control(**{name: 0.0})
