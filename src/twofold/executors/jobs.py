"""What a job is, what runs jobs, and how finished ones are kept.

Results are kept as JSON, one file for each job, written as soon as it has finished. A sweep that
was killed does only what is missing.
"""

import hashlib
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from twofold import persistence


class Job(NamedTuple):
    """A call of a function that returns JSON values, and a name for people.

    ``identity`` are JSON values that say all that decides the result; a finished job is known by
    it, by the function's name and by the version of twofold.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    identity: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The same for jobs of the same result."""
        document = {
            "function": f"{self.function.__module__}.{self.function.__qualname__}",
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


def run(executor: Executor, jobs: Sequence[Job], folder: str | Path | None = None) -> list[Any]:
    """The results of all jobs, in their order.

    With a ``folder`` results are kept there, and those that lie there are not computed again. All
    jobs come to their end before one that has failed is reported.
    """
    place = None if folder is None else Path(folder)
    found = [None if place is None else _stored(place, job) for job in jobs]
    missing = [number for number, one in enumerate(found) if one is None]
    failed: list[tuple[Job, BaseException]] = []
    outcomes = executor.map([jobs[number] for number in missing]) if missing else iter(())
    try:
        for outcome in outcomes:
            job = jobs[missing[outcome.number]]
            outcome = _said(outcome)
            if outcome.error is not None:
                failed.append((job, outcome.error))
                continue
            text = json.dumps({"name": job.name, "result": outcome.result})
            found[missing[outcome.number]] = json.loads(text)
            if place is not None:
                place.mkdir(parents=True, exist_ok=True)
                persistence.write_text(_file(place, job), text + "\n")
    finally:
        # What still runs elsewhere ends with this call, whatever has ended it.
        if isinstance(outcomes, Generator):
            outcomes.close()
    if failed:
        raise JobError(_told(failed, len(jobs))) from failed[0][1]
    return [one["result"] for one in found if one is not None]


def _said(outcome: Outcome) -> Outcome:
    """The outcome; a result that JSON cannot say is an error."""
    try:
        json.dumps(outcome.result)
    except (TypeError, ValueError) as error:
        wrong = ResultError(
            f"its result must be what JSON can hold ({error}); return numbers, words, lists or "
            "dictionaries"
        )
        return outcome._replace(result=None, error=wrong)
    return outcome


def _file(folder: Path, job: Job) -> Path:
    return folder / f"{job.key}.json"


def _stored(folder: Path, job: Job) -> dict[str, Any] | None:
    """What is kept of a job; a file that is damaged is worth nothing."""
    try:
        content = json.loads(_file(folder, job).read_text())
    except (FileNotFoundError, ValueError):
        return None
    return content if isinstance(content, dict) and "result" in content else None


def _told(failed: Sequence[tuple[Job, BaseException]], total: int) -> str:
    reasons = [f"{job.name}: {type(error).__name__}: {error}" for job, error in failed]
    return f"{len(failed)} of {total} jobs failed – {'; '.join(reasons)}"
