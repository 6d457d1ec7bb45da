"""What every inference method looks like, and the one loop that runs them all.

A method is an ``Algorithm``: ``init`` makes a state, ``step`` advances it by one epoch. ``run``
compiles many epochs for many members (seeds, data sets, values of α) into one program, calls it
in short chunks, and hands control back after each one, so that a caller can show progress, write
checkpoints or stop. How the epochs are cut into chunks never changes the result: everything random
in epoch ``i`` depends on the member's key and ``i`` alone.
"""

import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from twofold.core import sharding
from twofold.core.arrays import Array, Float, Int, Keys

CHUNK_SECONDS = 0.5
CHUNK_EPOCHS = 256


class Info(NamedTuple):
    """What one epoch reports: its mean energy per datum and the updates it had to skip."""

    energy: Float[Array, ""]
    skipped: Int[Array, ""]


class Algorithm(NamedTuple):
    """An inference method.

    ``init(key, problem)`` makes a state. ``step(key, state, problem, schedule, epoch)`` advances it
    by one epoch; ``problem`` differs between members fitted together, ``schedule`` does not. With
    ``together`` a step takes all members at once, each argument but the last two with an axis S in
    front.
    """

    init: Callable[..., Any]
    step: Callable[..., tuple[Any, Info]]
    together: bool = False


@lru_cache
def bind(
    init: Callable[..., Any], step: Callable[..., Any], config: Any, together: bool = False
) -> Algorithm:
    """A method with its config; the same config gives the same object, so compiles once."""
    return Algorithm(partial(init, config), partial(step, config), together)


class Progress(NamedTuple):
    """Where a run stands after a chunk; ``energies`` and ``skipped`` are the new epochs' only."""

    states: Any
    epoch: int
    energies: np.ndarray
    skipped: np.ndarray


@partial(jax.jit, static_argnames=("algorithm", "mesh"))
def init(algorithm: Algorithm, keys: Keys, problems: Any, mesh: Mesh | None = None) -> Any:
    """Initial states of all members, which are ``sharding.spread`` over the mesh."""
    shared = [sharding.SHARED] * 2
    return sharding.divided(jax.vmap(algorithm.init), mesh, shared)(keys, problems)


@partial(jax.jit, static_argnames=("algorithm", "mesh"), donate_argnames="states")
def advance(
    algorithm: Algorithm,
    keys: Keys,
    states: Any,
    problems: Any,
    schedule: Any,
    first: Int[Array, ""],
    count: Int[Array, ""],
    mesh: Mesh | None = None,
) -> tuple[Any, Float[Array, "E S"], Int[Array, "E S"]]:
    """Run ``count`` (at most CHUNK_EPOCHS) epochs from epoch ``first`` on, in one program."""
    shared, whole = sharding.SHARED, sharding.WHOLE
    traces = PartitionSpec(None, sharding.AXIS)
    advance_some = sharding.divided(
        partial(_advance, algorithm),
        mesh,
        [shared, shared, shared, whole, whole, whole],
        (shared, traces, traces),
    )
    results: tuple[Any, Float[Array, "E S"], Int[Array, "E S"]]
    results = advance_some(keys, states, problems, schedule, first, count)
    return results


def _advance(
    algorithm: Algorithm,
    keys: Keys,
    states: Any,
    problems: Any,
    schedule: Any,
    first: Int[Array, ""],
    count: Int[Array, ""],
) -> tuple[Any, Float[Array, "E S"], Int[Array, "E S"]]:
    members = keys.shape[0]
    step = algorithm.step if algorithm.together else _over_members(algorithm.step, members)

    def one_epoch(index: Any, carry: Any) -> Any:
        states, energies, skipped = carry
        epoch = first + index
        epoch_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, epoch)
        states, info = step(epoch_keys, states, problems, schedule, epoch)
        return states, energies.at[index].set(info.energy), skipped.at[index].set(info.skipped)

    dtype = jnp.result_type(float)
    traces = jnp.zeros((CHUNK_EPOCHS, members), dtype), jnp.zeros((CHUNK_EPOCHS, members), int)
    results: tuple[Any, Float[Array, "E S"], Int[Array, "E S"]]
    results = jax.lax.fori_loop(0, count, one_epoch, (states, *traces))
    return results


def _over_members(step: Callable[..., Any], members: int) -> Callable[..., Any]:
    """``step`` for all members at once; a lone member runs without the axis, a fifth faster."""
    if members > 1:
        return jax.vmap(step, in_axes=(0, 0, 0, None, None))

    def alone(keys: Any, states: Any, problems: Any, schedule: Any, epoch: Any) -> Any:
        first = partial(jax.tree.map, lambda leaf: leaf[0])
        results = step(keys[0], first(states), first(problems), schedule, epoch)
        return jax.tree.map(lambda leaf: leaf[None], results)

    return alone


def run(
    algorithm: Algorithm,
    keys: Keys,
    states: Any,
    problems: Any,
    schedule: Any,
    first: int,
    last: int,
    mesh: Mesh | None = None,
) -> Iterator[Progress]:
    """Advance from epoch ``first`` to ``last``, yielding after chunks of about half a second."""
    count, epoch = 1, first
    while epoch < last:
        count = min(count, last - epoch, CHUNK_EPOCHS)
        started = time.perf_counter()
        states, energies, skipped = advance(
            algorithm, keys, states, problems, schedule, np.int32(epoch), np.int32(count), mesh
        )
        energies, skipped = (sharding.on_host(trace)[:count] for trace in (energies, skipped))
        seconds = time.perf_counter() - started
        epoch += count
        yield Progress(states, epoch, energies, skipped)
        count = sharding.agreed(_next_count(count, seconds, compiled_before=epoch - count > first))


def run_past(
    algorithm: Algorithm,
    keys: Keys,
    states: Any,
    problems_of: Callable[[int], Any],
    schedule: Any,
    first: int,
    last: int,
    mesh: Mesh | None = None,
) -> Iterator[Progress]:
    """As ``run``, with the problems of each epoch its own: data that pass by in blocks."""
    for epoch in range(first, last):
        problems = problems_of(epoch)
        states, energies, skipped = advance(
            algorithm, keys, states, problems, schedule, np.int32(epoch), np.int32(1), mesh
        )
        energies, skipped = (sharding.on_host(trace)[:1] for trace in (energies, skipped))
        yield Progress(states, epoch + 1, energies, skipped)


def _next_count(count: int, seconds: float, compiled_before: bool) -> int:
    """Aim at CHUNK_SECONDS, growing at most fourfold; the first chunk's time is compilation."""
    if not compiled_before:
        return count
    return max(1, min(4 * count, round(count * CHUNK_SECONDS / max(seconds, 1e-9))))
