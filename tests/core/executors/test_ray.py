"""Jobs on a real Ray cluster of this machine, some of whose workers are killed."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from twofold import BNNLVRegressor
from twofold.campaign import Campaign, Continuous, refit
from twofold.core.executors import Job, JobError, LocalExecutor, RayExecutor, run
from twofold.estimators.cross_validation import cross_validate

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")

# A sweep, its third job waiting until it is killed or its folder says to go on.
SWEEP = """
import os, sys, time
from pathlib import Path
from twofold.executors import Job, RayExecutor, run

place = Path(sys.argv[1])

def square(number):
    with (place / f"{number}.runs").open("a") as file:
        file.write(f"{os.getpid()}\\n")
    while number == 2 and not (place / "go").exists():
        time.sleep(0.05)
    return number**2

jobs = [Job(f"job {n}", square, (n,), {"number": n}) for n in range(5)]
try:
    print(run(RayExecutor(), jobs, place / "results"))
except KeyboardInterrupt:
    sys.exit(130)
"""
PATIENCE = 60.0  # seconds, for what takes less than one where the machine is idle


def until(condition, what):
    """Return when something has come true."""
    for _ in range(int(PATIENCE / 0.01)):
        if condition():
            return
        time.sleep(0.01)
    raise TimeoutError(f"waited {PATIENCE:g} seconds for {what}")


def wait_for(path):
    """Return when a whole line is in a file."""
    until(lambda: path.exists() and path.read_text().endswith("\n"), f"somebody to write {path}")


def marked(folder, number):
    """Leave a mark of having been run. The first two jobs wait for each other, the third one waits
    at first, to be killed."""
    with (Path(folder) / f"{number}.runs").open("a") as file:
        file.write(f"{os.getpid()}\n")
    if number in (0, 1):
        wait_for(Path(folder) / f"{1 - number}.runs")
    if number == 2 and len((Path(folder) / "2.runs").read_text().split()) == 1:
        time.sleep(PATIENCE)
        raise TimeoutError("nobody has killed this worker")
    return [number, float(np.sin(number))]


def deadly(folder):
    """Be killed every time."""
    with (Path(folder) / "deadly.runs").open("a") as file:
        file.write("x\n")
    os.kill(os.getpid(), signal.SIGKILL)


def wrong(folder):
    """Make the same mistake every time."""
    with (Path(folder) / "wrong.runs").open("a") as file:
        file.write("x\n")
    raise ValueError("no such thing")


@pytest.fixture(scope="module", autouse=True)
def by_value():
    """Functions of this module travel with their code: workers cannot import tests."""
    module = sys.modules[__name__]
    ray.cloudpickle.register_pickle_by_value(module)
    yield
    ray.cloudpickle.unregister_pickle_by_value(module)


def sweep(folder, count=7):
    return [Job(f"job {n}", marked, (str(folder), n), {"number": n}) for n in range(count)]


def runs_still(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def kill_first(path):
    """Kill the process that wrote its number into a file."""
    wait_for(path)
    os.kill(int(path.read_text().split()[0]), signal.SIGKILL)


def runs(folder):
    return {path.stem: len(path.read_text().split()) for path in folder.glob("*.runs")}


def test_a_killed_worker_is_replaced_and_all_is_as_in_a_local_run(cluster, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir(), there.mkdir()
    for number in range(3):  # nobody is to be waited for or killed here
        (here / f"{number}.runs").write_text("none\n")
    wanted = run(LocalExecutor(), sweep(here))
    with ThreadPoolExecutor() as threads:
        killer = threads.submit(kill_first, there / "2.runs")
        found = run(RayExecutor(), sweep(there), there / "results")
        killer.result()
    assert found == wanted
    assert runs(there) == {str(n): 2 if n == 2 else 1 for n in range(7)}
    pids = [(there / f"{number}.runs").read_text().split()[0] for number in range(3)]
    assert len({*pids, str(os.getpid())}) == 4
    assert run(RayExecutor(), sweep(there), there / "results") == wanted
    assert sum(runs(there).values()) == 8


def test_what_fails_is_named_and_only_a_lost_worker_is_tried_again(cluster, tmp_path):
    folder = str(tmp_path)
    jobs = [
        Job("dies", deadly, (folder,), {}),
        Job("errs", wrong, (folder,), {}),
        Job("works", marked, (folder, 3), {}),
    ]
    with pytest.raises(JobError, match="2 of 3 jobs failed") as failed:
        run(RayExecutor(tries=2), jobs)
    told = str(failed.value)
    assert "dies: WorkerLostError: its worker died 2 times" in told
    assert "errs: ValueError: no such thing" in told
    assert runs(tmp_path) == {"deadly": 2, "wrong": 1, "3": 1}


def test_who_wants_no_more_results_leaves_no_job_running(cluster, tmp_path):
    outcomes = RayExecutor().map(sweep(tmp_path, 3))
    assert {next(outcomes).number, next(outcomes).number} == {0, 1}
    wait_for(tmp_path / "2.runs")
    worker = int((tmp_path / "2.runs").read_text())
    assert runs_still(worker)
    outcomes.close()
    until(lambda: not runs_still(worker), f"worker {worker} to end")


def test_after_ctrl_c_no_worker_is_left_and_only_the_rest_is_done(cluster, tmp_path):
    words = [sys.executable, "-c", SWEEP, tmp_path]
    there = {**os.environ, "RAY_ADDRESS": cluster}
    driver = subprocess.Popen(words, env=there)
    try:
        until(lambda: len(list(tmp_path.glob("results/*.json"))) == 4, "four results")
        wait_for(tmp_path / "2.runs")
        driver.send_signal(signal.SIGINT)
        assert driver.wait(PATIENCE) == 130
    finally:
        driver.kill()
    worker = int((tmp_path / "2.runs").read_text())
    until(lambda: not runs_still(worker), f"worker {worker} to end")
    assert runs(tmp_path) == {str(n): 1 for n in range(5)}
    (tmp_path / "go").touch()
    again = subprocess.run(
        words, env=there, capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert again.stdout.strip() == str([0, 1, 4, 9, 16])
    assert runs(tmp_path) == {"0": 1, "1": 1, "2": 2, "3": 1, "4": 1}


def test_cross_validation_gives_the_scores_of_a_local_one(cluster, tmp_path, rng):
    x = rng.normal(size=(24, 1))
    y = x[:, 0] + 0.1 * rng.normal(size=24)
    model = BNNLVRegressor((3,), epochs=2, inference_options={"members": 2}, random_state=0)
    wanted = cross_validate(model, x, y, folds=3)
    found = cross_validate(model, x, y, folds=3, executor=RayExecutor(), folder=tmp_path)
    np.testing.assert_array_equal(found, wanted)
    assert len(list(tmp_path.glob("*.json"))) == 3


def test_campaigns_are_refitted(cluster, tmp_path):
    settings = {"epochs": 2, "latent_dim": 0, "inference_options": {"members": 2}}
    places = [tmp_path / "a.db", tmp_path / "b.db"]
    for shift, place in enumerate(places):
        campaign = Campaign.create(place, [Continuous("x", -5, 5)], ["y"], settings=settings)
        for x in np.linspace(-4, 4, 6):
            campaign.tell({"y": float(np.sin(x) + shift)}, point={"x": float(x)})
    found = refit(places, RayExecutor())
    assert [one.measurements for one in found] == [6, 6]
    for place, one in zip(places, found, strict=True):
        model = Campaign.open(place).kept_model()
        again = refit([place], LocalExecutor())
        assert again == [one]
        assert Campaign.open(place).kept_model().predict([[0.5]]) == model.predict([[0.5]])
