"""Waiting for the first fit: what is made of the times, and how a process is started."""

import json
import subprocess

import pytest

from benchmarks import first_fit
from benchmarks.tables import first_fit as first_fit_tables
from paper.records import Record

ANY = {"method": "any"}


def test_times_are_medians_of_the_repeats(tmp_path):
    record, repeats = Record("first_fit", {}, [0]), ((3.0, 1.0), (5.0, 2.0), (9.0, 0.5))
    times = [{"seconds": a, "seconds_warm": b, "import_seconds": a} for a, b in repeats]
    places = [f"{n}x{d}/{method}" for n, d in first_fit.SIZES for method in first_fit.METHODS]
    first_fit.add_times(record, dict.fromkeys(places, times))
    assert record.metrics["120x1/quick/seconds"] == 5.0
    assert record.metrics["1500x5/default/seconds_warm"] == 1.0
    assert record.metrics["import_seconds"] == 5.0
    record.write(tmp_path)
    table = first_fit_tables.tabulate_first_fits(tmp_path)
    assert table.splitlines()[-1] == "| 1,500 × 5 | 5.0 | 1.0 | 5.0 | 1.0 |"


def test_the_second_process_finds_the_programs_of_the_first(tmp_path, monkeypatch):
    folders = []

    def run(command, env, **_):
        folders.append(env["JAX_COMPILATION_CACHE_DIR"])
        assert json.loads(command[-1]) == ANY
        times = {"import_seconds": 1.0, "seconds": 10.0 / len(folders)}
        return subprocess.CompletedProcess(command, 0, f"a word before\n{json.dumps(times)}\n", "")

    monkeypatch.setattr(first_fit.subprocess, "run", run)
    found = first_fit.time_twice(120, 1, ANY)
    assert found == {"seconds": 10.0, "seconds_warm": 5.0, "import_seconds": 1.0}
    first_fit.time_twice(120, 1, ANY)
    assert folders[0] == folders[1] != folders[2] == folders[3]


def test_a_process_that_fails_says_why(monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", "no memory")
    monkeypatch.setattr(first_fit.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(RuntimeError, match=r"first_fit.py.*no memory"):
        first_fit.time_process(120, 1, ANY, "")
