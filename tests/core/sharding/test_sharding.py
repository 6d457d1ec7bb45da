"""Eight devices give what one gives, do it together, and leave the same checkpoints."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from twofold.core import sharding

SCRIPT = Path(__file__).with_name("work.py")
DEVICES = 8
# XLA adds up the members and rows of a smaller share in another order, and float32 rounds each sum
# to 6e-8 of it; a few dozen updates and sums over draws make at most a hundred times that of it.
TOLERANCE = 1e-5

# The quick tests compare two processes of two devices each (test_processes).
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def work():
    spec = importlib.util.spec_from_file_location("sharding_work", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(work, tmp_path_factory):
    """A folder where a run was begun on one device."""
    place = tmp_path_factory.mktemp("sharding")
    work.begin(place / "begun.checkpoint")
    return place


@pytest.fixture(scope="module")
def apart(folder):
    """What a process with eight devices finds, going on with the run that was begun here."""
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={DEVICES}"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    words = [sys.executable, SCRIPT, folder]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return dict(np.load(folder / "found.npz"))


@pytest.fixture(scope="module")
def here(work, folder, apart):
    """What this process finds on one device, going on with the run that was begun on eight."""
    (folder / "begun_there.checkpoint").replace(folder / "begun.checkpoint")
    return work.everything(folder)


def assert_close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE * np.abs(wanted).max())


PARTS = ["alpha", "ensemble", "chains", "streamed", "rows", "few", "policies"]


@pytest.mark.parametrize("part", PARTS)
def test_results_are_those_of_one_device(here, apart, part):
    names = [name for name in here if name.startswith(f"{part}/")]
    assert names
    for name in names:
        assert np.isfinite(here[name]).all(), name
        assert_close(apart[name], np.asarray(here[name]))


def test_a_run_goes_on_on_another_number_of_devices(here, apart):
    names = [name for name in here if name.startswith("alpha/")]
    for name in names:
        whole, resumed = np.asarray(here[name]), name.replace("alpha/", "resumed/")
        assert_close(apart[resumed], whole)  # begun on one, ended on eight
        assert_close(here[resumed], whole)  # begun on eight, ended on one


def test_the_work_is_spread(apart, here):
    # Nine members, three ensembles of three, 21 rows, five policies; three weight draws of one row,
    # whose result every device has whole.
    wanted = {"alpha": (8, 8), "ensemble": (8, 8), "rows": (8, 8), "policies": (5, 5)}
    wanted["few"] = 1, 3
    assert {stage: tuple(apart[f"devices/{stage}"]) for stage in wanted} == wanted
    assert all((here[f"devices/{stage}"] == 1).all() for stage in wanted)


def test_each_device_gets_its_own_share_of_what_is_repeated(apart):
    assert apart["repeated"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, *[2] * 7]
    assert apart["shares"].tolist() == [2] * DEVICES


def test_entries_are_repeated_on_one_device_too():
    repeated = sharding.spread(None, np.arange(3), times=2)
    np.testing.assert_array_equal(repeated, [0, 0, 1, 1, 2, 2])


def test_a_device_that_was_chosen_is_the_only_one(apart):
    assert apart["chosen_device_alone"]


@pytest.mark.skipif(jax.device_count() > 1, reason="needs a lone device")
def test_one_device_changes_nothing(normal):
    tree = {"a": normal(5, 2), "keys": jax.random.split(jax.random.key(0), 5)}
    mesh = sharding.devices_for(5)
    assert mesh is None and sharding.room(mesh, 5) == 5
    placed = sharding.spread(mesh, tree)
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: bool((a == b).all()), placed, tree)))
    assert sharding.copied(mesh, tree) is tree
    assert sharding.cut(mesh, tree, 5) is tree
    assert sharding.divided(len, mesh, []) is len
