"""Finished jobs are kept, failed ones are named, and neither is run again without need."""

import os
import signal
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from twofold.core import jobs, persistence
from twofold.core.jobs import Job, JobError, run_jobs

# A sweep whose third job kills the whole process when it is run for the first time.
SWEEP = """
import os, signal, sys
from pathlib import Path
from twofold.core import naming, persistence
from twofold.core.jobs import Job, run_jobs

place = Path(sys.argv[1])

def square(number):
    with (place / f"{number}.runs").open("a") as file:
        file.write("x")
    if number == 2 and (place / "2.runs").read_text() == "x":
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2

jobs = [Job(f"job {n}", square, (n,), {"number": n}) for n in range(5)]
print(run_jobs(jobs, place / "results"))
assert "jax" not in sys.modules
"""


def square(folder, number, fails=False):
    """Leave a mark each time."""
    with (folder / f"{number}.runs").open("a") as file:
        file.write("x")
    if fails:
        raise KeyError(f"no {number}")
    return {"square": number**2}


def answer(value):
    return value


def sweep(folder, numbers=range(4), fails=()):
    """Jobs that leave a mark each time they are run."""
    return [
        Job(f"job {n}", square, (folder, n, n in fails), {"number": n, "fails": n in fails})
        for n in numbers
    ]


def count_runs(folder):
    return {int(path.stem): len(path.read_text()) for path in folder.glob("*.runs")}


def test_results_come_in_order_and_finished_jobs_are_not_run_again(tmp_path):
    kept = tmp_path / "results"
    assert run_jobs(sweep(tmp_path, range(2)), kept) == [{"square": 0}, {"square": 1}]
    assert run_jobs(sweep(tmp_path), kept) == [{"square": n**2} for n in range(4)]
    assert count_runs(tmp_path) == dict.fromkeys(range(4), 1)
    assert len(list(kept.iterdir())) == 4


def test_without_a_folder_nothing_is_kept(tmp_path):
    for _ in range(2):
        run_jobs(sweep(tmp_path, [3]))
    assert count_runs(tmp_path) == {3: 2}


def test_another_identity_is_another_job(tmp_path):
    for value in (1, 2):
        assert run_jobs([Job("same name", answer, (value,), {"value": value})], tmp_path) == [value]


def test_another_version_is_another_job_and_another_body_is_not(tmp_path, monkeypatch):
    def same(value):
        return -value

    same.__module__, same.__qualname__ = answer.__module__, answer.__qualname__
    job = Job("one", answer, (1,), {})
    assert run_jobs([job], tmp_path) == [1]
    job = job._replace(function=same)
    assert run_jobs([job], tmp_path) == [1]
    monkeypatch.setattr(persistence, "LIBRARY_VERSION", "another")
    assert run_jobs([job], tmp_path) == [-1]


def test_results_are_the_same_json_values_when_computed_and_when_found(tmp_path):
    job = Job("one", answer, ((float("nan"), float("inf"), {"a": (1, None)}),), {})
    first, found = run_jobs([job], tmp_path), run_jobs([job], tmp_path)
    assert repr(first) == repr(found) == "[[nan, inf, {'a': [1, None]}]]"


def test_a_damaged_result_is_computed_again(tmp_path):
    kept = tmp_path / "results"
    run_jobs(sweep(tmp_path, [1, 2]), kept)
    damaged, other = sorted(kept.iterdir())
    damaged.write_bytes(damaged.read_bytes()[:-5])
    other.write_text("[1]")
    assert run_jobs(sweep(tmp_path, [1, 2]), kept) == [{"square": 1}, {"square": 4}]
    assert count_runs(tmp_path) == {1: 2, 2: 2}


def test_a_result_with_other_content_under_a_right_checksum_is_computed_again(tmp_path):
    kept = tmp_path / "results"
    run_jobs(sweep(tmp_path, [1]), kept)
    (path,) = kept.iterdir()
    whole = persistence.read(path, "result").metadata
    without = {name: value for name, value in whole.items() if name != "result"}
    changes = [without, whole | {"result": "{"}, whole | {"result": 3}, whole | {"identity": 3}]
    for turn, content in enumerate(changes):
        persistence.write(path, "result", {}, content)
        assert run_jobs(sweep(tmp_path, [1]), kept) == [{"square": 1}]
        assert count_runs(tmp_path) == {1: 2 + turn}


def test_a_failed_job_is_named_after_the_others_have_finished(tmp_path):
    kept = tmp_path / "results"
    with pytest.raises(JobError, match=r"1 of 4 jobs failed – job 1: KeyError: 'no 1'") as failed:
        run_jobs(sweep(tmp_path, fails=[1]), kept)
    assert isinstance(failed.value.__cause__, KeyError)
    assert count_runs(tmp_path) == dict.fromkeys(range(4), 1)
    run_jobs(sweep(tmp_path), kept)
    assert count_runs(tmp_path) == {0: 1, 1: 2, 2: 1, 3: 1}


