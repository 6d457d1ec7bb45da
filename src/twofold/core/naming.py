"""Suggestions for misspelled names, and long names and lists shortened for messages."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

# Characters of a name, and names in a list.
LONGEST, MOST = 60, 12


def nearest(name: Any, known: Iterable[str]) -> str:
    """``; did you mean …?`` for a misspelled name; empty if no valid name is close."""
    names = list(known)
    close = get_close_matches(str(name), names, n=1)
    close = close or [one for one in names if one.casefold() == str(name).casefold()]
    return f"; did you mean {shortened(close[0])!r}?" if close else ""


def shortened(text: Any, most: int = LONGEST) -> str:
    """A text, or its beginning and an ellipsis if it is longer than ``most``."""
    words = str(text)
    return words if len(words) <= most else f"{words[:most]}…"


def listed(names: Iterable[Any]) -> str:
    """Names separated by commas; of many, the first ones and the number of the rest."""
    texts = [shortened(name) for name in names]
    more = f" and {len(texts) - MOST} more" if len(texts) > MOST else ""
    return ", ".join(texts[:MOST]) + more
