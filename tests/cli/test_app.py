"""The command line as a user types it, in this process."""

import csv
import re
import warnings

import pytest

from twofold.campaign import Campaign, Categorical, Continuous, Integer
from twofold.cli import app as cli
from twofold.cli.campaign import parse_input
from twofold.cli.terminal import MISTAKE, parse_settings

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def place(tmp_path):
    return tmp_path / "oven.db"


@pytest.fixture
def twofold(monkeypatch, capsys):
    """Run a command; returns exit code, stdout and stderr."""

    def run(*words):
        monkeypatch.setattr("sys.argv", ["twofold", "campaign", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        shown = capsys.readouterr()
        return stopped.value.code or 0, shown.out, shown.err

    return run


@pytest.fixture
def oven(twofold, place):
    words = ("init", place, "--input", "heat=20..80", "--input", "acid=a|b", "--output", "yield")
    assert twofold(*words)[0] == 0
    return place


def fill_in(table, **columns):
    """Fill in a table as a spreadsheet would: other columns stay, numbers are shown rounded."""
    with table.open() as file:
        rows = list(csv.DictReader(file))
    for i, row in enumerate(rows):
        row |= {name: str(change(i, row)) for name, change in columns.items()}
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return rows


def test_inputs_and_settings_are_read_from_short_words():
    assert parse_input("heat=-1.5..2e1") == Continuous("heat", -1.5, 20.0)
    assert parse_input("stirs=1..4:int") == Integer("stirs", 1, 4)
    assert parse_input("acid=a | b") == Categorical("acid", ("a", "b"))
    found = parse_settings(["epochs=3", 'inference={"method": "alpha"}'])
    assert found == {"epochs": 3, "inference": {"method": "alpha"}}


def test_a_campaign_from_beginning_to_end(twofold, oven, tmp_path):
    proposals = tmp_path / "next.csv"
    assert twofold("ask", oven, "--num", 10, "--out", proposals)[0] == 0
    rows = fill_in(proposals, **{"yield": lambda i, _: 0.1 * i})
    assert [row["proposal"] for row in rows] == [str(i) for i in range(1, 11)]
    code, shown, _ = twofold("tell", oven, "--table", proposals)
    assert code == 0 and "recorded 10" in shown
    code, shown, _ = twofold("tell", oven, "yield=0.5", "heat=33", "acid=b")
    assert code == 0
    code, shown, _ = twofold("status", oven)
    assert code == 0 and "11 measurements, 11 complete" in shown and "ask once" in shown
    code, shown, _ = twofold("export", oven)
    exported = list(csv.DictReader(shown.splitlines()))
    assert len(exported) == 11
    assert exported[-1] == {
        "measurement": "11", "proposal": "", "heat": "33.0", "acid": "b", "yield": "0.5",
        "note": "",
    }  # fmt: skip


def test_a_table_is_told_again_when_more_of_it_is_filled_in(twofold, oven, tmp_path):
    table = tmp_path / "next.csv"
    twofold("ask", oven, "--num", 4, "--out", table)
    assert all(row["yield"] == "" for row in csv.DictReader(table.open()))
    fill_in(table, **{"yield": lambda i, _: i if i < 2 else ""})
    assert "recorded 2, 2 have no result yet\n" in twofold("tell", oven, "--table", table)[1]
    fill_in(table, **{"yield": lambda i, _: i})
    assert "recorded 2, 2 were recorded before\n" in twofold("tell", oven, "--table", table)[1]
    assert [row["yield"] for row in Campaign.open(oven).export()] == [0.0, 1.0, 2.0, 3.0]
    assert "recorded 4\n" in twofold("tell", oven, "--table", table, "--repeat")[1]
    fill_in(table, **{"yield": lambda i, _: i + 1})
    code, _, shown = twofold("tell", oven, "--table", table)
    assert code == MISTAKE and "yield = 0 of proposal 1 was recorded before, now 1" in shown


def test_inputs_that_a_spreadsheet_has_rounded_are_those_proposed(twofold, place, tmp_path):
    allowed, table = tmp_path / "allowed.csv", tmp_path / "next.csv"
    allowed.write_text("heat\n0.12345678\n0.87654321\n")
    words = ("--input", "heat=0..1", "--output", "yield", "--candidates", allowed)
    twofold("init", place, *words)
    twofold("ask", place, "--num", 2, "--out", table)
    columns = {"heat": lambda _, row: f"{float(row['heat']):.3f}", "yield": lambda i, _: i}
    fill_in(table, **columns)
    assert twofold("tell", place, "--table", table)[0] == 0
    heats = [row["heat"] for row in Campaign.open(place).export()]
    assert sorted(heats) == [0.12345678, 0.87654321]
    twofold("ask", place, "--out", table)
    fill_in(table, heat=lambda _, row: f"{float(row['heat']):.2f}", **{"yield": lambda i, _: i})
    code, _, shown = twofold("tell", place, "--table", table)
    assert code == MISTAKE and re.search("proposal 3 is at heat = .*, not at heat", shown)


def test_an_exported_table_takes_what_was_missing(twofold, place, tmp_path):
    table = tmp_path / "all.csv"
    twofold("init", place, "--input", "heat=0..1", "--output", "yield", "--output", "purity")
    for value in (0.25, 0.75):
        twofold("tell", place, "yield=1.23456789", f"heat={value}")
    twofold("export", place, "--out", table)
    columns = {"yield": lambda *_: "1.23457", "purity": lambda i, _: i}
    fill_in(table, **columns)
    assert "recorded 2\n" in twofold("tell", place, "--table", table)[1]
    rows = Campaign.open(place).export()
    assert [(row["yield"], row["purity"]) for row in rows] == [(1.23456789, 0.0), (1.23456789, 1.0)]


def test_proposals_of_a_model_say_what_is_known_and_why(twofold, place, tmp_path):
    small = ("inference=ensemble", "updates=20", "latent_dim=0", "members=2")
    words = [word for setting in small for word in ("--setting", setting)]
    twofold("init", place, "--input", "heat=20..80", "--output", "yield", *words)
    for i in range(6):
        twofold("tell", place, f"yield={i % 3}", f"heat={20 + 10 * i}")
    table = tmp_path / "next.csv"
    twofold("ask", place, "--num", 2, "--out", table)
    for row in csv.DictReader(table.open()):
        total, epistemic, aleatoric = (
            float(row[f"yield_{part}_sd"]) for part in ("total", "epistemic", "aleatoric")
        )
        assert epistemic**2 + aleatoric**2 == pytest.approx(total**2, rel=1e-3)
        assert float(row["information_nats"]) > 0 and "expected information gain" in row["reason"]
    fill_in(table, **{"yield": lambda i, _: i})
    assert "recorded 2" in twofold("tell", place, "--table", table)[1]
    shown = twofold("ask", place)[1]
    assert all(part in shown for part in ("yield total", "epistemic", "aleatoric", "information"))
    shown = twofold("status", place)[1]
    assert "█" in shown and "below 5%" in shown and "without a result" in shown


def test_settings_are_shown_and_changed(twofold, oven):
    assert "chains': 7" in twofold("configure", oven, "chains=7")[1]
    assert Campaign.open(oven).settings == {"inference": {"method": "langevin", "chains": 7}}
    assert "the defaults" in twofold("configure", oven)[1]


def test_a_warning_is_a_sentence(twofold, oven, monkeypatch):
    monkeypatch.setattr(
        Campaign, "export", lambda self: warnings.warn("mind this", stacklevel=1) or []
    )
    assert twofold("export", oven)[2] == "twofold: note: mind this\n"


def test_candidates_come_from_a_table(twofold, place, tmp_path):
    table = tmp_path / "allowed.csv"
    table.write_text("heat,acid\n30,a\n40,b\n")
    words = ("init", place, "--input", "heat=20..80", "--input", "acid=a|b", "--output", "yield")
    assert twofold(*words, "--candidates", table)[0] == 0
    assert Campaign.open(place).candidates == [
        {"heat": 30.0, "acid": "a"},
        {"heat": 40.0, "acid": "b"},
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("tell", "yeild=1", "heat=30", "acid=a"), "no column 'yeild'.*did you mean 'yield'"),
        (("tell", "yield=1", "heat=300", "acid=a"), "heat must lie between 20.0 and 80.0, got 300"),
        (("tell", "yield=high", "heat=30", "acid=a"), "yield must be a number, got 'high'"),
        (("tell", "yield", "heat=30"), "expected NAME=VALUE, got 'yield'"),
        (("tell",), "NAME=VALUE … or --table FILE"),
        (("tell", "--proposal", 7, "yield=1"), "there is no proposal 7"),
        (("tell", "proposal=7", "yield=1"), "there is no proposal 7"),
        (("tell", "proposal=1.5", "yield=1"), "proposal must be a whole number, got '1.5'"),
        (("tell", "proposal=nan", "yield=1"), "proposal must be a whole number, got 'nan'"),
        (("tell", "--proposal", 7, "--table", "x.csv"), "--proposal needs NAME=VALUE"),
        (("ask", "--out", "nowhere/next.csv"), "nowhere/next.csv cannot be written"),
        (("configure", "chains=0"), "chains must be an integer of at least 2, got 0"),
        (("ask", "--num", 0), "ask for at least 1 point, got 0"),
        (("init", "--input", "heat=20", "--output", "y"), "an input is NAME=LOW..HIGH"),
        (("init", "--input", "heat=9..2", "--output", "y"), "low < high"),
        (("init", "--input", "heat=1..2", "--output", "y"), "already contains"),
    ],
)
def test_mistakes_are_one_sentence_and_change_nothing(twofold, oven, words, message):
    before = oven.read_bytes()
    code, _, shown = twofold(words[0], oven, *words[1:])
    assert code == MISTAKE
    assert re.search(message, shown), shown
    assert len(shown.strip().splitlines()) == 1
    assert oven.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("heat,acid,yield\n", "has a heading but no rows"),
        ("heat,heat,yield\n1,2,3\n", "duplicate column names"),
        ("heat,acid,yield\n30,a,1\n31,a,nan\n", "line 3: yield must be a finite number"),
        ("heat,acid,yield\n30,a,1\n31,c,2\n", "line 3: acid must be one of a, b"),
        ("heat,acid,yield\n30,a,1,9\n", "line 2: 4 cells for 3 columns"),
        ("heat,acid,yeild\n30,a,1\n", "no column 'yeild', only"),
    ],
)
def test_a_table_with_one_wrong_row_leaves_the_campaign_as_it_was(
    twofold, oven, tmp_path, content, message
):
    table = tmp_path / "results.csv"
    table.write_text(content)
    code, _, shown = twofold("tell", oven, "--table", table)
    assert code == MISTAKE and message in shown
    assert Campaign.open(oven).export() == []


