"""Jobs one after another, in this process."""

from collections.abc import Iterator, Sequence

from twofold.executors.jobs import Job, Outcome


class LocalExecutor:
    """Runs jobs here, one by one; each may use all devices."""

    def map(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """See ``Executor.map``."""
        for number, job in enumerate(jobs):
            try:
                outcome = Outcome(number, job.function(*job.arguments))
            except Exception as error:
                outcome = Outcome(number, None, error)
            yield outcome
