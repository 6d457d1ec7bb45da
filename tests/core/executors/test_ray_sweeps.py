"""Experiments on a real Ray cluster: the numbers of a local run, and nothing done twice."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from paper import frontiers, table1, uci
from paper.fits import CONTINUED
from twofold.core.executors import RayExecutor

pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")

PROCESSES = Path("/proc")
needs_processes = pytest.mark.skipif(not PROCESSES.exists(), reason="/proc lists processes")
# The sweep of the sets at the size of a rehearsal, but of those that can be continued.
COMMAND = """
from twofold import cli
from twofold.experiments import runner, uci
runner.RECORDED["uci_default"] = lambda smoke, *rest, **more: uci.run_default(True, *rest, **more)
cli.main()
"""
JOBS = ".cache/experiments/here/jobs"
PATIENCE = 120.0  # seconds, for what takes a few where the machine is idle


class Recorder(RayExecutor):
    """Remembers the names of the jobs that it was given."""

    def __init__(self):
        super().__init__()
        self.names = []

    def map(self, jobs):
        self.names += [job.name for job in jobs]
        yield from super().map(jobs)


@pytest.fixture
def data(tmp_path, monkeypatch, rng):
    """Small sets under the names of those of the experiment, where it looks for them."""
    folder = tmp_path / "data" / "uci"
    folder.mkdir(parents=True)
    for name in uci.SETS:
        x = rng.normal(size=(20, 2))
        tests = {f"test_{i}": np.arange(4 * i, 4 * i + 4) for i in range(2)}
        np.savez(folder / f"{name}.npz", X=x, y=x[:, 0], n_splits=2, **tests)
    monkeypatch.setenv("TWOFOLD_DATA", str(tmp_path / "data"))
    return folder


@pytest.fixture
def places(tmp_path):
    found = tmp_path / "here", tmp_path / "there"
    for place in found:
        place.mkdir()
    return found


def until(condition, what):
    """Wait for something to be true."""
    for _ in range(int(PATIENCE / 0.05)):
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise TimeoutError(f"waited {PATIENCE:g} seconds for {what}")


def parent(pid):
    status = (PROCESSES / str(pid) / "status").read_text()
    return int(status.partition("PPid:")[2].split()[0])


def working():
    """Processes that run a job on this module's cluster, whose node is a child of this process."""
    found = []
    for place in PROCESSES.glob("[0-9]*"):
        try:
            busy = (place / "cmdline").read_bytes().startswith(b"ray::_call")
            if busy and parent(parent(place.name)) == os.getpid():
                found.append(int(place.name))
        except OSError:  # it has ended
            continue
    return found


def lasting(metrics):
    """Those that do not tell how long it took."""
    return {name: value for name, value in metrics.items() if not name.startswith("seconds")}


def stamps(folder, pattern):
    return {path: path.stat().st_mtime_ns for path in folder.glob(pattern)}


def test_a_sweep_has_the_numbers_of_a_local_one_and_is_not_repeated(cluster, data, places):
    here, there = places
    wanted = uci.run_default(True, here).metrics
    executor = Recorder()
    assert uci.run_default(True, there, executor).metrics == wanted
    assert len(wanted) == 6 * len(uci.SETS) and np.isfinite(list(wanted.values())).all()
    assert executor.names == [f"{name}/default" for name in uci.SETS]
    kept = stamps(there, "jobs/*.json")
    assert uci.run_default(True, there, executor).metrics == wanted
    assert len(executor.names) == len(uci.SETS) and stamps(there, "jobs/*.json") == kept


@needs_processes
@pytest.mark.slow
def test_a_frontier_whose_worker_is_killed_has_the_numbers_of_a_local_one(cluster, places):
    here, there = places
    name = "wet_chicken_frontier"
    wanted = frontiers.run(name, True, here, here).metrics

    def kill():
        """Kill a worker as soon as a model is fitted; its policies are still missing."""
        until(lambda: list(there.glob("*/model_0.safetensors")), "a fitted model")
        os.kill(until(working, "a worker")[0], signal.SIGKILL)

    executor = Recorder()
    with ThreadPoolExecutor() as threads:
        killer = threads.submit(kill)
        found = frontiers.run(name, True, there, there, executor).metrics
        killer.result()
    assert lasting(found) == lasting(wanted)
    assert len(executor.names) == 4
    kept = stamps(there, "*/*.*")
    again = frontiers.run(name, True, there, there, executor).metrics
    assert again == found
    assert len(executor.names) == 4 and stamps(there, "*/*.*") == kept


@pytest.mark.slow
def test_the_table_has_the_numbers_of_a_local_one_and_is_not_repeated(cluster, places):
    here, there = places
    wanted = table1.run(True, here, here).metrics
    found = table1.run(True, there, there, RayExecutor()).metrics
    assert lasting(found) == lasting(wanted)
    kept = stamps(there, "*.course")
    assert len(kept) == len(table1.BLOCKS) * len(table1.GROUPS)
    assert table1.run(True, there, there, RayExecutor()).metrics == found
    assert stamps(there, "*.course") == kept


def driver(executor, folder, address):
    """A sweep, by its command, that works in a folder."""
    words = "reproduce", "uci_default", "--executor", executor
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words],
        cwd=folder,
        env={**os.environ, "RAY_ADDRESS": address, "TWOFOLD_COMMIT": "here"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def stopped(executor, folder, address, sets, waiting=lambda: True):
    """Ctrl-C at a sweep that waits at its last set but one; how it ended."""
    folder.mkdir()
    with driver(executor, folder, address) as running:
        try:
            until(lambda: len(list(folder.glob(f"{JOBS}/*.json"))) == sets, f"{sets} sets")
            until(waiting, "somebody to wait")
            running.send_signal(signal.SIGINT)
            _, told = running.communicate(timeout=PATIENCE)
        finally:
            running.kill()
    return running.returncode, told.splitlines()[-1]


@needs_processes
@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished_and_the_same_command_does_the_rest(cluster, data, tmp_path):
    slow = data / "power-plant.npz"
    content = slow.read_bytes()
    slow.unlink()
    os.mkfifo(slow)  # who opens it waits until somebody writes
    code, told = stopped("ray", tmp_path / "ray", cluster, sets=4, waiting=working)
    assert (code, told) == (130, f"twofold: stopped by Ctrl-C; {CONTINUED}")
    until(lambda: not working(), "the worker to end")
    # One after another, the set after it has not been begun.
    assert stopped("local", tmp_path / "local", cluster, sets=3) == (code, told)
    slow.unlink()
    slow.write_bytes(content)
    kept = stamps(tmp_path / "ray", f"{JOBS}/*.json")
    with driver("ray", tmp_path / "ray", cluster) as again:
        assert again.wait(PATIENCE) == 0
    after = stamps(tmp_path / "ray", f"{JOBS}/*.json")
    assert kept.items() <= after.items() and len(after) == len(uci.SETS)
    found = json.loads((tmp_path / "ray" / "results" / "uci.json").read_text())["metrics"]
    (tmp_path / "whole").mkdir()
    assert found == uci.run_default(True, tmp_path / "whole").metrics
