"""Campaigns in a PostgreSQL server of their own, in a temporary folder."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import sqlalchemy as sql

from tests.campaign.conftest import INPUTS
from twofold.campaign import Campaign, CampaignError

BINARIES = [Path(shutil.which("initdb") or "none").resolve().parent]
BINARIES += sorted(Path("/usr/lib/postgresql").glob("*/bin"))
TELL_AND_ASK = """
import sys
from twofold.campaign import Campaign
campaign = Campaign.open(sys.argv[1])
for i in range(10):
    campaign.tell({"y": int(sys.argv[2]) + i}, point={"x": 0.0, "side": "left"})
    campaign.ask(2)
"""


def find_user():
    """Whom the server runs as, which must not be root: us, or else one without privileges."""
    if os.getuid():
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("PostgreSQL does not run as root, and there is no user postgres or nobody")


@pytest.fixture(scope="module")
def url():
    """An empty database called oven."""
    psycopg = pytest.importorskip("psycopg")
    binaries = next((one for one in BINARIES if (one / "pg_ctl").exists()), None)
    if binaries is None:
        pytest.skip("initdb and pg_ctl of PostgreSQL were not found")
    user = find_user()
    rights = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    with tempfile.TemporaryDirectory(prefix="twofold-") as folder:
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        data = f"{folder}/data"

        def run(program, *words):
            command = [binaries / program, "-D", data, *words]
            subprocess.run(
                command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                cwd=folder, timeout=120, **rights,
            )  # fmt: skip

        run("initdb", "--no-sync", "--auth=trust", "--username=twofold", "--encoding=UTF8")
        run("pg_ctl", "-w", "-l", f"{folder}/log", "-o", f"-F -k {folder} -h ''", "start")
        try:
            place = f"host={folder} user=twofold dbname=postgres"
            with psycopg.connect(place, autocommit=True) as connection:
                connection.execute("CREATE DATABASE oven")
            yield f"postgresql://twofold@/oven?host={folder}"
        finally:
            run("pg_ctl", "-m", "immediate", "stop")


@pytest.fixture
def empty(url):
    """The URL, its database without a table."""
    yield url
    engine = sql.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    tables = sql.MetaData()
    tables.reflect(engine)
    tables.drop_all(engine)
    engine.dispose()


@pytest.mark.slow
def test_two_processes_tell_and_ask_at_once(empty):
    init = ["campaign", "init", empty, "--input", "x=-5..5", "--input", "side=left|right"]
    command = [sys.executable, "-c", "from twofold.cli import main; main()"]
    subprocess.run([*command, *init, "--output", "y", "--output", "w"], check=True)
    script = [sys.executable, "-c", TELL_AND_ASK, empty]
    processes = [subprocess.Popen([*script, str(start)]) for start in (0, 100)]
    assert [process.wait(300) for process in processes] == [0, 0]
    campaign = Campaign.open(empty)
    told = sorted(row["y"] for row in campaign.export())
    assert told == [float(start + i) for start in (0, 100) for i in range(10)]
    pending = campaign.pending()
    assert [proposal.number for proposal in pending] == list(range(1, 41))
    assert len({str(proposal.point) for proposal in pending}) == 40
    shown = subprocess.run(
        [*command, "campaign", "status", empty], check=True, capture_output=True, text=True
    )
    assert "20 measurements, 0 complete" in shown.stdout


@pytest.mark.slow
def test_corrections(empty):
    campaign = Campaign.create(empty, INPUTS, ["y"])
    campaign.ask(2)
    campaign.tell({"y": 7.0}, proposal=1, note="first")
    campaign.correct(1, {"y": 0.7})
    campaign.cancel(2)
    assert campaign.export()[0]["y"] == 0.7 and campaign.pending() == []
    assert campaign.history()[0]["outputs"] == {"y": 7.0}
    campaign = Campaign.open(empty)
    assert [proposal.number for proposal in campaign.pending()] == [2]
    campaign.remove(1)
    assert campaign.export() == []


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_one_sentence(url, tmp_path):
    with pytest.raises(CampaignError, match="cannot be used as a campaign") as refused:
        Campaign.open(f"postgresql://twofold@/oven?host={tmp_path}")
    assert "\n" not in str(refused.value)


def test_a_missing_driver_is_said_with_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(CampaignError, match=r'psycopg.*: pip install "twofold\[postgres\]"'):
        Campaign.open("postgresql://localhost/oven")
