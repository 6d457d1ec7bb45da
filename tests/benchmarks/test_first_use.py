"""Waiting at the command line: processes timed, folders prepared, and what is made of it."""

import csv
import json
import os

import numpy as np
import pytest

from benchmarks import first_use
from benchmarks.tables import first_use as tables
from paper.records import Record
from twofold.campaign import Campaign


def test_a_command_is_timed_and_one_that_fails_says_why(tmp_path):
    found = first_use.run_command(["--version"], tmp_path, tmp_path)
    assert found["out"].startswith("twofold ") and 0 < found["cpu"] < 60 and found["wall"] > 0
    with pytest.raises(RuntimeError, match=r"twofold report nothing failed: .*nothing"):
        first_use.run_command(["report", "nothing"], tmp_path, tmp_path)


def test_the_second_run_finds_the_same_folder_and_the_programs_of_the_first(monkeypatch):
    seen = []

    def run(words, folder, cache):
        assert words == ["fit"] and (folder / "table.csv").read_text() == "x\n"
        (folder / "table.csv").unlink()
        seen.append(cache)
        return {"wall": 10.0 / len(seen), "cpu": 1.0, "said": "", "out": ""}

    monkeypatch.setattr(first_use, "run_command", run)
    found = first_use.time_twice(lambda folder: (folder / "table.csv").write_text("x\n"), ["fit"])
    assert found["cold"] == 10.0 and found["wall"] == 5.0 and seen[0] == seen[1]


def test_the_size_of_a_page_is_recorded_and_how_long_it_took(tmp_path):
    (tmp_path / "a.html").write_text("x" * 1500)
    (tmp_path / "a.html.record.json").write_text('{"times": {"page": 2.5}}')
    found = first_use.describe_page(tmp_path)
    assert found == {"kilobytes": 1.5, "page_seconds": 2.5}
    record = Record("first_use", {}, [0])
    first_use.add_command(record, "report", found | {"wall": 3.0, "cpu": 4.0, "cold": 5.0})
    assert (
        record.metrics["report/kilobytes"] == 1.5 and record.metrics["report/page_seconds"] == 2.5
    )


def test_choices_agree_where_the_other_model_would_learn_as_much(monkeypatch):
    nats = {"warm": np.array([0.0, 2.0, 1.0]), "cold": np.array([4.0, 3.0, 1.0])}
    monkeypatch.setattr(first_use, "expected_information", lambda model, _: nats[model])
    assert first_use.compare_choices("warm", "cold", np.zeros((3, 1))) == 0.75


def test_a_fit_is_recorded_with_its_warnings_and_score():
    record = Record("first_use", {}, [0])
    metrics = {"out-of-bag log-likelihood (nats)": -0.5}
    out = json.dumps({"doubts": ["one"], "metrics": metrics})
    found = {"wall": 2.0, "cpu": 3.0, "cold": 4.0, "said": "twofold: note: two\n", "out": out}
    first_use.add_command(record, "fit/120/quick", found)
    assert record.metrics["fit/120/quick/wall_seconds"] == 2.0
    assert record.metrics["fit/120/quick/cold/wall_seconds"] == 4.0
    assert record.metrics["fit/120/quick/warnings"] == 2.0
    assert record.metrics["fit/120/quick/out_of_bag_log_likelihood"] == -0.5


def test_folders_hold_what_the_commands_read(tmp_path):
    first_use.prepare_table(500)(tmp_path)
    rows = list(csv.DictReader((tmp_path / "table.csv").open()))
    assert len(rows) == 500 and len(rows[0]) == 11
    first_use.write_log(tmp_path / "log.csv", 450)
    rows = list(csv.DictReader((tmp_path / "log.csv").open()))
    assert [int(row["run"]) for row in rows[::200]] == [0, 1, 2]
    assert all(0.0 <= float(row["flow"]) <= 2.0 for row in rows)
    first_use.prepare_campaign(0, True)(tmp_path)
    assert Campaign.open(tmp_path / "oven.db").status().complete == 40
    assert os.path.getsize(tmp_path / "oven.db") > 0


def test_a_campaign_is_compared_with_as_many_random_points(monkeypatch):
    told = []
    tell = Campaign.tell

    def count(self, *arguments, **options):
        told.append(self.model_file)
        return tell(self, *arguments, **options)

    monkeypatch.setattr(Campaign, "tell", count)
    found = first_use.run_campaign("wave", 0, 1, True)
    assert len(told) == 2 * (first_use.FIRST + first_use.EACH)
    assert all(np.isfinite(value) for value in found.values()) and found["over_random"] > 0


def test_tables_have_a_row_for_each_command_and_problem(tmp_path):
    record = Record("first_use", {}, [0])
    out = json.dumps({"doubts": [], "metrics": {"out-of-bag log-likelihood (nats)": -0.5}})
    found = {"wall": 2.0, "cpu": 3.0, "cold": 4.0, "said": "", "out": out}
    for name in ("fit/1500/quick", *tables.COMMANDS):
        first_use.add_command(record, name, found)
    for name in first_use.PROBLEMS:
        for part in ("first_nats", "last_nats", "rmse_over_random"):
            record.add_mean(f"campaign/{name}/{part}", [0.5, 0.7])
    record.write(tmp_path)
    lines = tables.tabulate_commands(tmp_path).splitlines()
    assert lines[2] == "| `fit --quick`, 1,500 rows | 2.0 | 3.0 | 4.0 |"
    assert len(lines) == 2 + 1 + len(tables.COMMANDS)
    assert tables.tabulate_campaigns(tmp_path).splitlines()[-1].startswith("| ridge | 0.6")
