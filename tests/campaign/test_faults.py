"""A process killed while it asks or tells loses nothing that it was told.

``benchmarks/campaign_faults.py`` does it more often and keeps the record; here it runs as a command
with fewer kills, and its examination is shown to find what it looks for.
"""

import importlib.util
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "campaign_faults.py"


@pytest.fixture(scope="module")
def faults():
    spec = importlib.util.spec_from_file_location("campaign_faults", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("tells", "asks"), [(4, 1), pytest.param(44, 6, marks=pytest.mark.slow)])
def test_kills_lose_no_result(tmp_path, tells, asks):
    words = [SCRIPT, "--tell", str(tells), "--ask", str(asks), "--output", tmp_path]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "campaign_faults.json").read_text())["metrics"]
    assert metrics["tell/kills"] >= tells and metrics["ask/kills"] >= asks
    assert metrics["results_acknowledged"] > tells
    wrong = ("results_lost", "results_spoilt", "proposals_lost", "unusable")
    assert {name: metrics[name] for name in wrong} == dict.fromkeys(wrong, 0)


@pytest.mark.parametrize(
    ("statement", "lost", "spoilt"),
    [
        ("DELETE FROM measurement WHERE number = 2", {1}, set()),
        ('UPDATE measurement SET outputs = \'{"y": 1.0, "w": 5.0}\' WHERE number = 2', set(), {1}),
        ('UPDATE measurement SET outputs = \'{"y": 2.0, "w": -2.0}\' WHERE number = 2', {1}, {2}),
    ],
)
def test_what_is_lost_or_spoilt_is_found(faults, tmp_path, statement, lost, spoilt):
    place, log = tmp_path / "c.db", faults.Log(tmp_path / "log")
    campaign = faults.Campaign.create(place, faults.INPUTS, faults.OUTPUTS)
    for proposal in campaign.ask(3):
        faults.tell(campaign, log, proposal=proposal.number)
    assert faults.examine(place, log, ask=True) == (set(), set(), set(), False)
    with sqlite3.connect(place) as connection:
        connection.execute(statement)
    found = faults.examine(place, log, ask=False)
    assert (found.lost, found.spoilt, found.unusable) == (lost, spoilt, False)


def test_a_campaign_that_cannot_be_opened_is_found(faults, tmp_path):
    log = faults.Log(tmp_path / "log")
    log.say("told", 7)
    (tmp_path / "c.db").write_bytes(b"rubbish" * 100)
    assert faults.examine(tmp_path / "c.db", log, ask=True) == ({7}, set(), set(), True)
