"""A batch axis over the cores of a CPU.

XLA divides every operation among all cores, which for the small matrix products here costs more
than it gains (``benchmarks/cores.py``). Entries of a batch axis are independent, so each core runs
the same program on its own portion of them, in a thread, with undivided operations. With several
devices, ``core.sharding`` divides the axis instead.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np

UNDIVIDED = {"xla_cpu_multi_thread_eigen": False}
MOST_CORES = 4  # per entry; with more, divided operations may use them better


class Portion(NamedTuple):
    """Consecutive entries of a batch axis, and how many of them the previous portion has too."""

    rows: slice
    repeated: int

    @property
    def length(self) -> int:
        return int(self.rows.stop - self.rows.start)


def count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def portions_for(entries: int) -> list[Portion]:
    """Portions of the entries, at most one per core, all of equal length so that one program serves
    them; a single portion if a device takes all entries, or if there are far more cores than
    entries."""
    chosen = jax.config.jax_default_device  # type: ignore[attr-defined]
    devices = jax.devices() if chosen is None else [chosen]
    parts, cores = 1, count_cores()
    on_cpu = len(devices) == 1 and getattr(devices[0], "platform", devices[0]) == "cpu"
    if on_cpu and cores <= MOST_CORES * entries:
        parts = max(1, min(entries, cores))
    length = -(-entries // parts)
    portions = []
    for end in range(length, entries + length, length):
        start = min(end, entries) - length
        portions.append(Portion(slice(start, start + length), end - length - start))
    return portions


def split(tree: Any, portions: Sequence[Portion]) -> list[Any]:
    """Each portion of the leading axis of every leaf."""
    if len(portions) == 1:
        return [tree]
    whole = jax.tree.map(_on_host, tree)
    return [jax.tree.map(lambda leaf, p=p: jax.device_put(leaf[p.rows]), whole) for p in portions]


def describe_portion(tree: Any, portions: Sequence[Portion]) -> Any:
    """Shapes of a portion, for compilation; the tree itself if there is a single portion."""
    if len(portions) == 1:
        return tree
    rows = portions[0].length
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct((rows, *x.shape[1:]), x.dtype), tree)


def join(parts: Sequence[Any], portions: Sequence[Portion], axis: int = 0) -> Any:
    """Join what ``split`` divided, along an axis of every leaf, on the host."""
    if len(parts) == 1:
        return parts[0]

    def together(*leaves: Any) -> np.ndarray:
        new = [
            np.asarray(leaf)[(slice(None),) * axis + (slice(portion.repeated, None),)]
            for leaf, portion in zip(leaves, portions, strict=True)
        ]
        return np.concatenate(new, axis)

    return jax.tree.map(together, *parts)


def _on_host(leaf: Any) -> Any:
    """Convert to a NumPy array without a copy, because slicing a JAX array compiles a program for
    every shape. Random keys, which NumPy does not have, stay JAX arrays: they can be split but not
    joined."""
    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf
    return np.asarray(leaf)


def run_each(
    program: Callable[..., Any], portions: Sequence[tuple[Any, ...]], shared: tuple[Any, ...] = ()
) -> list[Any]:
    """Run ``program`` on all portions in parallel, each with its own arguments and the shared ones.
    JAX's configuration is thread-local, so threads may only run compiled programs on JAX arrays."""
    if len(portions) == 1:
        return [program(*portions[0], *shared)]
    shared = jax.device_put(shared)

    def call(arguments: tuple[Any, ...]) -> Any:
        return jax.block_until_ready(program(*arguments, *shared))

    with ThreadPoolExecutor(len(portions)) as pool:
        return list(pool.map(call, portions))
