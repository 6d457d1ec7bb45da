"""What a log says when something is wrong with what it was given."""

from collections.abc import Iterable, Sequence

from twofold.core.naming import nearest
from twofold.tables import TableError


class LogError(TableError):
    """A wrong name, file, column or option."""


class LogWarning(UserWarning):
    """A log that can be used, but that somebody should look at."""


def check_known(what: str, names: Iterable[str], known: Sequence[str]) -> None:
    """Refuse names that are not among the known ones."""
    for name in names:
        if name not in known:
            raise LogError(
                f"{what} {name!r} is not a column of the log, which has {', '.join(known)}"
                f"{nearest(name, known)}"
            )


def check_different(names: Sequence[str]) -> None:
    """Refuse a name that stands for two columns."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise LogError(
            f"every column needs its own name, got {', '.join(map(repr, twice))} more than once "
            f"among observations, actions, episode, time and cost"
        )
