"""What a log says when something is wrong with what it was given."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any


class LogError(ValueError):
    """A wrong name, file, column or option."""


class LogWarning(UserWarning):
    """A log that can be used, but that somebody should look at."""


def nearest(name: Any, known: Iterable[str]) -> str:
    """A question that helps with a misspelt name."""
    names = list(known)
    close = get_close_matches(str(name), names, n=1)
    if not close:
        folded = {one.casefold(): one for one in names}
        close = [folded[str(name).casefold()]] if str(name).casefold() in folded else []
    return f"; did you mean {close[0]!r}?" if close else ""


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
