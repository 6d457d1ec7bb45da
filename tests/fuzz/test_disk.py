"""A disk that is full or may only be read: old files stay whole, and a sentence names the path."""

import errno
import os
import subprocess
import warnings
from contextlib import contextmanager

import numpy as np
import pytest

from twofold import Alpha, BNNLVRegressor, decompose_table, fit_table, load
from twofold.campaign import Campaign, CampaignError, Continuous
from twofold.cli.run import Run
from twofold.core import persistence
from twofold.core.persistence import claim_folder
from twofold.tables import TableError, write_table

SIZE = 256 * 1024


@pytest.fixture
def disk(tmp_path):
    """A small disk of its own, which is taken away at the end."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)]
    try:
        made = subprocess.run(words, capture_output=True)
    except OSError:
        pytest.skip("there is no mount on this system")
    if made.returncode:
        pytest.skip("only root may mount a small disk")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@contextmanager
def full(disk):
    """Nothing more can be written inside the block."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(512)):
                pass
        except OSError as error:
            assert error.errno == errno.ENOSPC
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def read_only(disk):
    """Nothing can be written inside the block, not even by root."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)


STATES = pytest.mark.parametrize("state", [full, read_only])


@STATES
def test_a_model(fuzz, disk, state, fitted, data):
    path = disk / "model"
    fitted.save(path)
    with state(disk), fuzz.unchanged(path):
        with fuzz.case(OSError, names=str(path)):
            fitted.save(path)
            raise RuntimeError("nothing was said")
        assert not list(disk.glob(".twofold-*")), "a piece of a file is left"
    assert (load(path).predict(data[0]) == fitted.predict(data[0])).all()


@STATES
def test_a_checkpoint_that_cannot_be_written_does_not_cost_the_fit(fuzz, disk, state, tiny, data):
    path = disk / "run.checkpoint"
    expected = BNNLVRegressor(**tiny).fit(*data).predict(data[0])
    model = BNNLVRegressor(**tiny | {"checkpoint": path})
    # Root may write into every folder, so that the check beforehand finds nothing.
    with state(disk), fuzz.case(PermissionError, OSError, names=str(disk)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(*data)
        assert any(str(path) in str(one.message) for one in caught), "nothing was said"
        assert (model.predict(data[0]) == expected).all()


@STATES
def test_a_campaign(fuzz, disk, state, tiny):
    path = disk / "c.db"
    campaign = Campaign.create(path, [Continuous("x", 0.0, 1.0)], ["y"], settings=tiny)
    for number in range(4):
        campaign.tell({"y": number}, point={"x": number / 10})
    held = campaign.export()
    campaign._storage._engine.dispose()  # A file that is open would keep the disk writable.
    with state(disk), fuzz.unchanged(path):
        for _ in range(3):
            with fuzz.case(CampaignError, names=str(path)):
                for number in range(200):
                    campaign.tell({"y": 1.0}, point={"x": number / 200})
                raise RuntimeError("nothing was said")
            with fuzz.case(CampaignError, names=str(path)):
                campaign.ask(200)
        with fuzz.case():
            if Campaign.open(path).export() != held:
                fuzz.lost("what was told is gone")
    assert Campaign.open(path).tell({"y": 1.0}, point={"x": 0.55}) == 5
    assert Campaign.open(path).export()[:4] == held


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@STATES
def test_a_table(fuzz, disk, state, ending):
    path, columns = disk / f"t.{ending}", {"a": np.arange(10.0), "b": ["ä"] * 10}
    write_table(path, columns)
    many = {"a": np.random.default_rng(0).normal(size=30_000)}
    with state(disk), fuzz.unchanged(disk), fuzz.case(TableError, names=str(path)):
        write_table(path, many)
        raise RuntimeError("nothing was said")


def table_of(path, rows):
    columns = dict(zip("aby", np.random.default_rng(0).normal(size=(3, rows)), strict=True))
    write_table(path, columns)
    return path


@STATES
def test_the_scratch_file_of_a_table(fuzz, disk, state, tmp_path, tiny):
    path = table_of(tmp_path / "t.csv", 20_000)
    with state(disk), fuzz.unchanged(path, disk), fuzz.case(TableError, OSError, names=str(disk)):
        method = Alpha(nodes=2, draws=2, epochs=1)
        model = BNNLVRegressor(**tiny | {"inference": method})
        fit_table(model, path, target="y", scratch=disk)
        raise RuntimeError("nothing was said")
    assert not list(disk.iterdir()), "a piece of a file is left"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@STATES
def test_the_split_of_a_table(fuzz, disk, state, ending, tmp_path, fitted):
    path, out = table_of(tmp_path / "t.csv", 5_000), disk / f"out.{ending}"
    write_table(out, {"a": [1.0, 2.0]})
    with state(disk), fuzz.unchanged(path, disk), fuzz.case(TableError, names=str(out)):
        decompose_table(fitted, path, out, inputs=["a", "b"], by="variance")
        raise RuntimeError("nothing was said")


@STATES
def test_a_project(fuzz, disk, state):
    folder = disk / "project"
    with state(disk), fuzz.unchanged(disk), fuzz.case(OSError, names=str(folder)):
        claim_folder(folder, "project.json", {"seed": 0}, {"logged_cost": 1.0})
        raise RuntimeError("nothing was said")


@STATES
def test_a_record_that_cannot_be_written_does_not_cost_the_result(fuzz, disk, state, capsys):
    class Context:
        command_path, params = "twofold fit", {}

    out = disk / "result.csv"
    out.write_text("a\n1\n")
    with state(disk), fuzz.unchanged(disk), fuzz.case():
        Run(Context).write(out)
    assert "result.csv" in capsys.readouterr().err


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize(
    "number", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT, errno.EACCES]
)
def test_every_step_of_a_write_may_fail(fuzz, tmp_path, monkeypatch, fitted, call, number):
    """The same without a disk of its own, for whoever may not mount one."""
    path = tmp_path / "model"
    fitted.save(path)

    def fails(*_, **__):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(persistence.os, call, fails)
        with fuzz.unchanged(tmp_path), fuzz.case(OSError, names=str(path)):
            fitted.save(path)
            raise RuntimeError("nothing was said")
