"""The shipped coefficients against CCBlade, where the extra ``wind`` is installed."""

import importlib.util
from pathlib import Path

import jax
import numpy as np
import pytest

from twofold.envs.wind.dynamics import nrel_5mw

SCRIPT = Path(__file__).parents[3] / "scripts" / "wind_tables.py"


@pytest.fixture
def precision():
    """As it was: wisdem switches JAX to float64 for good when it is imported."""
    before = jax.config.jax_enable_x64
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.usefixtures("precision")
def test_some_nodes_computed_anew():
    pytest.importorskip("wisdem", reason="wisdem, which brings CCBlade, is not installed")
    pytest.importorskip("rosco", reason="rosco, which brings the polars, is not installed")
    spec = importlib.util.spec_from_file_location("wind_tables", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    table, blades = nrel_5mw(), script.rotor()
    for ratio in (3.0, 5.5, 7.5, 9.0):
        row = np.flatnonzero(table.tip_speed_ratio == ratio)[0]
        torque, thrust = script.coefficients(blades, ratio)
        np.testing.assert_allclose(table.torque[row], torque, atol=1e-6)
        np.testing.assert_allclose(table.thrust[row], thrust, atol=1e-6)
