"""``--executor``: who runs a command's jobs."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from twofold.core.executors import Executor

ExecutorName = Annotated[
    str | None,
    typer.Option("--executor", help="Who runs its jobs: local (one by one, here) or ray."),
]


def chosen(name: str | None) -> "Executor | None":
    """The executor of that name, if one was named."""
    from twofold.core.executors import named

    return None if name is None else named(name)
