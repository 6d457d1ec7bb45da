"""Independent jobs, run in this process or on a Ray cluster. Each result is stored in its own file
as soon as the job finishes, so that a killed sweep recomputes only what is missing."""

import json
import os
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from twofold.core import persistence
from twofold.core.naming import nearest
from twofold.core.persistence import WorkFile, hash_identity

# A wrong address is reported after some 20 seconds, where Ray would try for ten minutes.
RAY_TIMEOUTS = {"RAY_NUM_REDIS_GET_RETRIES": "1", "RAY_py_gcs_connect_timeout_s": "10"}


class Job(NamedTuple):
    """A call of a function that returns JSON values, with a display name. ``identity`` maps
    everything that determines the result to JSON values. Stored results are found by the identity,
    the function's name and the version of twofold; the function's body is not part of the key."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    identity: Mapping[str, Any]


class JobError(ValueError):
    """Some jobs failed; results of the others are stored if a folder was given."""


# A job's number with its result as JSON, or with its error.
Outcomes: TypeAlias = Generator[tuple[int, str | BaseException], None, None]


def run_jobs(
    jobs: Sequence[Job], folder: str | Path | None = None, executor: str = "local",
    ray_options: Mapping[str, Any] | None = None,
) -> list[Any]:  # fmt: skip
    """The results of all jobs, in their order; when all have ended, ``JobError`` names those that
    failed.

    Results that are in the ``folder`` are not computed again. ``executor`` is ``"local"`` (one by
    one in this process) or ``"ray"``: on the Ray cluster of this process, else the one at
    ``RAY_ADDRESS``, else one that Ray starts on this machine. ``ray_options`` are those of
    ``ray.remote``, such as ``num_cpus`` and ``num_gpus`` of each job, and ``max_retries`` if a
    worker dies (default: 3).
    """
    if executor not in EXECUTORS:
        suggestion = nearest(executor, EXECUTORS)
        raise ValueError(f"executor must be 'local' or 'ray', got {executor!r}{suggestion}")
    files = [] if folder is None else _work_files(jobs, Path(folder))
    results: dict[int, Any] = {}
    for number, stored in enumerate(file.find() for file in files):
        # Unreadable results are computed again.
        with suppress(LookupError, TypeError, ValueError):
            if stored is not None:
                results[number] = json.loads(stored.metadata["result"])
    missing = {number: job for number, job in enumerate(jobs) if number not in results}
    if missing and files:
        _check_folder(files[0])
    failed: dict[int, BaseException] = {}
    # Closing the generator cancels jobs that still run elsewhere, however this call ends.
    with closing(EXECUTORS[executor](missing, ray_options or {})) as outcomes:
        for number, outcome in outcomes:
            if isinstance(outcome, BaseException):
                failed[number] = outcome
                continue
            results[number] = json.loads(outcome)
            if files:
                _keep(files[number], jobs[number].name, outcome)
    if failed:
        reasons = "; ".join(f"{jobs[n].name}: {_describe(failed[n])}" for n in sorted(failed))
        message = f"{len(failed)} of {len(jobs)} jobs failed – {reasons}"
        raise JobError(message) from failed[min(failed)]
    return [results[number] for number in range(len(jobs))]


def _call(function: Callable[..., Any], *arguments: Any) -> str:
    """A job's result as JSON, converted where the job runs; any other result is a failure."""
    result = function(*arguments)
    try:
        return json.dumps(result)
    except (TypeError, ValueError) as error:
        rule = "a job must return JSON values"
        raise TypeError(f"{rule} ({error}); return numbers, strings, lists or dicts") from error


def _run_locally(jobs: Mapping[int, Job], _: Mapping[str, Any]) -> Outcomes:
    """One by one in this process; each may use all devices."""
    for number, job in jobs.items():
        try:
            outcome: str | BaseException = _call(job.function, *job.arguments)
        except Exception as error:
            outcome = error
        yield number, outcome


