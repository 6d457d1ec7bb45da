"""Jobs on a Ray cluster."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from twofold.executors.jobs import Job, Outcome, WorkerLostError

TRIES = 4


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
        ray = _ray()
        if not ray.is_initialized():
            ray.init(log_to_driver=False)
        # Ray's own retries could not be counted, nor told from each other.
        remote = ray.remote(**{**self._options, "max_retries": 0})(_call)
        shared = _put(ray, jobs)
        tried = [0] * len(jobs)
        running: dict[Any, int] = {}

        def begin(number: int) -> None:
            tried[number] += 1
            arguments = [shared.get(id(one), one) for one in jobs[number].arguments]
            running[remote.remote(jobs[number].function, *arguments)] = number

        for number in range(len(jobs)):
            begin(number)
        try:
            while running:
                (reference,), _ = ray.wait(list(running), num_returns=1)
                number = running.pop(reference)
                try:
                    yield Outcome(number, ray.get(reference))
                except ray.exceptions.RayTaskError as error:
                    yield Outcome(number, None, _cause(error))
                except ray.exceptions.RayError as error:
                    if tried[number] < self._tries:
                        begin(number)
                    else:
                        yield Outcome(number, None, _lost(tried[number], error))
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            "jobs on a cluster need Ray, which is not installed; pip install 'twofold[ray]'"
        ) from error
    return ray


def _put(ray: Any, jobs: Sequence[Job]) -> dict[int, Any]:
    """Arrays go to the cluster once, however many jobs read them."""
    arrays = {id(one): one for job in jobs for one in job.arguments if isinstance(one, np.ndarray)}
    return {number: ray.put(array) for number, array in arrays.items()}


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _cause(error: Any) -> BaseException:
    """What the job itself has raised."""
    return error.cause if isinstance(error.cause, BaseException) else error


def _lost(tries: int, error: BaseException) -> WorkerLostError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return WorkerLostError(
        f"its worker died {tries} times, last of {type(error).__name__} ({reason}); look for too "
        "little memory, and for what the job does that could end its process"
    )
