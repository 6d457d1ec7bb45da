"""A batch axis over the cores of a CPU.

XLA divides every operation among all cores. For products as small as those of a network here that
costs more than it gains (``benchmarks/cores.py``). Entries of a batch axis do not depend on each
other, so each core runs the program of its own share of them, in a thread, with operations that are
not divided. Where there are several devices, ``core.sharding`` divides the axis instead.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np

UNDIVIDED = {"xla_cpu_multi_thread_eigen": False}


class Share(NamedTuple):
    """Consecutive entries of a batch axis, and how many of them an earlier share has too."""

    rows: slice
    repeated: int


def available() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def shares_for(entries: int) -> list[Share]:
    """One share of the entries for each core, all of one length so that one program serves them;
    a single share where a core, or another device, has them all."""
    parts = 1
    if jax.default_backend() == "cpu" and len(jax.devices()) == 1:
        parts = max(1, min(entries, available()))
    length = -(-entries // parts)
    shares = []
    for end in range(length, entries + length, length):
        start = min(end, entries) - length
        shares.append(Share(slice(start, start + length), end - length - start))
    return shares


def split(tree: Any, shares: Sequence[Share]) -> list[Any]:
    """Each share of the leading axis of every leaf."""
    if len(shares) == 1:
        return [tree]
    whole = jax.tree.map(_on_host, tree)
    return [jax.tree.map(lambda leaf, s=s: jax.device_put(leaf[s.rows]), whole) for s in shares]


def join(parts: Sequence[Any], shares: Sequence[Share], axis: int = 0) -> Any:
    """What ``split`` has taken apart, along an axis of every leaf."""
    if len(parts) == 1:
        return parts[0]

    def together(*leaves: Any) -> np.ndarray:
        pairs = zip(map(_on_host, leaves), shares, strict=True)
        return np.concatenate(
            [np.delete(leaf, np.s_[: s.repeated], axis) for leaf, s in pairs], axis
        )

    return jax.tree.map(together, *parts)


def _on_host(leaf: Any) -> Any:
    """As a NumPy array, without a copy: cutting up JAX's compiles a program for every shape. Random
    keys stay what they are."""
    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf
    return np.asarray(leaf)


def run_each(
    function: Callable[..., Any], own: Sequence[tuple[Any, ...]], shared: tuple[Any, ...] = ()
) -> list[Any]:
    """``function`` of each share's own arguments and the shared ones, at the same time; returns
    when the last one is done."""
    if len(own) == 1:
        return [function(*own[0], *shared)]

    def call(arguments: tuple[Any, ...]) -> Any:
        return jax.block_until_ready(function(*arguments, *shared))

    with ThreadPoolExecutor(len(own)) as pool:
        return list(pool.map(call, own))
