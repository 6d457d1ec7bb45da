"""The suite's tables, and the suite's gathering of records."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import suite
from benchmarks.tables import suite as suite_tables
from paper.records import Record

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
VALUES = {
    "floor/draws/cpu": 3.0,
    "milliseconds/draws/cpu": 0.25,
    "bound_by/draws/cpu": 2.0,
    "gain/draws/cpu": 2.5,
    "gain_milliseconds/draws/plain/cpu": 250.0,
    "gain_milliseconds/draws/own/cpu": 100.0,
    "difference/draws/cpu": 2e-6,
    "ratio/search/torch_eager": 1.6,
    "peak/operations_per_second/cpu": 170e9,
}


def test_tables_show_what_was_measured_and_leave_out_what_was_not(tmp_path):
    (tmp_path / "bench.json").write_text(json.dumps({"metrics": VALUES}))
    assert "| policy search update | PyTorch, eager | 1.6 |" in suite_tables.ratios(tmp_path)
    floors = suite_tables.floors(tmp_path)
    assert "| predictive draws, moments (a point) | 0.25 | 3.0 | memory | – | – | – |" in floors
    assert floors.count("\n") == 3
    assert "| two cores | 250 | 100 | 2.5 | 2e-06 |" in suite_tables.gains(tmp_path)
    assert "| 170 | – |" in suite_tables.peaks(tmp_path)
    assert "3.0 × floor" in suite_tables.terminal(tmp_path)


def test_the_suite_gathers_ratios(tmp_path):
    (tmp_path / "bench_search.json").write_text(json.dumps({"metrics": {"ratio/torch": 1.5}}))
    record = Record("bench", {}, [0])
    suite.gather(tmp_path, record)
    assert record.metrics == {"ratio/search/torch_eager": 1.5}


def test_every_script_is_part_of_the_suite():
    scripts = {path.stem for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text()}
    assert {*suite.PARTS, "suite"} == scripts


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """``measured(*words)`` runs the suite; the benchmarks themselves only leave a record."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(suite, "commit", lambda: "now")
    monkeypatch.delenv("TWOFOLD_COMMIT", raising=False)
    ran = []

    def call(words, **_):
        folder = Path(words[-1])
        ran.append(folder.name)
        record = Record("bench", {}, [0])
        record.metrics = {f"floor/{folder.name}/cpu": float(len(ran))}
        record.write(folder)
        (folder / "plot.png").write_bytes(b"drawn")
        return subprocess.CompletedProcess(words, 0)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["suite.py", *words])
        monkeypatch.setattr(suite.subprocess, "run", call)
        suite.main()
        return ran, json.loads((tmp_path / "results" / "bench.json").read_text())["metrics"]

    return run


def test_what_a_commit_has_measured_is_not_measured_again(measured, tmp_path, monkeypatch):
    assert measured("--only", "floors") == (["floors"], {"floor/floors/cpu": 1.0})
    assert measured("--only", "floors") == (["floors"], {"floor/floors/cpu": 1.0})
    assert (tmp_path / "results" / "plot.png").read_bytes() == b"drawn"
    monkeypatch.setattr(suite, "commit", lambda: "later")
    assert measured("--only", "floors")[0] == ["floors", "floors"]


def test_only_parts_that_were_asked_for_join(measured, tmp_path):
    measured("--only", "floors")
    newer = tmp_path / "results" / "bench.json"
    newer.write_text(newer.read_text().replace('cpu": 1.0', 'cpu": 7.0'))
    _, metrics = measured("--only", "gains")
    assert metrics == {"floor/floors/cpu": 7.0, "floor/gains/cpu": 2.0}
