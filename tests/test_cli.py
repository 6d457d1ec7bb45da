"""The command line as a user types it, in this process."""

import csv
import re

import pytest

from twofold import cli
from twofold.campaign import Campaign, Categorical, Continuous, Integer

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


def test_inputs_are_read_from_short_words():
    assert cli.parse_input("heat=-1.5..2e1") == Continuous("heat", -1.5, 20.0)
    assert cli.parse_input("stirs=1..4:int") == Integer("stirs", 1, 4)
    assert cli.parse_input("acid=a|b") == Categorical("acid", ("a", "b"))


def test_a_campaign_from_beginning_to_end(twofold, oven, tmp_path):
    proposals = tmp_path / "next.csv"
    assert twofold("ask", oven, "--num", 10, "--csv", proposals)[0] == 0
    with proposals.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["proposal"] for row in rows] == [str(i) for i in range(1, 11)]
    assert all(row["yield"] == "" for row in rows)
    for i, row in enumerate(rows):
        row["yield"] = str(0.1 * i)
    with proposals.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    code, shown, _ = twofold("tell", oven, "--csv", proposals)
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
    }  # fmt: skip


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
        (("tell",), "tell NAME=VALUE …, or --csv FILE"),
        (("tell", "--proposal", 7, "yield=1"), "there is no proposal 7"),
        (("ask", "--num", 0), "ask for at least 1 point, got 0"),
        (("init", "--input", "heat=20", "--output", "y"), "an input is NAME=LOW..HIGH"),
        (("init", "--input", "heat=9..2", "--output", "y"), "low < high"),
        (("init", "--input", "heat=1..2", "--output", "y"), "already holds"),
    ],
)
def test_mistakes_are_one_sentence_and_change_nothing(twofold, oven, words, message):
    before = oven.read_bytes()
    code, _, shown = twofold(words[0], oven, *words[1:])
    assert code == cli.BAD_INPUT
    assert re.search(message, shown), shown
    assert len(shown.strip().splitlines()) == 1
    assert oven.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("heat,acid,yield\n", "has a heading but no rows"),
        ("heat,heat,yield\n1,2,3\n", "two columns of one name"),
        ("heat,acid,yield\n30,a,1\n31,a,nan\n", "line 3: yield must be a finite number"),
        ("heat,acid,yield\n30,a,1\n31,c,2\n", "line 3: acid must be one of a, b"),
        ("heat,acid,yield\n30,a,1,9\n", "line 2: 4 cells for 3 columns"),
        ("heat,acid,colour\n30,a,red\n", "no column 'colour'"),
    ],
)
def test_a_table_with_one_wrong_row_leaves_the_campaign_as_it_was(
    twofold, oven, tmp_path, content, message
):
    table = tmp_path / "results.csv"
    table.write_text(content)
    code, _, shown = twofold("tell", oven, "--csv", table)
    assert code == cli.BAD_INPUT and message in shown
    assert Campaign.open(oven).export() == []


def test_a_missing_or_binary_table_is_named(twofold, oven, tmp_path):
    code, _, shown = twofold("tell", oven, "--csv", tmp_path / "none.csv")
    assert code == cli.BAD_INPUT and "none.csv cannot be read" in shown
    (tmp_path / "photo.csv").write_bytes(b"\xff\xfe\x00\x81")
    code, _, shown = twofold("tell", oven, "--csv", tmp_path / "photo.csv")
    assert code == cli.BAD_INPUT and "photo.csv cannot be read" in shown
