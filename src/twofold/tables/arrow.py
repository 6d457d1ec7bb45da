"""Lazy import of Arrow: fits run on machines without it, and commands that read no table start
faster."""

from importlib import import_module
from typing import Any


class _Module:
    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


pa: Any = _Module("pyarrow")
pc: Any = _Module("pyarrow.compute")
parquet: Any = _Module("pyarrow.parquet")
