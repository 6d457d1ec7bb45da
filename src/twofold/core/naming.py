"""Help with names that nobody knows, and names and cells short enough for a sentence."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

# Two lists of names, and what is wrong with them, are still a sentence.
LONGEST, MOST = 60, 12


def nearest(name: Any, known: Iterable[str]) -> str:
    """A question that helps with a misspelt name."""
    names = list(known)
    close = get_close_matches(str(name), names, n=1)
    close = close or [one for one in names if one.casefold() == str(name).casefold()]
    return f"; did you mean {shortened(close[0])!r}?" if close else ""


def shortened(text: Any, most: int = LONGEST) -> str:
    """A text, or its beginning where it is too long to be said."""
    words = str(text)
    return words if len(words) <= most else f"{words[:most]}…"


def listed(names: Iterable[Any]) -> str:
    """Names one after the other; of very many the first, and how many more there are."""
    every = [shortened(name) for name in names]
    more = f" and {len(every) - MOST} more" if len(every) > MOST else ""
    return ", ".join(every[:MOST]) + more
