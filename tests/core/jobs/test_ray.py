"""Jobs on a real Ray cluster of this machine, some of whose workers are killed."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from twofold.core.jobs import Job, JobError, run_jobs

ray = pytest.importorskip("ray")

UNREACHED = """
import os, sys
from twofold.core.jobs import Job, run_jobs

for address in sys.argv[1:]:
    os.environ["RAY_ADDRESS"] = address
    try:
        run_jobs([Job("one", abs, (-1,), {})], executor="ray")
    except ConnectionError as error:
        print(error)
"""
# Seconds that Ray waits for a cluster.
SHORT = {"RAY_gcs_rpc_server_connect_timeout_s": "1", "RAY_py_gcs_connect_timeout_s": "1"}
PATIENCE = 60.0  # seconds, for what takes less than one where the machine is idle


def wait_until(condition, what):
    """Return when something has come true."""
    for _ in range(int(PATIENCE / 0.01)):
        if condition():
            return
        time.sleep(0.01)
    raise TimeoutError(f"waited {PATIENCE:g} seconds for {what}")


def wait_for(path):
    """Return when a whole line is in a file."""
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"), f"a line in {path}")


def leave_mark(folder, name):
    with (Path(folder) / f"{name}.runs").open("a") as file:
        file.write(f"{os.getpid()}\n")


def work(folder, number):
    """The first two jobs wait for each other; the third waits at first, to be killed."""
    leave_mark(folder, number)
    if number in (0, 1):
        wait_for(Path(folder) / f"{1 - number}.runs")
    if number == 2 and len((Path(folder) / "2.runs").read_text().split()) == 1:
        time.sleep(PATIENCE)
        raise TimeoutError("nobody has killed this worker")
    return [number, float(np.sin(number))]


class OddError(Exception):
    """Cannot be unpickled."""

    def __init__(self, one, other):
        super().__init__(f"{one} and {other}")


class LockedError(Exception):
    """Cannot be pickled."""

    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


def be_killed(number):
    os.kill(os.getpid(), number)
    time.sleep(PATIENCE)


def leave_the_process():
    sys.exit(1)


def raise_error(kind, *words):
    raise kind(*words)


def make_lock():
    return threading.Lock()


def make_array():
    return np.ones(2)


def write_into(array):
    array += 1.0


def answer(*_):
    return 1


def call(folder, name, function, arguments):
    """Leave a mark, then do it."""
    leave_mark(folder, name)
    return function(*arguments)


def take_time(_):
    started = time.monotonic()
    time.sleep(0.2)
    return started, time.monotonic()


@pytest.fixture(scope="module", autouse=True)
def by_value():
    """Functions of this module travel with their code: workers cannot import tests."""
    module = sys.modules[__name__]
    ray.cloudpickle.register_pickle_by_value(module)
    yield
    ray.cloudpickle.unregister_pickle_by_value(module)


def sweep(folder, count=7):
    return [Job(f"job {n}", work, (str(folder), n), {"number": n}) for n in range(count)]


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def count_runs(folder):
    return {path.stem: len(path.read_text().split()) for path in folder.glob("*.runs")}


def kill_first(path):
    """Kill the process that wrote its number into a file."""
    wait_for(path)
    os.kill(int(path.read_text().split()[0]), signal.SIGKILL)


def test_a_killed_worker_is_replaced_and_all_is_as_in_a_local_run(cluster, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir(), there.mkdir()
    for number in range(3):  # nobody is to be waited for or killed here
        (here / f"{number}.runs").write_text("none\n")
    wanted = run_jobs(sweep(here))
    with ThreadPoolExecutor() as threads:
        killer = threads.submit(kill_first, there / "2.runs")
        results = run_jobs(sweep(there), there / "results", "ray")
        killer.result()
    assert results == wanted
    assert count_runs(there) == {str(n): 2 if n == 2 else 1 for n in range(7)}
    pids = [(there / f"{number}.runs").read_text().split()[0] for number in range(3)]
    assert len({*pids, str(os.getpid())}) == 4
    assert run_jobs(sweep(there), there / "results", "ray") == wanted
    assert sum(count_runs(there).values()) == 8


# A job's function and arguments, what is said of its failure, and how often it is begun.
FAILURES = {
    "raises": (raise_error, (ValueError, "no such thing"), "ValueError: no such thing", 1),
    "odd": (raise_error, (OddError, "this", "that"), "UnserializableException: ", 1),
    "locked": (raise_error, (LockedError, "a lock"), r"RayError: .*LockedError", 1),
    "lock": (make_lock, (), "TypeError: a job must return JSON values", 1),
    "array": (make_array, (), "TypeError: a job must return JSON values", 1),
    "unsent": (answer, (threading.Lock(),), "TypeError: Could not serialize the argument", 0),
    "written": (write_into, (np.ones(2),), "ValueError: .*read-only", 1),
    "killed": (be_killed, (signal.SIGKILL,), "WorkerCrashedError: ", 2),
    "terminated": (be_killed, (signal.SIGTERM,), "WorkerCrashedError: ", 2),
    "exits": (leave_the_process, (), "WorkerCrashedError: ", 2),
}


def test_failed_jobs_are_named_and_only_those_whose_worker_died_are_run_again(cluster, tmp_path):
    bad = [
        Job(name, call, (str(tmp_path), name, function, arguments), {"name": name})
        for name, (function, arguments, _, _) in FAILURES.items()
    ]
    good = Job("good", call, (str(tmp_path), "good", answer, ()), {})
    with pytest.raises(JobError, match=r"10 of 11 jobs failed – raises: ValueError") as failed:
        run_jobs([*bad, good], tmp_path / "results", "ray", {"max_retries": 1})
    runs = count_runs(tmp_path)
    for name, (_, _, message, times) in FAILURES.items():
        assert runs.get(name, 0) == times, name
        assert re.search(f"{name}: {message}", str(failed.value)), name
    assert runs["good"] == 1 and len(list((tmp_path / "results").iterdir())) == 1
    assert isinstance(failed.value.__cause__, ValueError)
    assert "in raise_error" in "".join(traceback.format_exception(failed.value.__cause__))


def test_after_ctrl_c_no_worker_is_left_and_only_the_rest_is_done(cluster, tmp_path):
    kept = tmp_path / "results"

    def press():
        wait_until(lambda: kept.exists() and len(list(kept.glob("[0-9a-f]*"))) == 4, "four results")
        wait_for(tmp_path / "2.runs")
        os.kill(os.getpid(), signal.SIGINT)

    with ThreadPoolExecutor() as threads, pytest.raises(KeyboardInterrupt):
        threads.submit(press)
        run_jobs(sweep(tmp_path, 5), kept, "ray")
    worker = int((tmp_path / "2.runs").read_text())
    wait_until(lambda: not is_running(worker), f"worker {worker} to end")
    assert count_runs(tmp_path) == {str(n): 1 for n in range(5)}
    assert run_jobs(sweep(tmp_path, 5), kept, "ray") == [[n, float(np.sin(n))] for n in range(5)]
    assert count_runs(tmp_path) == {"0": 1, "1": 1, "2": 2, "3": 1, "4": 1}


def test_jobs_that_take_all_cpus_run_one_after_another(cluster):
    options = {"num_cpus": ray.cluster_resources()["CPU"]}
    times = [Job(f"job {n}", take_time, (n,), {}) for n in range(3)]
    for (_, ended), (started, _) in pairwise(sorted(run_jobs(times, None, "ray", options))):
        assert ended <= started


def test_an_address_without_a_cluster_is_refused(unused_port):
    addresses = ["nowhere", f"127.0.0.1:{unused_port}"]
    ended = subprocess.run(
        [sys.executable, "-c", UNREACHED, *addresses],
        env=os.environ | SHORT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    sentences = ended.stdout.splitlines()
    assert len(sentences) == 2, ended.stderr
    for address, sentence in zip(addresses, sentences, strict=True):
        assert f"no Ray cluster for RAY_ADDRESS={address} (" in sentence
        assert "unset RAY_ADDRESS" in sentence
