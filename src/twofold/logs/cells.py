"""Cells of a table as numbers and as times."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "-"})


class Numbers(NamedTuple):
    """A column of numbers, NaN where there is none, and what stood there instead of one."""

    values: np.ndarray
    texts: dict[int, str]


def numbers(cells: Any, missing: Collection[str] = (), decimal: str = ".") -> Numbers:
    """A column as numbers; ``missing`` are further words that say that there is no value."""
    array = np.asarray(cells)
    if array.dtype.kind in "fiub":
        return Numbers(array.astype(float), {})
    words = MISSING | {word.strip().casefold() for word in missing}
    if decimal == ".":
        try:
            plain = [np.nan if cell is None or cell == "" else float(cell) for cell in array]
            return Numbers(np.array(plain), {})
        except (TypeError, ValueError):
            pass  # Some cell needs a closer look.
    texts, values = {}, np.full(len(array), np.nan)
    for index, cell in enumerate(array):
        text = _text(cell)
        if text.casefold() in words:
            continue
        try:
            values[index] = float(text.replace(decimal, ".") if decimal != "." else text)
        except ValueError:
            texts[index] = text
    return Numbers(values, texts)


def times(cells: Any, missing: Collection[str] = ()) -> Numbers:
    """A column of numbers, or of dates as seconds since the first one."""
    array = np.asarray(cells)
    if array.dtype.kind == "M":
        return Numbers(_since_first(array.astype("datetime64[ns]").astype(float) / 1e9, array), {})
    found = numbers(array, missing)
    if not found.texts:
        return found
    seconds, texts = np.full(len(array), np.nan), dict(found.texts)
    for index in found.texts:
        try:
            seconds[index] = _seconds(array[index])
            del texts[index]
        except ValueError:
            pass  # It is still a text.
    if len(texts) < len(found.texts):
        return Numbers(_since_first(seconds, None), texts)
    return found


def labels(cells: Any) -> list[str]:
    """A column of names; a number is the same name however it is written."""
    array = np.asarray(cells)
    if array.dtype.kind == "f":
        return [f"{value:.15g}" for value in array]
    return [_text(cell) for cell in array]


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell).strip()


def _seconds(cell: Any) -> float:
    date = cell if isinstance(cell, datetime) else datetime.fromisoformat(_text(cell))
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def _since_first(seconds: np.ndarray, dates: np.ndarray | None) -> np.ndarray:
    if dates is not None:
        seconds = np.where(np.isnat(dates), np.nan, seconds)
    known = seconds[np.isfinite(seconds)]
    return seconds - (known[0] if len(known) else 0.0)
