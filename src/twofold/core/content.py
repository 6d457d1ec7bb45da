"""Validation of a file's content: JSON values against the fields of a class, arrays against shapes
and ranges. A checksum shows that a file is unchanged, not that it holds a valid model."""

import dataclasses
import math
import types
from collections.abc import Mapping
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from twofold.core.naming import shortened
from twofold.core.persistence import RESTORE, FileFormatError

T = TypeVar("T")
LONGEST = 80


def build(kind: type[T], content: Any, where: str) -> T:
    """Build a dataclass or named tuple from JSON values, converting lists to tuples where needed;
    ``where`` names the values in errors."""
    if not isinstance(content, dict):
        raise FileFormatError(f"its {where} must be a mapping, got {shorten(content)}; {RESTORE}")
    hints = get_type_hints(kind)
    values = {}
    for name, value in content.items():
        fits, values[name] = _convert(value, hints.get(name))
        if not fits:
            wanted = hints[name] if get_origin(hints[name]) else hints[name].__name__
            problem = f"must be {wanted}, got {shorten(value)}; {RESTORE}"
            raise FileFormatError(f"{name!r} of its {where} {problem}")
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise FileFormatError(f"its {where} is not valid ({error}); {RESTORE}") from error


def take(
    arrays: Mapping[str, np.ndarray], name: str, shape: tuple[int | None, ...],
    low: Any = -np.inf, high: Any = np.inf,
) -> np.ndarray:  # fmt: skip
    """An array of finite numbers within bounds; a size of None is any but zero."""
    if name not in arrays:
        raise FileFormatError(f"it has no array {name!r}; {RESTORE}")
    array = arrays[name]
    sizes = zip(array.shape, shape, strict=False)
    fits = all(size == wanted if wanted is not None else size for size, wanted in sizes)
    if not fits or array.ndim != len(shape) or array.dtype.kind != "f":
        wanted_shape = str(shape).replace("None", "any")
        raise FileFormatError(
            f"its array {name!r} must be floating-point numbers of shape {wanted_shape}, got "
            f"{array.dtype} of shape {array.shape}; {RESTORE}"
        )
    low, high = (np.broadcast_to(bound, array.shape) for bound in (low, high))
    wrong = ~(np.isfinite(array) & (array >= low) & (array <= high))
    if wrong.any():
        raise FileFormatError(
            f"its array {name!r} must be finite numbers from {low[wrong][0]:.3g} to "
            f"{high[wrong][0]:.3g}, got {array[wrong][0]:g}; {RESTORE}"
        )
    return array


def check_kinds(made: Any, what: str) -> None:
    """Refuse a dataclass with a field of a wrong type."""
    for part in dataclasses.fields(made):
        value, kind = getattr(made, part.name), get_origin(part.type) or part.type
        kinds: Any = (int, float) if kind is float else kind
        if not isinstance(value, kinds):
            raise ValueError(f"{part.name} of a {what} cannot be {value!r}")


def shorten(value: Any) -> str:
    return shortened(repr(value), LONGEST)


def _convert(value: Any, hint: Any) -> tuple[bool, Any]:
    """Whether a value matches a type annotation, and the value converted to that type."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        matches = [one for one in (_convert(value, part) for part in inner) if one[0]]
        return matches[0] if matches else (False, value)
    if origin in (tuple, list):
        if not isinstance(value, list | tuple):
            return False, value
        parts = [_convert(one, inner[0]) for one in value]
        return all(fit for fit, _ in parts), origin(one for _, one in parts)
    if hint is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and abs(value) < math.inf, value
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool), value
    kind = hint if isinstance(hint, type) else origin
    return not isinstance(kind, type) or isinstance(value, kind), value
