"""The closed loop in constant wind against the published steady states."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paper.wind import published
from paper.wind.checks import WINDS, steady_state_errors, steady_states
from twofold.envs.wind import controller, dynamics
from twofold.envs.wind.params import NREL_5MW


@pytest.fixture(scope="module")
def states():
    return steady_states()


def test_steady_states_are_the_published_ones_from_5_to_25_metres_a_second(states):
    assert states.wind[0] == 5 and states.wind[-1] == 25 and len(states.wind) == 21
    errors = steady_state_errors(states)
    assert set(errors) == {"max_power_error", "max_pitch_error_deg", "max_speed_error"}
    assert errors["max_power_error"] < 0.03
    assert errors["max_speed_error"] < 0.03
    assert errors["max_pitch_error_deg"] < 0.5


def test_the_thrust_is_the_published_force_less_the_rotors_weight(states):
    expected = (published.ROTOR_FORCE - published.WEIGHT)[np.isin(published.WIND, states.wind)]
    np.testing.assert_allclose(states.thrust, expected, rtol=0.03)


def test_rated_is_reached_at_the_published_wind():
    at, above = steady_states(np.array([11.4, 11.6])).power
    assert abs(at / 5000 - 1) < 0.03 and above == pytest.approx(5000, rel=1e-3)


def test_pitch_angles_of_the_report():
    # The values most often quoted.
    for wind, pitch in {12: 3.83, 15: 10.45, 20: 17.47, 25: 23.47}.items():
        assert published.PITCH[wind == published.WIND][0] == pytest.approx(pitch, abs=0.01)


def test_longer_waiting_changes_nothing(states):
    longer = steady_states(seconds=900.0)
    np.testing.assert_allclose(longer.power, states.power, rtol=1e-3)
    np.testing.assert_allclose(longer.pitch, states.pitch, atol=0.01)


def test_the_start_is_close_to_the_steady_state(states):
    table = dynamics.nrel_5mw()
    begin = jax.vmap(lambda wind: controller.start(NREL_5MW, table, wind))(jnp.array(WINDS))
    np.testing.assert_allclose(begin.plant.rotor_speed * 30 / np.pi, states.rotor_speed, rtol=0.01)


def test_winds_without_a_published_state_are_named(states):
    other = states._replace(wind=states.wind + 0.5)
    with pytest.raises(ValueError, match=r"whole winds from 3 to 25 m/s, got \[5.5"):
        steady_state_errors(other)
