"""Cells of a table as numbers, as times and as names."""

import re
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "-"})
ROUNDING = 1e-7  # of a number that was stored in single precision, as a part of it


class Numbers(NamedTuple):
    """A column of numbers, NaN where there is none, and what stood there instead of one."""

    values: np.ndarray
    texts: dict[int, str]


def numbers(cells: Any, missing: Collection[str | float] = (), decimal: str = ".") -> Numbers:
    """A column as numbers; ``missing`` are further words, and numbers however they are written,
    that say that there is no value."""
    found = _numbers(cells, missing, decimal)
    for word in missing:
        with suppress(TypeError, ValueError):
            mark = number(word, decimal)
            found.values[np.isclose(found.values, mark, rtol=ROUNDING, atol=0.0)] = np.nan
    return found


def times(cells: Any, missing: Collection[str | float] = (), decimal: str = ".") -> Numbers:
    """A column of numbers, or of dates as seconds since the first one; of ``missing`` only words
    count, for a clock passes every number."""
    array = np.asarray(cells)
    if array.dtype.kind == "M":
        return Numbers(_since_first(array.astype("datetime64[ns]").astype(float) / 1e9, array), {})
    found = _numbers(array, missing, decimal)
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


def labels(cells: Any, decimal: str = ".") -> list[str]:
    """A column of names; a whole number is the same name with and without decimals."""
    whole = re.compile(rf"(-?\d+)\{decimal}0+")
    return [_label(cell, whole) for cell in np.asarray(cells)]


def _numbers(cells: Any, missing: Collection[str | float], decimal: str) -> Numbers:
    array = np.asarray(cells)
    if array.dtype.kind in "fiub":
        return Numbers(array.astype(float), {})
    words = MISSING | {_text(word).casefold() for word in missing}
    texts, values = {}, np.full(len(array), np.nan)
    for index, cell in enumerate(array):
        try:
            values[index] = number(cell, decimal)
        except (TypeError, ValueError):
            if _text(cell).casefold() not in words:
                texts[index] = _text(cell)
    return Numbers(values, texts)


def number(cell: Any, decimal: str) -> float:
    """A number without anything that sets thousands apart: 1.234 may be two numbers, and Python
    alone reads 1_234."""
    if not isinstance(cell, str):
        return float(cell)
    if "_" in cell or (decimal != "." and "." in cell):
        raise ValueError(cell)
    return float(cell.replace(decimal, "."))


def _label(cell: Any, whole: re.Pattern[str]) -> str:
    if isinstance(cell, float | np.floating):
        return str(int(cell)) if float(cell).is_integer() else repr(float(cell))
    text = _text(cell)
    number = whole.fullmatch(text)
    return number[1] if number else text


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
