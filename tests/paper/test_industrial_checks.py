"""What the original costs is measured, kept, and what the table shows."""

import json
from pathlib import Path

import numpy as np
import pytest

from paper import industrial_checks, systems
from paper.pieces import PIECES
from paper.records import Context, Record

ROOT = Path(__file__).parents[2]


def test_it_is_measured_and_numpy_is_as_before(tmp_path):
    pytest.importorskip("industrial_benchmark_python.IDS", reason="the original is not installed")
    record = industrial_checks.measure_original(Context(True, tmp_path, tmp_path))
    for policy in industrial_checks.POLICIES:
        assert 150 < record.metrics[f"industrial/original/{policy}/cost/mean"] < 350
    assert not hasattr(np, "float")


def test_without_the_original_its_extra_is_named(monkeypatch):
    monkeypatch.setattr(industrial_checks, "PACKAGE", "no_such_package")
    with pytest.raises(ImportError, match=r"pip install 'twofold\[dev\]'"):
        industrial_checks.load_plant()


@pytest.mark.parametrize(("value", "sign"), [(30.0, 1.0), (70.0, -1.0)])
def test_the_behaviour_pushes_back_to_the_middle(value, sign):
    rng = np.random.default_rng(0)
    actions = np.array(
        [industrial_checks.behaviour(rng, {"v": value, "g": 50.0}) for _ in range(4000)]
    )
    # N(0.5, 1/√3) clipped to [-1, 1] has mean 0.4386; within five standard errors.
    errors = 5 * actions.std(axis=0) / np.sqrt(len(actions))
    assert (np.abs(actions.mean(axis=0) - [sign * 0.4386, 0.0, 0.0]) < errors).all()
    assert np.abs(actions).max() == 1.0


def test_a_run_of_the_systems_keeps_it(tmp_path):
    for run, name in (("systems_original", "original/zero"), ("systems", "zero")):
        record = Record("systems", {}, [0])
        record.add(f"industrial/{name}/cost/mean", 240.0)
        path = record.merge(tmp_path, PIECES[run].keeps)
    assert len(json.loads(path.read_text())["metrics"]) == 2


def test_the_table_shows_what_was_recorded(tmp_path):
    values = json.loads((ROOT / "results/systems.json").read_text())["metrics"]
    values |= {"industrial/original/zero/cost/mean": 1.25, "industrial/original/zero/cost/se": 0.5}
    (tmp_path / "systems.json").write_text(json.dumps({"metrics": values}))
    assert "| zero | 1.2 ± 0.5 |" in systems.tabulate_costs(tmp_path)
