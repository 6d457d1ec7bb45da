"""Campaigns of older versions are brought up to date, whole or not at all."""

import multiprocessing
import os
import shutil
import signal
import sqlite3
import time
from pathlib import Path

import numpy as np
import pytest

from twofold import Ensemble
from twofold.campaign import Campaign, storage

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]

DATA = Path(__file__).parent / "data"
QUICK = {"inference": Ensemble(members=2, updates=20), "latent_dim": 0}

# As the first version of twofold wrote it.
VERSION_1 = """
CREATE TABLE twofold_campaign (
    name VARCHAR(64) NOT NULL, value TEXT NOT NULL, PRIMARY KEY (name)
);
CREATE TABLE proposal (
    number INTEGER NOT NULL, point TEXT NOT NULL, split TEXT NOT NULL, reason TEXT NOT NULL,
    created FLOAT NOT NULL, PRIMARY KEY (number)
);
CREATE TABLE measurement (
    number INTEGER NOT NULL, proposal INTEGER, point TEXT NOT NULL, outputs TEXT NOT NULL,
    created FLOAT NOT NULL, PRIMARY KEY (number),
    FOREIGN KEY(proposal) REFERENCES proposal (number)
);
CREATE TABLE snapshot (
    number INTEGER NOT NULL, measurements INTEGER NOT NULL, numbers TEXT NOT NULL,
    created FLOAT NOT NULL, PRIMARY KEY (number)
);
INSERT INTO twofold_campaign VALUES ('version', '1');
INSERT INTO twofold_campaign VALUES ('definition', '{
    "inputs": [{"kind": "continuous", "name": "x", "low": -5.0, "high": 5.0}], "outputs": ["y"],
    "candidates": null,
    "settings": {"epochs": 2, "latent_dim": 0, "inference_options": {"members": 2}}}');
INSERT INTO proposal VALUES (1, '{"x": 0.123456789}', '{}', 'spread evenly', 1.0);
INSERT INTO proposal VALUES (2, '{"x": 2.5}', '{}', 'spread evenly', 2.0);
INSERT INTO measurement VALUES (1, 1, '{"x": 0.123456789}', '{"y": 1.5}', 3.0);
INSERT INTO measurement VALUES (2, NULL, '{"x": -3.0}', '{"y": -1.5}', 4.0);
INSERT INTO snapshot VALUES (1, 6, '{"epistemic_nats": 0.3, "epistemic_share": 0.4}', 5.0);
"""
MEASURED = [
    {"measurement": 1, "proposal": 1, "x": 0.123456789, "y": 1.5, "note": None},
    {"measurement": 2, "proposal": None, "x": -3.0, "y": -1.5, "note": None},
]


@pytest.fixture
def old(tmp_path):
    connection = sqlite3.connect(tmp_path / "old.db")
    connection.executescript(VERSION_1)
    connection.close()
    return tmp_path / "old.db"


def stored_version(path):
    connection = sqlite3.connect(path)
    columns = [row[1] for row in connection.execute("PRAGMA table_info(snapshot)")]
    (value,) = connection.execute("SELECT value FROM twofold_campaign WHERE name = 'version'")
    connection.close()
    return int(value[0]), "model" in columns


def check_data(campaign):
    assert campaign.export() == MEASURED
    assert [proposal.number for proposal in campaign.pending()] == [2]
    (point,) = campaign.status().curve
    assert point == {"measurements": 6, "epistemic_nats": 0.3, "epistemic_share": 0.4}


def test_a_campaign_of_version_2_keeps_its_model_and_goes_on(tmp_path):
    """The file is one that twofold wrote before methods had options of their own, and with a
    method that is gone."""
    for ending in (".db", ".db.model"):
        shutil.copy(DATA / f"version_2{ending}", tmp_path)
    campaign = Campaign.open(tmp_path / "version_2.db")
    assert campaign.status().complete == 10 and len(campaign.export()) == 11
    assert [proposal.number for proposal in campaign.pending()] == [11, 12]
    assert campaign.settings == {"latent_dim": 0}
    # As that twofold predicted the same points.
    model, x = campaign.load_model(), np.array([[-0.9, 0.0, 1.0], [0.5, 1.0, 0.0]])
    means, split = [[1.13394106, 1.07259338], [0.91494593, 1.46940977]], model.decompose(x)
    np.testing.assert_allclose(model.predict(x), means, rtol=1e-5)
    np.testing.assert_allclose(split.epistemic[0], [0.06075026, 0.00387359], rtol=1e-3)
    np.testing.assert_allclose(split.aleatoric[0], [0.2482781, 0.52919194], rtol=1e-5)
    campaign.configure(QUICK)
    assert [proposal.number for proposal in campaign.ask()] == [13]
    before = campaign.export()[0]
    campaign.correct(1, {"y": before["y"] + 1.0}, note="misread")
    campaign.cancel(11)
    assert campaign.export()[0] == before | {"y": before["y"] + 1.0, "note": "misread"}
    assert [proposal.number for proposal in campaign.pending()] == [12, 13]


def test_the_steps_lead_from_the_first_version_to_todays():
    assert sorted(storage.STEPS) == list(range(1, storage.VERSION))


def test_a_campaign_of_version_1_is_opened_with_all_its_data(old):
    check_data(Campaign.open(old))
    assert stored_version(old) == (3, True)
    campaign = Campaign.open(old)
    check_data(campaign)
    for i in range(4):
        campaign.tell({"y": float(i)}, point={"x": float(i)})
    campaign.configure(QUICK)
    campaign.ask()
    assert [row["measurements"] for row in campaign.status().curve] == [6, 6]


def open_at_once(path, barrier):
    barrier.wait()
    check_data(Campaign.open(path))


def test_processes_that_open_an_old_campaign_at_once_are_safe(old):
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(4)
    processes = [context.Process(target=open_at_once, args=(old, barrier)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert stored_version(old) == (3, True)


def test_a_step_that_fails_changes_nothing(old, monkeypatch):
    def half(connection):
        storage.name_models(connection)
        raise RuntimeError("half way")

    monkeypatch.setitem(storage.STEPS, 1, half)
    with pytest.raises(RuntimeError, match="half way"):
        Campaign.open(old)
    assert stored_version(old) == (1, False)


def migrate_and_wait(path, reached):
    def slow(connection):
        storage.name_models(connection)
        reached.set()
        time.sleep(60)

    storage.STEPS[1] = slow
    Campaign.open(path)


def test_a_kill_in_the_middle_of_a_step_leaves_the_old_version(old):
    context = multiprocessing.get_context("fork")
    reached = context.Event()
    process = context.Process(target=migrate_and_wait, args=(old, reached))
    process.start()
    assert reached.wait(30)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert stored_version(old) == (1, False)
    check_data(Campaign.open(old))
    assert stored_version(old) == (3, True)
