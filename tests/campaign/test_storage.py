"""The database: what is no campaign, several processes at once, and other places than a file."""

import multiprocessing
import sqlite3

import pytest
from sqlalchemy.dialects import postgresql

from tests.campaign.conftest import INPUTS
from twofold.campaign import Campaign, CampaignError
from twofold.campaign.storage import TURN

pytestmark = [
    pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 100])
def test_files_that_are_no_campaign_are_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "c.db"
    path.write_bytes(content)
    with pytest.raises(CampaignError, match=r"c\.db"):
        Campaign.open(path)
    assert path.read_bytes() == content


def test_foreign_databases_newer_versions_and_missing_files_are_refused(tmp_path):
    with pytest.raises(CampaignError, match="there is no campaign at"):
        Campaign.open(tmp_path / "missing.db")
    assert not (tmp_path / "missing.db").exists()
    with sqlite3.connect(tmp_path / "foreign.db") as connection:
        connection.execute("CREATE TABLE birds (name TEXT)")
    with pytest.raises(CampaignError, match="without a campaign"):
        Campaign.open(tmp_path / "foreign.db")
    with pytest.raises(CampaignError, match="already contains birds"):
        Campaign.create(tmp_path / "foreign.db", INPUTS, ["y"])
    Campaign.create(tmp_path / "new.db", INPUTS, ["y"])
    with sqlite3.connect(tmp_path / "new.db") as connection:
        connection.execute("UPDATE twofold_campaign SET value = '4' WHERE name = 'version'")
    with pytest.raises(CampaignError, match="schema version 4, this twofold reads 1"):
        Campaign.open(tmp_path / "new.db")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("value = '\"two\"' WHERE name = 'version'", "damaged: its version is 'two'"),
        ("value = '0' WHERE name = 'version'", "damaged: its version is 0"),
        ("value = '{' WHERE name = 'definition'", "damaged: its definition is missing or cannot"),
        ("name = 'gone' WHERE name = 'definition'", "damaged: its definition is missing or cannot"),
    ],
)
def test_damaged_campaigns_are_refused(tmp_path, change, message):
    Campaign.create(tmp_path / "c.db", INPUTS, ["y"])
    with sqlite3.connect(tmp_path / "c.db") as connection:
        connection.execute(f"UPDATE twofold_campaign SET {change}")
    with pytest.raises(CampaignError, match=message):
        Campaign.open(tmp_path / "c.db")


def test_a_place_may_be_a_url(tmp_path):
    url = f"sqlite:///{tmp_path / 'c.db'}"
    Campaign.create(url, INPUTS, ["y"]).tell({"y": 1.0}, point={"x": 0.0, "side": "left"})
    assert Campaign.open(tmp_path / "c.db").export() == Campaign.open(url).export()
    with pytest.raises(CampaignError, match="neither a path nor a database URL"):
        Campaign.open("no such://place")


def test_writers_to_another_database_take_turns_too():
    assert "FOR UPDATE" in str(TURN.compile(dialect=postgresql.dialect()))


def tell_many(path, start, count):
    campaign = Campaign.open(path)
    for i in range(start, start + count):
        campaign.tell({"y": float(i)}, point={"x": 0.0, "side": "left"})


def ask_many(path, count):
    campaign = Campaign.open(path)
    for _ in range(count):
        campaign.ask(2)


def run_at_once(target, arguments):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=target, args=args) for args in arguments]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0


def test_processes_that_tell_at_once_lose_nothing(tmp_path):
    path = tmp_path / "c.db"
    Campaign.create(path, INPUTS, ["y"])
    run_at_once(tell_many, [(path, 100 * i, 25) for i in range(4)])
    told = sorted(row["y"] for row in Campaign.open(path).export())
    assert told == sorted(float(100 * i + j) for i in range(4) for j in range(25))


def test_processes_that_ask_at_once_get_different_points(tmp_path):
    path = tmp_path / "c.db"
    Campaign.create(path, INPUTS, ["y"])
    run_at_once(ask_many, [(path, 5)] * 4)
    proposals = Campaign.open(path).pending()
    assert [proposal.number for proposal in proposals] == list(range(1, 41))
    assert len({str(proposal.point) for proposal in proposals}) == 40
