"""Campaigns at the command line: changes of what was recorded, how one is defined, and how light
the verbs are that fit nothing."""

import csv
import json
import re
import subprocess
import sys

import pytest

from twofold.campaign import Campaign, Continuous
from twofold.cli.report import default_place
from twofold.cli.terminal import MISTAKE

LIGHT = """
import shlex, sys
from twofold.cli.app import main
for words in [line for line in sys.stdin.read().splitlines() if line]:
    sys.argv = ["twofold", *shlex.split(words)]
    try: main()
    except SystemExit as stop: assert not stop.code, words
    heavy = {"jax", "sklearn", "scipy", "matplotlib", "pyarrow", "pandas"} & set(sys.modules)
    assert not heavy, (words, heavy)
"""
WORDS = """
--help
campaign init a.db --input x=0..1 --input rate=1e-3..1:log --output y --target y --quick
campaign tell a.db x=0.5 rate=0.1 y=1 --note "first of all"
campaign correct a.db 1 y=2
campaign remove a.db 1
campaign tell a.db x=0.5 rate=0.1 y=1
campaign status a.db
campaign export a.db --out all.csv
campaign cancel asked.db 1
campaign configure a.db
"""


def test_verbs_that_fit_nothing_load_no_heavy_library(tmp_path):
    Campaign.create(tmp_path / "asked.db", [Continuous("x", 0.0, 1.0)], ["y"]).ask()
    done = subprocess.run(
        [sys.executable, "-c", LIGHT], input=WORDS, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "Exit codes" in done.stdout and "1 complete" in done.stdout


@pytest.fixture
def oven(command, tmp_path):
    """A campaign with two proposals, of which the first was measured."""
    place = tmp_path / "oven.db"
    words = ["--input", "heat=20..80", "--input", "acid=0..10", "--output", "yield"]
    assert command("campaign", "init", place, *words)[0] == 0
    Campaign.open(place).ask(2)
    assert command("campaign", "tell", place, "--proposal", 1, "yield=7")[0] == 0
    return place


def exported(command, place):
    return list(csv.DictReader(command("campaign", "export", place)[1].splitlines()))


def test_a_value_is_corrected_with_a_note(command, oven):
    code, shown, _ = command("campaign", "correct", oven, 1, "yield=0.7", "--note", "misread")
    assert code == 0 and shown == "corrected measurement 1\n"
    (row,) = exported(command, oven)
    assert (row["yield"], row["note"]) == ("0.7", "misread")
    assert Campaign.open(oven).history()[0]["outputs"] == {"yield": 7.0}


def test_measurements_are_removed_and_proposals_cancelled(command, oven):
    assert command("campaign", "remove", oven, 1)[1] == "removed measurement 1\n"
    assert exported(command, oven) == []
    assert command("campaign", "cancel", oven, 1, 2)[1] == "cancelled proposals 1, 2\n"
    assert json.loads(command("campaign", "status", oven, "--json")[1])["pending"] == []


def test_a_table_of_past_results_starts_a_campaign(command, tmp_path, oven):
    """Without a column of proposals, in an order of its own, with notes."""
    table = tmp_path / "past.csv"
    table.write_text("note,yield,acid,heat\nold oven,0.5,1,30\n,0.6,2,40\n")
    assert "recorded 2" in command("campaign", "tell", oven, "--table", table)[1]
    rows = exported(command, oven)[1:]
    assert [(row["heat"], row["yield"], row["note"], row["proposal"]) for row in rows] == [
        ("30.0", "0.5", "old oven", ""),
        ("40.0", "0.6", "", ""),
    ]
    assert "2 were recorded before" in command("campaign", "tell", oven, "--table", table)[1]


def test_an_exported_table_with_notes_can_be_told_again(command, tmp_path, oven):
    table = tmp_path / "all.csv"
    command("campaign", "correct", oven, 1, "--note", "fine")
    assert command("campaign", "export", oven, "--out", table)[0] == 0
    assert "1 were recorded before" in command("campaign", "tell", oven, "--table", table)[1]


def test_a_campaign_with_constraints_a_log_scale_and_a_target(command, tmp_path):
    place = tmp_path / "mill.db"
    inputs = ["--input", "heat=20..80", "--input", "acid=0..10", "--input", "rate=1e-4..1e-1:log"]
    words = [*inputs, "--output", "yield", "--output", "cost", "--target", "cost"]
    limit = "heat + 2*acid <= 50"
    code, shown, said = command("campaign", "init", place, *words, "--constraint", limit, "--json")
    assert code == 0, said
    assert json.loads(shown)["constraints"] == [limit] and json.loads(shown)["target"] == "cost"
    campaign = Campaign.open(place)
    assert campaign.target == "cost" and campaign.space.inputs[2].log
    points = [one.point for one in campaign.ask(16)]
    assert all(point["heat"] + 2 * point["acid"] <= 50 for point in points)
    assert sum(point["rate"] < 1e-3 for point in points) >= 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("cancel", 1), "proposal 1 has a result, measurement 1; remove that instead"),
        (("cancel", 9), "there is no proposal 9"),
        (("remove", 9), "there is no measurement 9"),
        (("correct", 1, "heat=30"), "remove the measurement and record it again"),
        (("correct", 1), "give a new value of yield, or a note"),
        (("correct", 1, "yield=high"), "yield must be a number, got 'high'"),
        (("tell", "--table", "x.csv", "--note", "a"), "--note needs NAME=VALUE"),
        (("init", "--input", "x=0..1:log", "--output", "y"), "bounds above 0"),
        (("init", "--input", "x=0..1", "--output", "y", "--constraint", "x = 1"), "<= or >="),
        (("init", "--input", "x=0..1", "--output", "y", "--target", "z"), "target must be one"),
        (("init", "--input", "x=0..1", "--output", "note"), "note is the name of a column"),
    ],
)
def test_mistakes_are_one_sentence_and_change_nothing(command, oven, words, message):
    before = oven.read_bytes()
    code, _, shown = command("campaign", words[0], oven, *words[1:])
    assert code == MISTAKE and re.search(message, shown), shown
    assert len(shown.strip().splitlines()) == 1 and oven.read_bytes() == before


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("postgresql://me:secret@host:5432/oven?host=/tmp/x", "oven.html"),
        ("sqlite:////data/mill.db", "mill.html"),
        ("sqlite://", "campaign.html"),
    ],
)
def test_the_page_of_a_campaign_in_a_database_has_its_name(subject, name):
    assert str(default_place(subject, "campaign")) == name
