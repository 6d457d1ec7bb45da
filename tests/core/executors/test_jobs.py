"""Finished jobs are kept, failed ones are named, and neither is done again without need."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from functools import partial

import pytest

from twofold.core import persistence
from twofold.core.executors import Job, JobError, LocalExecutor, RayExecutor, named, on_ray, run

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
    for value in (1, 2):
        job = Job("same name", answer, (value,), {"value": value})
        assert run(LocalExecutor(), [job], tmp_path) == [value]


def test_another_version_is_another_job_and_another_body_is_not(tmp_path, monkeypatch):
    def same(value):
        return -value

    same.__module__, same.__qualname__ = answer.__module__, answer.__qualname__
    job = Job("one", answer, (1,), {})
    assert run(LocalExecutor(), [job], tmp_path) == [1]
    job = job._replace(function=same)
    assert run(LocalExecutor(), [job], tmp_path) == [1]
    monkeypatch.setattr(persistence, "LIBRARY_VERSION", "another")
    assert run(LocalExecutor(), [job], tmp_path) == [-1]


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


class Watched(LocalExecutor):
    """Remembers that it has come to its end."""

    ended = False

    def map(self, jobs):
        try:
            yield from super().map(jobs)
        finally:
            self.ended = True


def test_what_still_runs_is_ended_whatever_ends_a_sweep(tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(persistence, "write_text", stop)
    executor = Watched()
    with pytest.raises(KeyboardInterrupt) as stopped:
        run(executor, sweep(tmp_path), tmp_path / "results")
    # The error holds the frames, and with them all that has not been ended.
    assert executor.ended and stopped.value is not None
    assert runs(tmp_path) == {0: 1}


def test_a_result_that_cannot_be_kept_is_not_lost(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(persistence, "write_text", full)
        with pytest.warns(RuntimeWarning, match=r"job 2.* could not be kept .*No space left"):
            assert run(LocalExecutor(), sweep(tmp_path, [2]), tmp_path / "r") == [{"square": 4}]
    run(LocalExecutor(), sweep(tmp_path, [2]), tmp_path / "r")
    assert runs(tmp_path) == {2: 2}


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/nothing"])
def test_a_folder_that_cannot_be_written_is_refused_before_the_work(place, tmp_path):
    if place.startswith("/proc") and not os.path.isdir("/proc"):
        pytest.skip("/proc takes no files")
    (tmp_path / "file").write_text("a file where the folder should be")
    with pytest.raises(OSError, match=r"results are to be kept in .*, where no file can be"):
        run(LocalExecutor(), sweep(tmp_path), tmp_path / place)
    assert runs(tmp_path) == {}


def test_a_folder_that_holds_all_results_need_not_be_written(tmp_path, monkeypatch):
    kept = tmp_path / "results"
    wanted = run(LocalExecutor(), sweep(tmp_path), kept)
    monkeypatch.setattr("tempfile.TemporaryFile", None)
    assert run(LocalExecutor(), sweep(tmp_path), kept) == wanted


def test_jobs_that_cannot_be_told_from_each_other_are_refused(tmp_path):
    jobs = [Job(f"job {n}", answer, (n,), {}) for n in range(3)]
    assert run(LocalExecutor(), jobs) == [0, 1, 2]
    with pytest.raises(ValueError, match="the jobs 'job 0' and 'job 1' have the same function"):
        run(LocalExecutor(), jobs, tmp_path)


class Answerer:
    def __call__(self, value):
        return value


def local():
    def function(value):
        return value

    return function


@pytest.mark.parametrize(
    "function",
    [lambda value: value, local(), partial(answer), Answerer()],
    ids=["lambda", "local", "partial", "object"],
)
def test_results_of_functions_without_a_name_cannot_be_kept(function, tmp_path):
    job = Job("odd", function, (3,), {})
    assert run(LocalExecutor(), [job]) == [3]
    with pytest.raises(ValueError, match="'odd' can only be kept if its function has a name"):
        run(LocalExecutor(), [job], tmp_path)


def test_jobs_that_an_executor_says_nothing_of_are_named(tmp_path):
    class Forgetful(LocalExecutor):
        def map(self, jobs):
            yield from (one for one in super().map(jobs) if one.number != 1)

    with pytest.raises(JobError, match=r"1 of 4 jobs failed – job 1: NoOutcomeError: .*a word"):
        run(Forgetful(), sweep(tmp_path), tmp_path / "results")
    assert len(list((tmp_path / "results").glob("*.json"))) == 3


@pytest.mark.parametrize("code", [None, 1, "a sentence"])
def test_system_exit_is_the_failure_of_its_job_alone(code, tmp_path):
    jobs = [Job("leaves", sys.exit, (code,), {}), *sweep(tmp_path, [2])]
    with pytest.raises(JobError, match=rf"1 of 2 jobs failed – leaves: SystemExit: {code or ''}"):
        run(LocalExecutor(), jobs)
    assert runs(tmp_path) == {2: 1}


def test_the_signal_to_end_the_process_ends_the_sweep(tmp_path):
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        jobs = [Job("told", os.kill, (os.getpid(), signal.SIGTERM), {}), *sweep(tmp_path, [2])]
        with pytest.raises(SystemExit) as stopped:
            run(LocalExecutor(), jobs)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert stopped.value.code == 143 and runs(tmp_path) == {}


def starting(monkeypatch, init):
    """Ray, not yet started, that is started so."""

    class Ray:
        @staticmethod
        def is_initialized():
            return False

    Ray.init = staticmethod(lambda **_: init())
    monkeypatch.setitem(sys.modules, "ray", Ray)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_waits_until_ray_has_started(monkeypatch, tmp_path):
    started = []

    def init():
        press()
        started.append(True)

    starting(monkeypatch, init)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(RayExecutor(), sweep(tmp_path, [1]))
    assert started == [True] and signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_is_not_forgotten_where_ray_does_not_start(monkeypatch, tmp_path):
    def init():
        press()
        raise RuntimeError("timed out")

    starting(monkeypatch, init)
    with pytest.raises(KeyboardInterrupt):
        run(RayExecutor(), sweep(tmp_path, [1]))


@pytest.mark.parametrize(("address", "times"), [("", 2), ("local", 2), ("auto", 1)])
def test_ctrl_c_is_obeyed_at_once_when_pressed_again_or_elsewhere(
    address, times, monkeypatch, tmp_path
):
    pressed = []

    def init():
        for _ in range(5):
            pressed.append(True)
            press()

    starting(monkeypatch, init)
    monkeypatch.setenv("RAY_ADDRESS", address)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(RayExecutor(), sweep(tmp_path, [1]))
    assert len(pressed) == times and signal.getsignal(signal.SIGINT) is before


def test_who_does_not_hear_ctrl_c_goes_on_not_hearing_it(monkeypatch, tmp_path):
    def init():
        press()
        raise RuntimeError("timed out")

    starting(monkeypatch, init)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(ConnectionError, match="timed out"):
            run(RayExecutor(), sweep(tmp_path, [1]))
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_cluster_that_does_not_start_is_spoken_of(monkeypatch, tmp_path):
    def init():
        raise RuntimeError("timed out\nand much more")

    starting(monkeypatch, init)
    with pytest.raises(ConnectionError, match=r"could be started here \(timed out\); start one"):
        run(RayExecutor(), sweep(tmp_path, [1]))


@pytest.fixture
def stranger():
    """Starts a server at which something else than Ray listens, which says some bytes or nothing;
    gives its port."""
    servers, ended = [], threading.Event()

    def serve(server, said):
        connection, _ = server.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(said)
            if not said:
                ended.wait()

    def start(said):
        servers.append(socket.create_server(("127.0.0.1", 0)))
        threading.Thread(target=serve, args=(servers[-1], said), daemon=True).start()
        return servers[-1].getsockname()[1]

    yield start
    ended.set()
    for server in servers:
        server.close()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"", r"something listens there, but gave no answer within 0\.2 seconds"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "what listens there does not answer as Ray does"),
        (b"HTTP", "what listens there does not answer as Ray does"),
    ],
)
@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_stranger_at_the_address_is_not_taken_for_ray(
    scheme, said, reason, stranger, monkeypatch, tmp_path
):
    begun = []
    starting(monkeypatch, lambda: begun.append(True))
    monkeypatch.setattr(on_ray, "ANSWER_SECONDS", 0.2)
    address = f"{scheme}127.0.0.1:{stranger(said)}"
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ConnectionError, match=rf"RAY_ADDRESS={address} \({reason}\); name one"):
        run(RayExecutor(), sweep(tmp_path, [1]))
    assert not begun
