"""What a job is, what runs jobs, and how finished ones are kept.

Results are kept as JSON, one file for each job, written as soon as it has finished. A sweep that
was killed does only what is missing.
"""

import hashlib
import json
import signal
import tempfile
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from twofold.core import persistence


class Job(NamedTuple):
    """A call of a function that returns JSON values, and a name for people.

    ``identity`` are JSON values that say all that decides the result; a finished job is known by
    it, by the function's name and by the version of twofold, not by what the function does.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    identity: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The same for jobs of the same result."""
        document = {
            "function": _name(self),
            "identity": dict(self.identity),
            "version": persistence.LIBRARY_VERSION,
        }
        try:
            text = json.dumps(document, sort_keys=True)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"the job {self.name!r} can only be kept if JSON can say what it is ({error}); "
                "give it such settings, or no folder"
            ) from error
        return hashlib.sha256(text.encode()).hexdigest()


class Outcome(NamedTuple):
    """What came of the job of a number: its result, or what went wrong."""

    number: int
    result: Any
    error: BaseException | None = None


class Executor(Protocol):
    """Runs jobs."""

    def map(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Run all jobs and tell what came of each as soon as it has finished, in any order.

        A job whose worker has died is tried again; one that has raised an exception is not.
        """
        ...


class JobError(ValueError):
    """Jobs have failed; those that have not are kept, where there is a folder for them."""


class WorkerLostError(RuntimeError):
    """The workers of a job have died again and again."""


class RemoteError(RuntimeError):
    """A job, or the exception that it raised, could not travel between processes."""


class ResultError(TypeError):
    """A job has returned what JSON cannot say."""


class NoOutcomeError(RuntimeError):
    """An executor has come to its end without a word of a job."""


def run(executor: Executor, jobs: Sequence[Job], folder: str | Path | None = None) -> list[Any]:
    """The results of all jobs, in their order.

    With a ``folder`` results are kept there, and those that lie there are not computed again. All
    jobs come to their end before one that has failed is reported.
    """
    place = None if folder is None else Path(folder)
    found: list[Any] = [None] * len(jobs) if place is None else _kept(place, jobs)
    missing = [number for number, one in enumerate(found) if one is None]
    if missing and place is not None:
        _refuse_bad_place(place)
    nothing = NoOutcomeError("its executor has ended without a word of it")
    failed: dict[int, BaseException] = dict.fromkeys(missing, nothing)
    # What still runs elsewhere ends with this call, whatever has ended it.
    with closing(_outcomes(executor, [jobs[number] for number in missing])) as outcomes:
        for outcome in outcomes:
            number = missing[outcome.number]
            text, error = _written(jobs[number], outcome)
            if error is not None:
                failed[number] = error
                continue
            failed.pop(number, None)
            found[number] = json.loads(text)
            if place is not None:
                _keep(place, jobs[number], text)
    if failed:
        reasons = [(jobs[number], error) for number, error in failed.items()]
        raise JobError(_told(reasons, len(jobs))) from reasons[0][1]
    return [one["result"] for one in found]


def call(
    function: Callable[..., Any], arguments: Sequence[Any]
) -> tuple[Any, BaseException | None]:
    """In every executor: what a job has returned, or what it has raised.

    ``SystemExit`` ends the job and nothing else, unless it came of the signal to end the process.
    """
    try:
        return function(*arguments), None
    except SystemExit as stopped:
        if _of_a_signal(stopped):
            raise
        return None, stopped
    except Exception as error:
        return None, error


def _of_a_signal(stopped: SystemExit) -> bool:
    """Whether the handler of SIGTERM has raised it."""
    code = getattr(signal.getsignal(signal.SIGTERM), "__code__", None)
    frames = traceback.walk_tb(stopped.__traceback__)
    return any(frame.f_code is code for frame, _ in frames)


def _name(job: Job) -> str:
    """A function's name, by which its results can be known another time."""
    module, name = (getattr(job.function, of, None) for of in ("__module__", "__qualname__"))
    if not module or not name or "<" in name:
        raise ValueError(
            f"the job {job.name!r} can only be kept if its function has a name of its own, got "
            f"{name or job.function!r}; use one that a module defines with def, or give no folder"
        )
    return f"{module}.{name}"


def _kept(folder: Path, jobs: Sequence[Job]) -> list[Any]:
    """What is kept of each job, None where there is nothing."""
    names: dict[str, str] = {}
    for job in jobs:
        if job.key in names:
            raise ValueError(
                f"the jobs {names[job.key]!r} and {job.name!r} have the same function and identity,"
                " so that one's result would be taken for the other's; put what differs into the "
                "identity, leave one out, or give no folder"
            )
        names[job.key] = job.name
    return [_stored(folder, job) for job in jobs]


def _refuse_bad_place(folder: Path) -> None:
    """Find out before the work, not after it, that nothing can be kept here."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(
            f"results are to be kept in {folder}, where no file can be written ({error}); give "
            "a folder that can be written to, or none"
        ) from error


def _outcomes(executor: Executor, jobs: Sequence[Job]) -> Generator[Outcome, None, None]:
    """What an executor tells; where there is nothing to do it is not asked."""
    if jobs:
        yield from executor.map(jobs)


def _keep(folder: Path, job: Job, text: str) -> None:
    """A file that cannot be written must not cost what has been computed."""
    try:
        persistence.write_text(_file(folder, job), text + "\n")
    except OSError as error:
        warnings.warn(
            f"the result of the job {job.name!r} could not be kept ({error}); it is there for now, "
            "but will be computed again another time",
            RuntimeWarning,
            stacklevel=3,
        )


def _written(job: Job, outcome: Outcome) -> tuple[str, BaseException | None]:
    """An outcome as JSON, or what is wrong with it."""
    if outcome.error is not None:
        return "", outcome.error
    try:
        return json.dumps({"name": job.name, "result": outcome.result}), None
    except (TypeError, ValueError) as error:
        return "", ResultError(
            f"its result must be what JSON can hold ({error}); return numbers, words, lists or "
            "dictionaries"
        )


def _file(folder: Path, job: Job) -> Path:
    return folder / f"{job.key}.json"


def _stored(folder: Path, job: Job) -> dict[str, Any] | None:
    """What is kept of a job; a file that is damaged is worth nothing."""
    try:
        content = json.loads(_file(folder, job).read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return content if isinstance(content, dict) and "result" in content else None


def _told(failed: Sequence[tuple[Job, BaseException]], total: int) -> str:
    reasons = [f"{job.name}: {type(error).__name__}: {error}" for job, error in failed]
    return f"{len(failed)} of {total} jobs failed – {'; '.join(reasons)}"
