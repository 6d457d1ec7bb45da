"""Cells of an Arrow column as numbers, as times and as labels; and numbers that are none."""

import re
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "-"})
ROUNDING = 1e-7  # of a number that was stored in single precision, as a part of it
# The ends of the integers that loggers store, and where numbers are too large to be measured.
LIMITS, HUGE = frozenset({-32768, 32767, 65535, -2147483648, 2147483647}), 1e30
# It lies further from all other values than these from each other, and than this part of itself.
FAR = 0.1


class Numbers(NamedTuple):
    """A column of numbers, NaN where there is none, and the texts that stand in place of one."""

    values: np.ndarray
    texts: dict[int, str]


def to_numbers(column: Any, missing: Collection[str | float] = (), decimal: str = ".") -> Numbers:
    """A column as numbers.

    ``missing`` are further markers for missing values: words, and numbers however they are written.
    """
    found = _numbers(column, missing, decimal)
    for marker in missing:
        with suppress(ValueError):
            mark = parse_number(str(marker), decimal if isinstance(marker, str) else ".")
            found.values[np.isclose(found.values, mark, rtol=ROUNDING, atol=0.0)] = np.nan
    return found


def to_times(column: Any, missing: Collection[str | float] = (), decimal: str = ".") -> Numbers:
    """A column of numbers, or of dates as seconds since the first one; of ``missing`` only words
    count, for a clock passes every number."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        unit = pa.duration("ns") if pa.types.is_duration(kind) else pa.timestamp("ns")
        dates = column.cast(unit, safe=False).to_numpy(zero_copy_only=False)
        seconds = np.where(np.isnat(dates), np.nan, dates.astype(float) / 1e9)
        return Numbers(_since_first(seconds), {})
    found = _numbers(column, missing, decimal)
    seconds, texts = np.full(len(column), np.nan), dict(found.texts)
    for index, text in found.texts.items():
        with suppress(ValueError):
            date = datetime.fromisoformat(text)
            seconds[index] = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
            del texts[index]
    return Numbers(_since_first(seconds), texts) if len(texts) < len(found.texts) else found


def to_labels(column: Any, decimal: str = ".") -> list[str]:
    """A column of names; a whole number is the same name with and without decimals."""
    whole = re.compile(rf"\A(-?\d+)\{decimal}0+\Z")
    return [
        (str(int(cell)) if cell.is_integer() else repr(cell))
        if isinstance(cell, float)
        else whole.sub(r"\1", _text(cell))
        for cell in column.to_pylist()
    ]


def parse_number(text: str, decimal: str = ".") -> float:
    """A number without thousands separators: 1.234 may be two numbers, and only Python reads
    1_234."""
    if "_" in text or (decimal != "." and "." in text):
        raise ValueError(text)
    return float(text.replace(decimal, "."))


def _numbers(column: Any, missing: Collection[str | float], decimal: str) -> Numbers:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    primitive = pa.types.is_primitive(kind) and not pa.types.is_temporal(kind)
    if primitive or pa.types.is_decimal(kind):
        return Numbers(_floats(column), {})
    texts = _texts(column)
    mark = re.escape(decimal)
    plain = pc.match_substring_regex(texts, rf"^-?(\d+{mark}?\d*|{mark}\d+)([eE][+-]?\d+)?$")
    plain = pc.fill_null(plain, False)
    numerals = pc.if_else(plain, texts, None)
    values = _floats(numerals if decimal == "." else pc.replace_substring(numerals, decimal, "."))
    others = np.flatnonzero(~plain.to_numpy(zero_copy_only=False))
    words = MISSING | {str(marker).strip().casefold() for marker in missing}
    left = {}
    for index, text in zip(others.tolist(), texts.take(pa.array(others)).to_pylist(), strict=True):
        try:
            values[index] = parse_number(text or "", decimal)
        except ValueError:
            if text and text.casefold() not in words:
                left[index] = text
    return Numbers(values, left)


def _floats(column: Any) -> np.ndarray:
    import pyarrow as pa

    return np.array(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), float)


def _texts(column: Any) -> Any:
    """A column as one array of texts without blanks around them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kinds = pa.types.is_string, pa.types.is_large_string, getattr(pa.types, "is_string_view", None)
    if not any(kind and kind(array.type) for kind in kinds):
        array = pa.array([None if cell is None else str(cell) for cell in array.to_pylist()])
    return pc.utf8_trim_whitespace(array.cast(pa.large_string()))


def to_texts(column: Any) -> list[str]:
    """A column as texts without blanks around them, blank where there is no value."""
    return [_text(cell) for cell in column.to_pylist()]


def _text(cell: Any) -> str:
    return "" if cell is None or cell != cell else str(cell).strip()


def _since_first(seconds: np.ndarray) -> np.ndarray:
    known = seconds[np.isfinite(seconds)]
    return seconds - (known[0] if len(known) else 0.0)


def sentinels(values: np.ndarray) -> list[float]:
    """The smallest and largest values of a column that look as if a logger wrote them where it had
    no value: -999 among temperatures."""
    found = np.unique(values[np.isfinite(values)]).tolist()
    low = next((value for value in found if not _likely(value)), None)
    if low is None:
        return []
    high = next(value for value in reversed(found) if not _likely(value))
    return [
        value
        for value in found
        if max(low - value, value - high) > max(high - low, FAR * abs(value))
    ]


def _likely(value: float) -> bool:
    """Whether a number is written in nines, in single or double precision, or is a limit."""
    written = (f"{abs(value):.{digits}g}".split("e")[0].replace(".", "") for digits in (7, 15))
    nines = any(len(digits) > 1 and set(digits) == {"9"} for digits in written)
    return nines or value in LIMITS or abs(value) >= HUGE
