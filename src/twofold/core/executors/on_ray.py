"""Jobs on a Ray cluster."""

import os
import signal
import socket
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from twofold.core.executors.jobs import Job, Outcome, RemoteError, WorkerLostError, call

TRIES = 4
ADDRESS = "RAY_ADDRESS"
OWN = ("", "local")  # addresses for which Ray starts a cluster
ANSWER_SECONDS = 10.0  # a head node that takes longer to answer is as good as none
# How HTTP/2 begins, which Ray speaks: the client's first words with settings that are empty, and
# the head of the server's settings behind its three bytes of length (RFC 9113, sections 3.4, 4.1).
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
ANSWER = bytes([4, 0, 0, 0, 0, 0])


class RayExecutor:
    """Runs jobs on the Ray cluster that this process belongs to, or else on one of its own.

    ``tries`` is how often a job is begun whose worker dies. ``options`` are those of
    ``ray.remote``, such as ``num_cpus`` and ``num_gpus`` of each job.
    """

    def __init__(self, tries: int = TRIES, **options: Any):
        if tries < 1:
            raise ValueError(f"tries must be at least 1, got {tries}")
        self._tries = tries
        self._options = options

    def map(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """See ``Executor.map``."""
        ray = _connected()
        _warn_of_waiting(ray, self._options)
        # Ray's own retries could not be counted, nor told from each other.
        remote = ray.remote(**{**self._options, "max_retries": 0})(_call)
        shared = _put(ray, jobs)
        tried = [0] * len(jobs)
        running: dict[Any, int] = {}

        def begin(number: int) -> Iterator[Outcome]:
            """Send a job to a worker; tells only of one that cannot be sent."""
            tried[number] += 1
            try:
                arguments = [_reference(shared, one) for one in jobs[number].arguments]
                running[remote.remote(jobs[number].function, *arguments)] = number
            except Exception as error:
                yield Outcome(number, None, _unsent(error))

        try:
            for number in range(len(jobs)):
                yield from begin(number)
            while running:
                (reference,), _ = ray.wait(list(running), num_returns=1)
                number = running.pop(reference)
                answer = _answer(ray, reference)
                if answer.lost is None:
                    yield Outcome(number, answer.result, answer.error)
                elif tried[number] < self._tries:
                    yield from begin(number)
                else:
                    yield Outcome(number, None, _lost(tried[number], answer.lost))
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


class _Answer(NamedTuple):
    """What came of a try: a result, or what the job has raised, or how its worker was lost."""

    result: Any = None
    error: BaseException | None = None
    lost: BaseException | None = None


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            "jobs on a cluster need Ray, which is not installed; pip install 'twofold[ray]'"
        ) from error
    return ray


def _connected() -> Any:
    """Ray, of a cluster."""
    ray = _ray()
    if not ray.is_initialized():
        address = os.environ.get(ADDRESS, "")
        try:
            _knock(address)
            with _undisturbed() if address in OWN else nullcontext():
                ray.init(log_to_driver=False)
        except Exception as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise ConnectionError(
                f"no Ray cluster could be started here ({reason}); start one with ray start --head"
                if address in OWN
                else f"no Ray cluster could be reached at {ADDRESS}={address} ({reason}); name one "
                "that runs, or unset it to have one started on this machine"
            ) from error
    return ray


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C waits until the end, for Ray that is stopped while it starts leaves processes behind;
    who presses it again does not wish to wait."""
    before = signal.getsignal(signal.SIGINT)
    # Signals reach the main thread only, and some processes do not hear this one.
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    pressed: list[bool] = []

    def remember(*_: Any) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(True)

    signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed:
            raise KeyboardInterrupt


def _knock(address: str) -> None:
    """Ray itself would wait for minutes where nobody listens, or somebody else."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        return
    place = host.strip("[]"), int(port)
    with socket.create_connection(place, ANSWER_SECONDS) as connection:
        if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
            return  # it does not answer before certificates are shown
        connection.sendall(GREETING)
        _refuse_stranger(connection)


