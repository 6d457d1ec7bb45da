"""Jobs one after another, in this process."""

from collections.abc import Iterator, Sequence

from twofold.core.executors.jobs import Job, Outcome, call


class LocalExecutor:
    """Runs jobs here, one by one; each may use all devices."""

    def map(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """See ``Executor.map``."""
        for number, job in enumerate(jobs):
            yield Outcome(number, *call(job.function, job.arguments))
