"""Numbers that a logger writes where it has no value: -999 among temperatures."""

import numpy as np

# The ends of the integers that loggers store, and where numbers are too large to be measured.
LIMITS, HUGE = frozenset({-32768, 32767, 65535, -2147483648, 2147483647}), 1e30
# It lies further from all other values than these from each other, and than this part of itself.
FAR = 0.1


def sentinels(values: np.ndarray) -> list[float]:
    """The smallest and largest values of a column that look as if they were none."""
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
