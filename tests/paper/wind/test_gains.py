"""Fixed offsets: the neutral action leaves something to gain."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from paper.wind.checks import TORQUES, fixed_offset_gain, surface
from twofold.envs.wind.params import NREL_5MW
from twofold.envs.wind.task import PARAMS


def test_the_best_fixed_offset_beats_the_neutral_one():
    found = fixed_offset_gain(jax.random.key(0), winds=20, pitches=(-2.0, 0.0), torques=(0.0, 10.0))
    assert found.pitch == -2.0
    assert found.gain == pytest.approx(found.neutral_cost - found.best_cost, abs=1e-6)
    assert found.gain > 4 * found.standard_error > 0
    assert found.gain > 0.01 * abs(found.neutral_cost)


def test_the_torques_reach_the_bounds_and_the_least_is_not_the_best():
    assert (TORQUES[0], TORQUES[-1]) == (-PARAMS.torque_bound, PARAMS.torque_bound)
    keys = jax.random.split(jax.random.key(1), 24)
    least, neutral = surface(keys, pitches=(-2.5,), torques=(TORQUES[0], 0.0))[0]
    lost = least - neutral
    assert lost.mean() > 4 * lost.std(ddof=1) / np.sqrt(24)


@pytest.mark.slow
def test_on_the_well_tuned_machine_a_lower_pitch_gains_no_power():
    tuned = replace(PARAMS, turbine=NREL_5MW, load_weight=0.0)
    costs = surface(jax.random.split(jax.random.key(1), 24), tuned, (-2.0, 0.0, 2.0), (0.0,))
    saved = costs[1, 0] - costs[[0, 2], 0]
    assert (saved.mean(axis=-1) < 4 * saved.std(axis=-1, ddof=1) / np.sqrt(24)).all()
    assert (saved.mean(axis=-1) < 0.002).all()


def test_one_wind_has_no_standard_error():
    with pytest.raises(ValueError, match="winds must be 2 or more for a standard error, got 1"):
        fixed_offset_gain(jax.random.key(0), winds=1)
