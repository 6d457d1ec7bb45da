"""Help with names that nobody knows."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


def nearest(name: Any, known: Iterable[str]) -> str:
    """A question that helps with a misspelt name."""
    names = list(known)
    close = get_close_matches(str(name), names, n=1)
    if not close:
        folded = {one.casefold(): one for one in names}
        close = [folded[str(name).casefold()]] if str(name).casefold() in folded else []
    return f"; did you mean {close[0]!r}?" if close else ""