def _run_on_ray(jobs: Mapping[int, Job], options: Mapping[str, Any]) -> Outcomes:
    """Run as Ray tasks, which are retried if their worker dies, but not after an exception."""
    if not jobs:
        return
    ray = _connect()
    remote = ray.remote(_call).options(**options)
    # Arrays are stored once, however many jobs read them.
    arrays = [a for job in jobs.values() for a in job.arguments if isinstance(a, np.ndarray)]
    shared = {n: ray.put(a) for n, a in {id(a): a for a in arrays if not a.dtype.hasobject}.items()}
    running: dict[Any, int] = {}
    try:
        for number, job in jobs.items():
            arguments = [shared.get(id(one), one) for one in job.arguments]
            try:
                running[remote.remote(job.function, *arguments)] = number
            except Exception as error:  # cannot be pickled
                yield number, error
        while running:
            (task,), _ = ray.wait(list(running), num_returns=1)
            number = running.pop(task)
            try:
                outcome = ray.get(task)
            except ray.exceptions.RayError as error:
                outcome = error
            yield number, outcome
    finally:
        for task in running:
            ray.cancel(task, force=True)


EXECUTORS = {"local": _run_locally, "ray": _run_on_ray}


def _connect() -> Any:
    """Import Ray and connect it to a cluster."""
    address = os.environ.get("RAY_ADDRESS") or "local"
    if address != "local":
        os.environ.update(RAY_TIMEOUTS | dict(os.environ))
    try:
        import ray

        if not ray.is_initialized():
            ray.init()
    except ImportError as error:
        needed = "jobs on a cluster need Ray, which is not installed"
        raise ImportError(f"{needed}; pip install 'twofold[ray]'") from error
    except Exception as error:
        raise ConnectionError(
            f"no Ray cluster for RAY_ADDRESS={address} ({_describe(error)}); name one that "
            "runs, or unset RAY_ADDRESS to have one started on this machine"
        ) from error
    return ray


def _describe(error: BaseException) -> str:
    """An error in one line, without the wrapper that Ray adds."""
    cause = getattr(error, "cause", None)
    error = cause if isinstance(cause, BaseException) else error
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _work_files(jobs: Sequence[Job], folder: Path) -> list[WorkFile]:
    files: dict[str, WorkFile] = {}
    for job in jobs:
        refusal = f"the result of job {job.name!r} cannot be stored"
        name = getattr(job.function, "__qualname__", "<unnamed>")
        if "<" in name:
            what = f"{job.function!r} has no name of its own"
            raise ValueError(
                f"{refusal}: {what}; define it with def in a module, or give no folder"
            )
        function, version = f"{job.function.__module__}.{name}", persistence.LIBRARY_VERSION
        identity = {"function": function, "identity": job.identity, "version": version}
        try:
            place = hash_identity(identity)
        except (TypeError, ValueError) as error:
            remedy = "change it, or give no folder"
            raise ValueError(f"{refusal}: its identity is not JSON ({error}); {remedy}") from error
        if place in files:
            same = f"has the same function and identity as {jobs[list(files).index(place)].name!r}"
            raise ValueError(f"{refusal}: it {same}; change its identity, or give no folder")
        files[place] = WorkFile(folder / place, "result", identity)
    return list(files.values())


def _check_folder(file: WorkFile) -> None:
    """Check before the jobs run that results can be stored."""
    folder = file.path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.check_writable()
    except OSError as error:
        remedy = "give a folder that can be written to, or none"
        raise OSError(f"results cannot be stored in {folder} ({error}); {remedy}") from error


def _keep(file: WorkFile, name: str, result: str) -> None:
    """Store a result; if that fails, warn and keep the computed result."""
    try:
        file.write({}, {"name": name, "result": result})
    except OSError as error:
        problem = f"the result of job {name!r} could not be stored ({error})"
        warnings.warn(f"{problem}; next time it is computed again", RuntimeWarning, stacklevel=3)