def test_a_missing_or_binary_table_is_named(twofold, oven, tmp_path):
    code, _, shown = twofold("tell", oven, "--table", tmp_path / "none.csv")
    assert code == MISTAKE and "none.csv cannot be read" in shown
    (tmp_path / "photo.csv").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    code, _, shown = twofold("tell", oven, "--table", tmp_path / "photo.csv")
    assert code == MISTAKE and "photo.csv is not a text file" in shown


def test_a_name_twice_or_two_numbers_are_refused(twofold, oven):
    twofold("ask", oven, "--num", "2")
    code, _, said = twofold("tell", oven, "yield=1", "yield=2", "heat=50", "acid=a")
    assert code == 2 and "duplicate name" in said
    code, _, said = twofold("tell", oven, "yield=1", "proposal=1", "--proposal", "2")
    assert code == 2 and "proposal=1 and --proposal 2 differ" in said
    assert twofold("export", oven)[1] == "measurement,proposal,heat,acid,yield,note\n"


def test_decimal_commas(twofold, oven, tmp_path):
    table = tmp_path / "results.csv"
    table.write_text("heat;acid;yield\n50,5;a;1,25\n60;b;-2\n")
    assert twofold("tell", oven, "--table", table)[0] == 0
    told = [(one["heat"], one["yield"]) for one in Campaign.open(oven).export()]
    assert told == [(50.5, 1.25), (60.0, -2.0)]


def test_semicolons_and_blank_rows(twofold, oven, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("heat;acid;yield\n50;a;1\n60;a;\n70;b;\n")
    assert "recorded 1, 2 have no result yet" in twofold("tell", oven, "--table", table)[1]


def test_columns_of_other_things_are_ignored_with_a_note(twofold, oven, tmp_path):
    table = tmp_path / "past.csv"
    table.write_text("heat,acid,operator,yield\n30,a,ann,1\n31,b,bob,2\n")
    _, shown, said = twofold("tell", oven, "--table", table)
    assert "recorded 2" in shown and "are ignored: operator" in said
