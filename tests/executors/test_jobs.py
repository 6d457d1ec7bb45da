"""Finished jobs are kept, failed ones are named, and neither is done again without need."""

import json
import os
import signal
import subprocess
import sys

import pytest

from twofold.executors import Job, JobError, LocalExecutor, RayExecutor, named, run

# A sweep whose third job kills the whole process when it is run for the first time.
SWEEP = """
import os, signal, sys
from pathlib import Path
from twofold.executors import Job, LocalExecutor, run

place = Path(sys.argv[1])

def square(number):
    with (place / f"{number}.runs").open("a") as file:
        file.write("x")
    if number == 2 and (place / "2.runs").read_text() == "x":
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2

jobs = [Job(f"job {n}", square, (n,), {"number": n}) for n in range(5)]
print(run(LocalExecutor(), jobs, place / "results"))
"""


def sweep(folder, numbers=range(4), fails=()):
    """Jobs that leave a mark each time they are run."""

    def square(number):
        with (folder / f"{number}.runs").open("a") as file:
            file.write("x")
        if number in fails:
            raise KeyError(f"no {number}")
        return {"square": number**2}

    return [Job(f"job {n}", square, (n,), {"number": n}) for n in numbers]


def runs(folder):
    return {int(path.stem): len(path.read_text()) for path in folder.glob("*.runs")}


def test_results_come_in_order_and_finished_jobs_are_not_run_again(tmp_path):
    kept = tmp_path / "results"
    assert run(LocalExecutor(), sweep(tmp_path, range(2)), kept) == [{"square": 0}, {"square": 1}]
    found = run(LocalExecutor(), sweep(tmp_path), kept)
    assert found == [{"square": n**2} for n in range(4)]
    assert runs(tmp_path) == dict.fromkeys(range(4), 1)
    assert len(list(kept.glob("*.json"))) == 4


def test_without_a_folder_nothing_is_kept(tmp_path):
    for _ in range(2):
        run(LocalExecutor(), sweep(tmp_path, [3]))
    assert runs(tmp_path) == {3: 2}


def test_another_identity_is_another_job(tmp_path):
    def answer(value):
        return value

    for value in (1, 2):
        job = Job("same name", answer, (value,), {"value": value})
        assert run(LocalExecutor(), [job], tmp_path) == [value]


def test_a_damaged_result_is_computed_anew(tmp_path):
    kept = tmp_path / "results"
    run(LocalExecutor(), sweep(tmp_path, [1, 2]), kept)
    damaged, other = sorted(kept.glob("*.json"))
    damaged.write_text(damaged.read_text()[:-5])
    other.write_text(json.dumps([1]))
    assert run(LocalExecutor(), sweep(tmp_path, [1, 2]), kept) == [{"square": 1}, {"square": 4}]
    assert runs(tmp_path) == {1: 2, 2: 2}


def test_a_failed_job_is_named_after_the_others_have_finished(tmp_path):
    kept = tmp_path / "results"
    with pytest.raises(JobError, match=r"1 of 4 jobs failed – job 1: KeyError: 'no 1'") as failed:
        run(LocalExecutor(), sweep(tmp_path, fails=[1]), kept)
    assert isinstance(failed.value.__cause__, KeyError)
    assert runs(tmp_path) == dict.fromkeys(range(4), 1)
    run(LocalExecutor(), sweep(tmp_path), kept)
    assert runs(tmp_path) == {0: 1, 1: 2, 2: 1, 3: 1}


def test_a_sweep_that_was_killed_does_only_what_is_missing(tmp_path):
    words = [sys.executable, "-c", SWEEP, tmp_path]
    assert subprocess.run(words, timeout=120).returncode == -signal.SIGKILL
    assert runs(tmp_path) == {0: 1, 1: 1, 2: 1}
    again = subprocess.run(words, timeout=120, capture_output=True, text=True, check=True)
    assert again.stdout.strip() == str([0, 1, 4, 9, 16])
    assert runs(tmp_path) == {0: 1, 1: 1, 2: 2, 3: 1, 4: 1}


def test_what_json_cannot_say_cannot_be_kept(tmp_path):
    job = Job("odd", os.getpid, (), {"state": object()})
    assert run(LocalExecutor(), [job]) == [os.getpid()]
    with pytest.raises(ValueError, match="'odd' can only be kept if JSON"):
        run(LocalExecutor(), [job], tmp_path)


def test_executors_have_names():
    assert isinstance(named("local"), LocalExecutor)
    assert isinstance(named("ray"), RayExecutor)
    with pytest.raises(ValueError, match="local, ray, got 'rya'; did you mean 'ray'"):
        named("rya")


def test_without_ray_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'twofold\[ray\]'"):
        run(RayExecutor(), sweep(tmp_path, [1]))


def test_a_number_of_tries_that_is_none_is_refused():
    with pytest.raises(ValueError, match="tries must be at least 1, got 0"):
        RayExecutor(tries=0)


def test_a_result_that_json_cannot_say_is_a_failure_of_its_job_alone(tmp_path):
    jobs = [Job("odd", object, (), {"n": 1}), *sweep(tmp_path, [2])]
    with pytest.raises(JobError, match=r"1 of 2 jobs failed – odd: ResultError: .*JSON can hold"):
        run(LocalExecutor(), jobs, tmp_path / "results")
    assert len(list((tmp_path / "results").glob("*.json"))) == 1


def test_what_still_runs_is_ended_when_results_cannot_be_kept(tmp_path):
    ended = []

    class Watched(LocalExecutor):
        def map(self, jobs):
            try:
                yield from super().map(jobs)
            finally:
                ended.append(True)

    def obstruct():
        (tmp_path / "results").write_text("a file where the folder should be")

    jobs = [Job("first", obstruct, (), {}), *sweep(tmp_path)]
    with pytest.raises(FileExistsError) as failed:
        run(Watched(), jobs, tmp_path / "results")
    # The error holds the frames, and with them all that has not been ended.
    assert ended == [True] and failed.value is not None
    assert runs(tmp_path) == {}


def test_ctrl_c_waits_until_ray_has_started(monkeypatch, tmp_path):
    started = []

    class Ray:
        """Stopped while it starts, as Ctrl-C does it."""

        @staticmethod
        def is_initialized():
            return False

        @staticmethod
        def init(**_):
            os.kill(os.getpid(), signal.SIGINT)
            started.append(True)

    monkeypatch.setitem(sys.modules, "ray", Ray)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(RayExecutor(), sweep(tmp_path, [1]))
    assert started == [True] and signal.getsignal(signal.SIGINT) is before


def test_a_cluster_that_does_not_start_is_spoken_of(monkeypatch, tmp_path):
    class Ray:
        """Fails as Ray does on a machine that is too busy."""

        @staticmethod
        def is_initialized():
            return False

        @staticmethod
        def init(**_):
            raise RuntimeError("timed out\nand much more")

    monkeypatch.setitem(sys.modules, "ray", Ray)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(ConnectionError, match=r"could be started here \(timed out\); start one"):
        run(RayExecutor(), sweep(tmp_path, [1]))
