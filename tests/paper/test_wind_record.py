"""What is recorded of the turbine, and the table that is made of it."""

import json

import numpy as np
import pytest

from paper import systems
from paper.records import Record
from paper.systems import tabulate_wind
from paper.wind.checks import Gain
from twofold.envs.wind.task import PARAMS

FOUND = {
    0.1: Gain(-2.5, 5.0, -0.64, -0.66, 0.02, 0.001),
    0.0: Gain(-3.0, -10.0, -0.68, -0.697, 0.017, 0.0009),
}


@pytest.fixture
def record(monkeypatch):
    """A record of the turbine whose slow parts are known numbers."""
    errors = {
        "max_power_error": 0.0172,
        "max_pitch_error_deg": 0.376,
        "max_speed_error": 0.0026,
    }
    monkeypatch.setattr(systems, "steady_states", lambda: None)
    monkeypatch.setattr(systems, "steady_state_errors", lambda steady: errors)
    monkeypatch.setattr(systems, "energy_gap", lambda key: 4.8e-6)
    monkeypatch.setattr(systems, "fixed_offset_gain", lambda key, params: FOUND[params.load_weight])
    record = Record("systems", {}, [0])
    systems.measure_turbine(record)
    return record


def test_the_best_fixed_offset_is_recorded_with_and_without_a_load_penalty(record):
    assert PARAMS.load_weight == 0.1
    cases = {"wind/fixed_offset": FOUND[0.1], "wind/fixed_offset_no_load": FOUND[0.0]}
    for name, gain in cases.items():
        found = [record.metrics[f"{name}/{part}"] for part in ("pitch", "torque", "neutral_cost")]
        np.testing.assert_allclose(found, [gain.pitch, gain.torque, gain.neutral_cost])
        assert record.metrics[f"{name}_gain"] == gain.gain
        assert record.metrics[f"{name}_gain_se"] == gain.standard_error


def test_the_table_shows_the_record(record, tmp_path):
    (tmp_path / "systems.json").write_text(json.dumps({"metrics": record.metrics}))
    rows = dict(line.strip("| ").split(" | ") for line in tabulate_wind(tmp_path).splitlines()[2:])
    assert rows["largest error of the power, 5–25 m/s"] == "1.7%"
    assert rows["work on the drive train that is unaccounted for"] == "5e-06"
    assert rows["best fixed offset"] == "pitch −2.5°, torque 5 %"
    assert rows["cost of the neutral action, of rated power"] == "−0.640"
    assert rows["saved by the best fixed offset, of rated power"] == "0.0200 ± 0.0010"
    assert rows["saved by the best fixed offset, of the neutral cost"] == "3.1%"
    case = ", without a load penalty"
    assert rows[f"best fixed offset{case}"] == "pitch −3°, torque −10 %"
    assert rows[f"saved by the best fixed offset, of the neutral cost{case}"] == "2.5%"
