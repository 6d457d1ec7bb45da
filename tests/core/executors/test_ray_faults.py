"""What can go wrong with a job on a real Ray cluster, and what is told of it."""

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from twofold.campaign import Campaign, Continuous
from twofold.core.executors import Job, JobError, RayExecutor, run
from twofold.estimators.training import NonFiniteEnergyError

ray = pytest.importorskip("ray")

COMMAND = "from twofold.cli.app import main; main()"


class OddError(Exception):
    """Cannot be unpickled."""

    def __init__(self, one, other):
        super().__init__(f"{one} and {other}")


class LockedError(Exception):
    """Cannot be pickled."""

    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


def diverges():
    raise NonFiniteEnergyError("the energy is no longer finite; lower learning_rate")


def odd():
    raise OddError("this", "that")


def locked():
    raise LockedError("behind a lock")


def leaves():
    raise SystemExit("there is nothing to do here")


def leaves_with_a_number():
    sys.exit(1)


def interrupted():
    raise KeyboardInterrupt("half a fit")


def terminated():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)


def answers(*_):
    return 1


def returns_a_lock():
    return threading.Lock()


def returns_an_array():
    return np.ones(2)


def counted(function, mark):
    """Leave a mark, then do it."""
    with Path(mark).open("a") as file:
        file.write("x")
    return function()


def lasting(_):
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


def failure(function, tmp_path, tries=2):
    """What is told of a job that fails, its cause, and how often the job was begun."""
    mark = tmp_path / "runs"
    jobs = [Job("bad", counted, (function, str(mark)), {}), Job("good", answers, (), {})]
    with pytest.raises(JobError, match="1 of 2 jobs failed – bad: ") as failed:
        run(RayExecutor(tries=tries), jobs)
    told = str(failed.value).partition("bad: ")[2]
    return told, failed.value.__cause__, len(mark.read_text())


def test_an_error_of_the_library_comes_as_it_was_raised(cluster, tmp_path):
    told, cause, times = failure(diverges, tmp_path)
    assert told == ("NonFiniteEnergyError: the energy is no longer finite; lower learning_rate")
    assert type(cause) is NonFiniteEnergyError and times == 1
    shown = "".join(traceback.format_exception(cause))
    assert "In the worker:" in shown and "in diverges" in shown


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (odd, "RemoteError: OddError: this and that"),
        (locked, "RemoteError: LockedError: behind a lock"),
        (leaves, "SystemExit: there is nothing to do here"),
        (leaves_with_a_number, "SystemExit: 1"),
        (returns_a_lock, "TypeError: cannot pickle '_thread.lock' object"),
    ],
)
def test_what_cannot_travel_is_told_in_its_own_words_and_not_tried_again(
    function, wanted, cluster, tmp_path
):
    told, _, times = failure(function, tmp_path)
    assert told == wanted
    assert times == 1


@pytest.mark.parametrize("function", [interrupted, terminated])
def test_a_worker_that_is_told_to_stop_is_lost_and_its_job_begun_again(function, cluster, tmp_path):
    told, _, times = failure(function, tmp_path)
    assert told.startswith("WorkerLostError: its worker died 2 times, last of ")
    assert times == 2


def test_a_job_that_cannot_be_sent_is_named_and_the_others_are_done(cluster, tmp_path):
    jobs = [Job(f"job {n}", answers, (n,), {"n": n}) for n in range(3)]
    jobs[1] = jobs[1]._replace(arguments=(threading.Lock(),))
    with pytest.raises(JobError, match=r"1 of 3 jobs failed – job 1: .*cannot be sent to a worker "
                       r"\(cannot pickle '_thread.lock' object\)"):  # fmt: skip
        run(RayExecutor(), jobs, tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 2


def test_an_array_that_cannot_be_sent_is_the_fault_of_the_jobs_that_read_it(cluster, tmp_path):
    bad, good = np.array([threading.Lock()], dtype=object), np.ones(2)
    jobs = [
        Job(f"job {n}", answers, (n, array), {"n": n}) for n, array in enumerate([good, bad, bad])
    ]
    with pytest.raises(JobError, match=r"2 of 3 jobs failed – job 1: .*cannot be sent to a worker "
                       r"\(cannot pickle '_thread.lock' object\).*job 2: "):  # fmt: skip
        run(RayExecutor(), jobs, tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 1


def writes_into(array):
    array += 1.0


def test_arrays_are_read_only_in_workers(cluster):
    with pytest.raises(JobError, match=r"writes: ValueError: .*read-only"):
        run(RayExecutor(), [Job("writes", writes_into, (np.ones(2),), {})])


def test_a_result_that_json_cannot_hold_is_named(cluster, tmp_path):
    told, _, times = failure(returns_an_array, tmp_path)
    assert told.startswith("ResultError: its result must be what JSON can hold")
    assert times == 1


def test_jobs_that_no_node_can_take_are_spoken_of(cluster):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # else they would be waited for
        with pytest.raises(RuntimeWarning, match="each job asks for 64 CPU, 1 gold, and no node"):
            run(RayExecutor(num_cpus=64, resources={"gold": 1}), [Job("big", answers, (), {})])
        assert run(RayExecutor(num_cpus=0.5), [Job("small", answers, (), {})]) == [1]


def test_jobs_that_take_all_cpus_run_one_after_another(cluster):
    cpus = ray.cluster_resources()["CPU"]
    jobs = [Job(f"job {n}", lasting, (n,), {}) for n in range(3)]
    times = sorted(run(RayExecutor(num_cpus=cpus), jobs))
    for (_, ended), (started, _) in pairwise(times):
        assert ended <= started


@pytest.mark.parametrize("address", ["127.0.0.1:{port}", "nowhere"])
def test_an_address_without_a_cluster_is_refused_at_once(address, unused_port, tmp_path):
    Campaign.create(tmp_path / "a.db", [Continuous("x", 0, 1)], ["y"])
    address = address.format(port=unused_port)
    words = [sys.executable, "-c", COMMAND, "campaign", "refit", "a.db", "--executor", "ray"]
    # Without this knock Ray takes minutes.
    ended = subprocess.run(
        words,
        cwd=tmp_path,
        env={**os.environ, "RAY_ADDRESS": address},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 2
    assert f"no Ray cluster could be reached at RAY_ADDRESS={address} (" in ended.stderr
    assert "unset it to have one started on this machine" in ended.stderr
