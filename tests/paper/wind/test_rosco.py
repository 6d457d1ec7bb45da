"""The turbine under NREL's ROSCO library and under its baseline, where ROSCO is installed."""

import re
import sys

import numpy as np
import pytest

from paper.wind import rosco

WINDS = np.array([8.0, 9.0, 10.0, 12.0, 15.0, 20.0, 25.0])
SECONDS = 90.0


def test_without_rosco_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "rosco", None)
    with pytest.raises(
        ImportError, match=r"rosco, which is not installed; pip install 'twofold\[wind\]'"
    ):
        rosco.load("rosco")


def test_stairs_hold_each_wind():
    series = rosco.stairs(np.array([5.0, 6.0]), 10.0)
    assert len(series) == 400 and series[199] == 5.0 and series[200] == 6.0


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    pytest.importorskip("rosco", reason="rosco is not installed (extra wind)")
    series = rosco.stairs(WINDS, SECONDS)
    folder = tmp_path_factory.mktemp("rosco")
    return rosco.rosco_run(folder, series), rosco.baseline_run(series)


def settled(run):
    """Means over the last ten seconds in each wind."""
    return {
        name: getattr(run, name).reshape(len(WINDS), -1)[:, -200:].mean(axis=1)
        for name in ("rotor_speed", "pitch", "power")
    }


def test_the_input_file_carries_the_flags(tmp_path):
    pytest.importorskip("rosco", reason="rosco is not installed (extra wind)")
    text = rosco.write_input(tmp_path).read_text()
    for flag, value in rosco.FLAGS.items():
        assert re.search(rf"^{value}\s+! {flag}\b", text, re.MULTILINE)


def test_both_controllers_bring_the_turbine_to_the_same_state(runs):
    theirs, ours = (settled(run) for run in runs)
    # Below rated ROSCO's torque gain is 0.9 % smaller than the report's: a little more speed at
    # almost the same power, for power is flat at its peak. Above rated both hold 12.1 rpm, 5 MW.
    np.testing.assert_allclose(ours["power"], theirs["power"], rtol=2e-3)
    np.testing.assert_allclose(ours["rotor_speed"], theirs["rotor_speed"], rtol=6e-3)
    np.testing.assert_allclose(ours["pitch"], theirs["pitch"], atol=0.05)