def _refuse_stranger(connection: socket.socket) -> None:
    """Only what answers as Ray's servers do may be Ray."""
    try:
        answer = connection.makefile("rb").read(3 + len(ANSWER))
    except TimeoutError as error:
        raise TimeoutError(
            f"something listens there, but gave no answer within {ANSWER_SECONDS:g} seconds"
        ) from error
    if answer[3:] != ANSWER:
        raise ConnectionError("what listens there does not answer as Ray does")


def _warn_of_waiting(ray: Any, options: dict[str, Any]) -> None:
    """Jobs wait for a node that can take them, which may yet join; silently, if for ever."""
    wanted = {"CPU": options.get("num_cpus", 1), "GPU": options.get("num_gpus", 0)}
    wanted = {name: n for name, n in (wanted | (options.get("resources") or {})).items() if n}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if any(all(node.get(name, 0) >= n for name, n in wanted.items()) for node in nodes):
        return
    asked = ", ".join(f"{n:g} {name}" for name, n in wanted.items())
    warnings.warn(
        f"each job asks for {asked}, and no node of the Ray cluster has that much; jobs wait until "
        "one joins – ask for less, or add one",
        RuntimeWarning,
        stacklevel=2,
    )


def _put(ray: Any, jobs: Sequence[Job]) -> dict[int, Any]:
    """Arrays go to the cluster once, however many jobs read them; of one that cannot, the error."""
    shared: dict[int, Any] = {}
    for one in (one for job in jobs for one in job.arguments):
        if isinstance(one, np.ndarray) and id(one) not in shared:
            try:
                shared[id(one)] = ray.put(one)
            except Exception as error:
                shared[id(one)] = error
    return shared


def _reference(shared: dict[int, Any], argument: Any) -> Any:
    """What is sent of an argument."""
    found = shared.get(id(argument), argument)
    if found is not argument and isinstance(found, Exception):
        raise found
    return found


def _call(function: Callable[..., Any], *arguments: Any) -> _Answer:
    """In the worker: what the job returns or raises.

    Exceptions come back as values, for Ray takes one that cannot be unpickled for a fault of its
    own.
    """
    result, error = call(function, arguments)
    return _Answer(result, None if error is None else _portable(error))


def _portable(error: BaseException) -> BaseException:
    """The exception, or one that says the same where it cannot travel."""
    from ray import cloudpickle

    where = "".join(traceback.format_exception(error))
    try:
        copied = cloudpickle.loads(cloudpickle.dumps(error))
        travels = type(copied) is type(error) and str(copied) == str(error)
    except Exception:
        travels = False
    told = error if travels else RemoteError(f"{type(error).__name__}: {error}")
    told.add_note(f"In the worker:\n{where}")
    return told


def _answer(ray: Any, reference: Any) -> _Answer:
    """What a worker has answered, if it has."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause if isinstance(error.cause, BaseException) else error
        # So KeyboardInterrupt arrives.
        stopped = isinstance(cause, ray.exceptions.TaskCancelledError)
        return _Answer(lost=cause) if stopped else _Answer(error=cause)
    except ray.exceptions.RayError as error:
        return _Answer(lost=error)


def _unsent(error: BaseException) -> RemoteError:
    # Ray looks for what is wrong with an argument, and may stumble over that too.
    while (before := error.__cause__ or error.__context__) is not None:
        error = before
    reason = (str(error) or type(error).__name__).splitlines()[0]
    return RemoteError(
        f"it cannot be sent to a worker ({reason}); its function and arguments must be such that "
        "pickle can copy them: no locks, open files or connections"
    )


def _lost(tries: int, error: BaseException) -> WorkerLostError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return WorkerLostError(
        f"its worker died {tries} times, last of {type(error).__name__} ({reason}); look for too "
        "little memory, and for what the job does that could end its process"
    )
