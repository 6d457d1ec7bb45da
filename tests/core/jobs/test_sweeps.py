"""Fits on a real Ray cluster: the numbers of a local run, and nothing done twice."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.model_selection import cross_validate

from paper import frontiers, table_1, uci
from paper.fits import CONTINUED
from paper.records import Context
from twofold import BNNLVRegressor, Ensemble
from twofold.campaign import Campaign, Continuous, refit
from twofold.core import jobs

pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

PROCESSES = Path("/proc")
needs_processes = pytest.mark.skipif(not PROCESSES.exists(), reason="/proc lists processes")
# The sweep of the sets at the size of a rehearsal, but of those that can be continued.
COMMAND = """
from paper import __main__, pieces, uci
make = lambda context: uci.score_sets_by_default(context._replace(smoke=True))
pieces.Piece.load_maker = lambda piece: make
__main__.main()
"""
JOBS = ".cache/experiments/here/jobs"
PATIENCE = 120.0  # seconds, for what takes a few where the machine is idle


@pytest.fixture
def names(monkeypatch):
    """The names of the jobs that were run on Ray."""
    found, on_ray = [], jobs.EXECUTORS["ray"]

    def run_on_ray(missing, options):
        found.extend(job.name for job in missing.values())
        yield from on_ray(missing, options)

    monkeypatch.setitem(jobs.EXECUTORS, "ray", run_on_ray)
    return found


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


def smoke(folder, executor=None):
    return Context(True, folder, folder, executor)


def wait_until(condition, what):
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


def find_workers():
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


def without_times(metrics):
    """Those that do not tell how long it took."""
    return {name: value for name, value in metrics.items() if not name.startswith("seconds")}


def stamps(folder, pattern):
    return {path: path.stat().st_mtime_ns for path in folder.glob(pattern)}


def test_a_sweep_has_the_numbers_of_a_local_one_and_is_not_repeated(cluster, data, places, names):
    here, there = places
    wanted = uci.score_sets_by_default(smoke(here)).metrics
    assert uci.score_sets_by_default(smoke(there, "ray")).metrics == wanted
    assert len(wanted) == 8 * len(uci.SETS) and np.isfinite(list(wanted.values())).all()
    assert names == [f"{name}/default, splits 0 to 1" for name in uci.SETS]
    kept = stamps(there, "jobs/*")
    assert uci.score_sets_by_default(smoke(there, "ray")).metrics == wanted
    assert len(names) == len(uci.SETS) and stamps(there, "jobs/*") == kept


@needs_processes
def test_a_frontier_whose_worker_is_killed_has_the_numbers_of_a_local_one(cluster, places, names):
    here, there = places
    name = "wet_chicken_frontier"
    wanted = frontiers.trace_frontier(name, smoke(here)).metrics

    def kill():
        """Kill a worker as soon as a model is fitted; its policies are still missing."""
        wait_until(lambda: list(there.glob("*/model.safetensors")), "a fitted model")
        os.kill(wait_until(find_workers, "a worker")[0], signal.SIGKILL)

    with ThreadPoolExecutor() as threads:
        killer = threads.submit(kill)
        found = frontiers.trace_frontier(name, smoke(there, "ray")).metrics
        killer.result()
    assert without_times(found) == without_times(wanted)
    assert len(names) == 4
    kept = stamps(there, "*/*.*")
    again = frontiers.trace_frontier(name, smoke(there, "ray")).metrics
    assert again == found
    assert len(names) == 4 and stamps(there, "*/*.*") == kept


def test_the_table_has_the_numbers_of_a_local_one_and_is_not_repeated(cluster, places):
    here, there = places
    wanted = table_1.learn_all_blocks(smoke(here)).metrics
    found = table_1.learn_all_blocks(smoke(there, "ray")).metrics
    assert without_times(found) == without_times(wanted)
    kept = stamps(there, "*.course")
    assert len(kept) == len(table_1.BLOCKS) * len(table_1.GROUPS)
    assert table_1.learn_all_blocks(smoke(there, "ray")).metrics == found
    assert stamps(there, "*.course") == kept


def driver(executor, folder, address):
    """A sweep, by its command, that works in a folder."""
    words = "uci_default", "--executor", executor
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
            wait_until(lambda: len(list(folder.glob(f"{JOBS}/[0-9a-f]*"))) == sets, f"{sets} sets")
            wait_until(waiting, "somebody to wait")
            running.send_signal(signal.SIGINT)
            _, told = running.communicate(timeout=PATIENCE)
        finally:
            running.kill()
    return running.returncode, told.splitlines()[-1]


@needs_processes
def test_ctrl_c_keeps_what_is_finished_and_the_same_command_does_the_rest(cluster, data, tmp_path):
    slow = data / "power-plant.npz"
    content = slow.read_bytes()
    slow.unlink()
    os.mkfifo(slow)  # who opens it waits until somebody writes
    code, told = stopped("ray", tmp_path / "ray", cluster, sets=4, waiting=find_workers)
    assert (code, told) == (130, f"stopped by Ctrl-C; {CONTINUED}")
    wait_until(lambda: not find_workers(), "the worker to end")
    # One after another, the set after it has not been begun.
    assert stopped("local", tmp_path / "local", cluster, sets=3) == (code, told)
    slow.unlink()
    slow.write_bytes(content)
    kept = stamps(tmp_path / "ray", f"{JOBS}/[0-9a-f]*")
    with driver("ray", tmp_path / "ray", cluster) as again:
        assert again.wait(PATIENCE) == 0
    after = stamps(tmp_path / "ray", f"{JOBS}/[0-9a-f]*")
    assert kept.items() <= after.items() and len(after) == len(uci.SETS)
    found = json.loads((tmp_path / "ray" / "results" / "uci.json").read_text())["metrics"]
    (tmp_path / "whole").mkdir()
    assert found == uci.score_sets_by_default(smoke(tmp_path / "whole")).metrics


def log_likelihood(model, X, y):
    return model.log_likelihood(X, y).mean()


def test_cross_validation_through_joblib_gives_the_scores_of_a_local_one(cluster, rng):
    from ray.util.joblib import register_ray

    register_ray()
    x = rng.normal(size=(24, 1))
    y = x[:, 0] + 0.1 * rng.normal(size=24)
    model = BNNLVRegressor((3,), inference=Ensemble(members=2, updates=20), random_state=0)
    scoring = {"log_likelihood": log_likelihood, "rmse": "neg_root_mean_squared_error"}
    scores = []
    for backend in ("sequential", "ray"):
        with joblib.parallel_config(backend, n_jobs=2):
            scores.append(cross_validate(model, x, y, cv=3, scoring=scoring))
    for name in ("test_log_likelihood", "test_rmse"):
        np.testing.assert_array_equal(scores[0][name], scores[1][name])


def test_campaigns_are_refitted(cluster, tmp_path):
    settings = {"inference": Ensemble(members=2, updates=20), "latent_dim": 0}
    places = [tmp_path / "a.db", tmp_path / "b.db"]
    for shift, place in enumerate(places):
        campaign = Campaign.create(place, [Continuous("x", -5, 5)], ["y"], settings=settings)
        for x in np.linspace(-4, 4, 6):
            campaign.tell({"y": float(np.sin(x) + shift)}, point={"x": float(x)})
    models = refit(places, "ray")
    assert [one.measurements for one in models] == [6, 6]
    for place, one in zip(places, models, strict=True):
        model = Campaign.open(place).load_model()
        assert refit([place]) == [one]
        assert Campaign.open(place).load_model().predict([[0.5]]) == model.predict([[0.5]])
