"""The drive train's energy in turbulence: what is missing is the rule's error alone."""

from dataclasses import replace

import jax
import pytest

from paper.wind.checks import energy_gap
from twofold.envs.wind.params import NREL_5MW


def test_the_gap_is_small_at_the_usual_time_step():
    assert energy_gap(jax.random.key(0)) < 1e-4


def test_the_gap_falls_with_the_square_of_the_time_step(x64):
    # A flow left out or counted twice would leave a gap that no time step closes.
    sizes = (0.05, 0.025, 0.0125)
    gaps = [energy_gap(jax.random.key(0), replace(NREL_5MW, time_step=size)) for size in sizes]
    assert gaps[0] / gaps[1] == pytest.approx(4.0, rel=0.1)
    assert gaps[1] / gaps[2] == pytest.approx(4.0, rel=0.1)