def test_a_sweep_that_was_killed_does_only_what_is_missing(tmp_path):
    words = [sys.executable, "-c", SWEEP, tmp_path]
    assert subprocess.run(words, timeout=120).returncode == -signal.SIGKILL
    assert count_runs(tmp_path) == {0: 1, 1: 1, 2: 1}
    again = subprocess.run(words, timeout=120, capture_output=True, text=True, check=True)
    assert again.stdout.strip() == str([0, 1, 4, 9, 16])
    assert count_runs(tmp_path) == {0: 1, 1: 1, 2: 2, 3: 1, 4: 1}


def test_an_identity_that_is_not_json_cannot_be_kept(tmp_path):
    job = Job("odd", os.getpid, (), {"state": object()})
    assert run_jobs([job]) == [os.getpid()]
    with pytest.raises(ValueError, match=r"'odd' cannot be stored: its identity .*JSON"):
        run_jobs([job], tmp_path)


def test_an_unknown_executor_is_refused():
    with pytest.raises(ValueError, match="got 'rya'; did you mean 'ray'"):
        run_jobs([], executor="rya")


@pytest.mark.parametrize("result", [object(), np.ones(2)], ids=["object", "array"])
def test_a_result_that_is_not_json_is_a_failure_of_its_job_alone(result, tmp_path):
    odd = [Job("odd", answer, (result,), {"n": 1}), *sweep(tmp_path, [2])]
    with pytest.raises(JobError, match=r"1 of 2 jobs failed – odd: TypeError: .*JSON values"):
        run_jobs(odd, tmp_path / "results")
    assert len(list((tmp_path / "results").iterdir())) == 1


def test_what_still_runs_is_ended_whatever_ends_a_sweep(tmp_path, monkeypatch):
    ended = []

    def run_locally(missing, options):
        try:
            yield from jobs.EXECUTORS["local"](missing, options)
        finally:
            ended.append(True)

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setitem(jobs.EXECUTORS, "watched", run_locally)
    monkeypatch.setattr(persistence, "write", stop)
    with pytest.raises(KeyboardInterrupt) as stopped:
        run_jobs(sweep(tmp_path), tmp_path / "results", "watched")
    # The error holds the frames, and with them all that has not been ended.
    assert ended and stopped.value is not None
    assert count_runs(tmp_path) == {0: 1}


def test_a_result_that_cannot_be_kept_is_not_lost(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(persistence, "write", full)
        with pytest.warns(RuntimeWarning, match=r"job 2.* could not be stored .*No space left"):
            assert run_jobs(sweep(tmp_path, [2]), tmp_path / "r") == [{"square": 4}]
    run_jobs(sweep(tmp_path, [2]), tmp_path / "r")
    assert count_runs(tmp_path) == {2: 2}


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/nothing"])
def test_a_folder_that_cannot_be_written_is_refused_before_the_work(place, tmp_path):
    if place.startswith("/proc") and not os.path.isdir("/proc"):
        pytest.skip("/proc takes no files")
    (tmp_path / "file").write_text("a file where the folder should be")
    with pytest.raises(OSError, match=r"results cannot be stored in .*; give a folder"):
        run_jobs(sweep(tmp_path), tmp_path / place)
    assert count_runs(tmp_path) == {}


def test_a_folder_that_holds_all_results_need_not_be_written(tmp_path, monkeypatch):
    kept = tmp_path / "results"
    wanted = run_jobs(sweep(tmp_path), kept)
    monkeypatch.setattr(jobs, "_check_folder", None)
    assert run_jobs(sweep(tmp_path), kept) == wanted


def test_jobs_that_cannot_be_told_from_each_other_are_refused(tmp_path):
    same = [Job(f"job {n}", answer, (n,), {}) for n in range(3)]
    assert run_jobs(same) == [0, 1, 2]
    with pytest.raises(ValueError, match=r"'job 1' .* the same function and identity as 'job 0'"):
        run_jobs(same, tmp_path)


class Answerer:
    def __call__(self, value):
        return value


def make_local():
    def function(value):
        return value

    return function


@pytest.mark.parametrize(
    "function",
    [lambda value: value, make_local(), partial(answer), Answerer()],
    ids=["lambda", "local", "partial", "object"],
)
def test_results_of_functions_without_a_name_cannot_be_kept(function, tmp_path):
    job = Job("odd", function, (3,), {})
    assert run_jobs([job]) == [3]
    with pytest.raises(ValueError, match=r"'odd' cannot be stored: .* no name of its own"):
        run_jobs([job], tmp_path)


def test_without_ray_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'twofold\[ray\]'"):
        run_jobs(sweep(tmp_path, [1]), executor="ray")


def test_a_cluster_that_does_not_start_is_reported_in_one_sentence(monkeypatch, tmp_path):
    def init():
        raise RuntimeError("timed out\nand much more")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=bool, init=init))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(ConnectionError, match=r"no Ray cluster .*\(RuntimeError: timed out\); "):
        run_jobs(sweep(tmp_path, [1]), executor="ray")
