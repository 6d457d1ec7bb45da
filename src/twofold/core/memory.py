"""Available memory, and checks that refuse requests which would exceed it."""

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import jax

# Estimates are accurate within this factor.
SURELY = 3
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


class TooLargeError(ValueError):
    """A request needs more memory than is available."""


def available() -> int:
    """Memory of the devices in bytes, or, if unknown, of this computer."""
    chosen = jax.config.jax_default_device  # type: ignore[attr-defined]
    devices = jax.local_devices() if chosen is None else [chosen]
    stats: list[dict[str, Any]] = [getattr(one, "memory_stats", dict)() or {} for one in devices]
    limits = [int(one["bytes_limit"]) for one in stats if "bytes_limit" in one]
    return sum(limits) if limits else physical()


def physical() -> int:
    """Memory of this computer or container in bytes."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return sys.maxsize  # unknown: refuse nothing in advance
    try:
        return min(whole, int(CONTAINER_LIMIT.read_text()))
    except (OSError, ValueError):
        return whole


def refuse_beyond(
    needed: float, what: str, remedy: str, surely: float = SURELY, limit: int | None = None
) -> None:
    """Warn beyond the ``limit`` (None: available memory), raise beyond ``surely`` times it."""
    limit = available() if limit is None else limit
    there, wanted = (f"{number / 2**30:,.1f} GiB" for number in (limit, needed))
    sentence = f"{what} needs about {wanted} of memory, but only {there} is available; {remedy}"
    if needed > surely * limit:
        raise TooLargeError(sentence)
    if needed > limit:
        warnings.warn(sentence, RuntimeWarning, stacklevel=5)


def check_program(program: Any, what: str, remedy: str, copies: int = 1) -> None:
    """Refuse a compiled program whose arguments, results and temporary arrays, each counted once by
    the compiler, exceed the available memory; do nothing if the compiler gives no estimate.
    ``copies`` of the program run at the same time."""
    sizes = program.memory_analysis()
    if sizes is not None:
        held = sizes.argument_size_in_bytes + sizes.output_size_in_bytes + sizes.temp_size_in_bytes
        refuse_beyond(copies * (held - sizes.alias_size_in_bytes), what, remedy, surely=1.0)
