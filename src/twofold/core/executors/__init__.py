"""Many jobs that do not depend on each other: in this process, or on a Ray cluster."""

from twofold.core.executors.jobs import Executor, Job, JobError, Outcome, run
from twofold.core.executors.local import LocalExecutor
from twofold.core.executors.on_ray import RayExecutor
from twofold.core.naming import nearest

__all__ = ["Executor", "Job", "JobError", "LocalExecutor", "Outcome", "RayExecutor", "named", "run"]

EXECUTORS: dict[str, type[Executor]] = {"local": LocalExecutor, "ray": RayExecutor}


def named(name: str) -> Executor:
    """The executor of that name: ``local`` or ``ray``."""
    if name not in EXECUTORS:
        raise ValueError(
            f"executor must be one of {', '.join(EXECUTORS)}, got {name!r}"
            f"{nearest(name, EXECUTORS)}"
        )
    return EXECUTORS[name]()
