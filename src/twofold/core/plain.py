"""Values as JSON has them."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any


def to_plain(value: Any) -> Any:
    """Arrays and tuples as lists, NumPy numbers as numbers, paths as text, dataclasses as mappings
    with their class name under ``kind``; numbers that are not finite become None."""
    if is_dataclass(value) and not isinstance(value, type):
        content = {field.name: getattr(value, field.name) for field in fields(value)}
        return {"kind": type(value).__name__} | to_plain(content)
    if isinstance(value, Mapping):
        return {str(name): to_plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(part) for part in value]
    if hasattr(value, "tolist"):
        return to_plain(value.tolist())
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return None
    return str(value) if isinstance(value, Path) else value
