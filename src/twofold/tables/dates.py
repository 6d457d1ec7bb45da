"""Dates as seconds since 1970: ISO 8601, with a time zone or without (UTC), and day, month and year
separated by dots, slashes or dashes, in an order inferred from the values of a column."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from twofold.tables.arrow import pa, pc

ORDERS = ("day-first", "month-first")
CENTURY = 70  # two-digit years below it belong to this century
DATE = r"^(?P<first>\d{1,2})(?P<mark>[./-])(?P<second>\d{1,2})[./-](?P<year>\d{4}|\d{2})"
CLOCK = r"(?:[T,\s]\s*(?P<hours>\d{1,2}):(?P<minutes>\d\d)(?::(?P<seconds>\d\d(?:\.\d+)?))?)?"
HALF = r"\s*(?P<half>[AaPp][Mm])?\s*(?P<zone>Z|[+-]\d\d:?\d\d)?$"
YEAR_FIRST = re.compile(r"^(\d{4})/(\d\d)/(\d\d)(?!\d)")


class AmbiguousDatesError(ValueError):
    """Dates whose order of day and month is ambiguous."""


def to_timestamps(column: Any) -> Any:
    """Convert a text column to timestamps if all texts are ISO dates, all with a time zone or all
    without; return any other column unchanged."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    for zone in (None, "UTC"):
        try:
            return column.cast(pa.timestamp("us", zone))
        except pa.ArrowInvalid:
            continue
    return column


def read_dates(texts: Sequence[str], order: str | None = None) -> np.ndarray:
    """Seconds since 1970 of each text, NaN if not a date; without ``order``, it is inferred."""
    parts = pc.extract_regex(pa.array(texts, pa.string()), DATE + CLOCK + HALF)
    known = np.asarray(parts.is_valid())
    seconds = np.full(len(texts), np.nan)
    if known.any():
        seconds[known] = _read_parts(parts.drop_null(), order)
    for index in np.flatnonzero(~known).tolist():
        try:
            date = datetime.fromisoformat(YEAR_FIRST.sub(r"\1-\2-\3", texts[index]))
        except ValueError:
            continue
        seconds[index] = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    return seconds


def _read_parts(parts: Any, order: str | None) -> np.ndarray:
    """Seconds since 1970 from the parts of dates."""
    texts = {name: pc.struct_field(parts, name) for name in parts.type.names}
    first, second, year, hours, minutes, rest = (
        np.array(pc.if_else(pc.equal(texts[name], ""), "0", texts[name]).cast("float64"))
        for name in ("first", "second", "year", "hours", "minutes", "seconds")
    )
    day, month = first, second
    if (order or _find_order(first, second, np.array(texts["mark"]))) == "month-first":
        day, month = second, first
    half = np.char.lower(np.array(texts["half"]).astype(str))
    hours = np.where(half == "", hours, hours % 12 + 12 * (half == "pm"))
    year = np.where(year < 100, year + np.where(year < CENTURY, 2000, 1900), year)
    begins = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    date = begins.astype("datetime64[D]") + (day - 1).astype("timedelta64[D]")
    real = (month >= 1) & (month <= 12) & (day >= 1) & (date < (begins + 1).astype(date.dtype))
    real &= (hours < 24) & (minutes < 60) & (rest < 61)
    clock = 3600 * hours + 60 * minutes + rest - _offsets(np.array(texts["zone"]).astype(str))
    return np.where(real, date.astype("datetime64[s]").astype(float) + clock, np.nan)


def _offsets(zones: np.ndarray) -> np.ndarray:
    """UTC offsets in seconds of time zones such as +01:00."""
    parts = [(zone[0], zone[1:].replace(":", "")) for zone in np.where(zones == "", "Z", zones)]
    seconds = [0 if s == "Z" else 3600 * int(d[:2]) + 60 * int(d[2:]) for s, d in parts]
    return np.array([-one if s == "-" else one for (s, _), one in zip(parts, seconds, strict=True)])


def _find_order(first: np.ndarray, second: np.ndarray, marks: np.ndarray) -> str:
    """Infer the order: a number above twelve is a day, and with dots the day comes first."""
    if (first > 12).any() or (marks == ".").all() or (first == second).all():
        return "day-first"
    if (second > 12).any():
        return "month-first"
    differ = np.flatnonzero(first != second)[0]
    raise AmbiguousDatesError(
        f"dates such as {first[differ]:02.0f}{marks[differ]}{second[differ]:02.0f}{marks[differ]}… "
        "are ambiguous: no value shows whether the day or the month comes first; pass "
        f"date_order={ORDERS[0]!r} or date_order={ORDERS[1]!r}"
    )
