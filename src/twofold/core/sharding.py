"""Batch axes over all devices: members of a fit, rows of a prediction, starts of a roll-out.

Entries of a batch axis are independent, so every device runs the single-device program on its
share, without communication. With one device, one entry, or a default device chosen by the user
(``jax.default_device``), these functions do nothing.

With several processes (``jax.distributed``), the devices of all processes are used; every process
runs the same script on the same data and gets the whole result.
"""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "batch"
WHOLE, SHARED = PartitionSpec(), PartitionSpec(AXIS)


def enable_compile_cache(folder: str | Path | None = None) -> Path:
    """Cache compiled programs on disk for later processes; the default folder is
    ``$JAX_COMPILATION_CACHE_DIR``, or else ``~/.cache/twofold/jax``."""
    chosen = folder or os.environ.get("JAX_COMPILATION_CACHE_DIR") or "~/.cache/twofold/jax"
    path = Path(chosen).expanduser()
    jax.config.update("jax_compilation_cache_dir", str(path))
    # Small programs too: a command runs dozens of them, each in a hundredth of a second.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    return path


def devices_for(entries: int) -> Mesh | None:
    """The device mesh for a batch axis of this size; None for a single device."""
    chosen = jax.config.jax_default_device  # type: ignore[attr-defined]
    if entries < 2 or chosen is not None:
        return None
    devices = jax.devices()
    if jax.process_count() == 1:
        devices = devices[:entries]
    return Mesh(np.array(devices), (AXIS,)) if len(devices) > 1 else None


def room(mesh: Mesh | None, entries: int) -> int:
    """``entries``, rounded up to a multiple of the number of devices."""
    shares = 1 if mesh is None else mesh.size
    return -(-entries // shares) * shares


def spread(mesh: Mesh | None, tree: Any, times: int = 1) -> Any:
    """Shard the leading axis of every leaf over the devices, each entry ``times`` times, padded. Of
    a NumPy array, each device receives only its own share."""

    def put(leaf: Any) -> Any:
        if mesh is None:
            whole = jax.device_put(leaf)
            return whole if times == 1 else jnp.repeat(whole, times, axis=0)
        entries = times * leaf.shape[0]
        index = np.minimum(np.arange(room(mesh, entries)), entries - 1) // times
        if not isinstance(leaf, np.ndarray):
            return _put(mesh, SHARED, leaf[index])

        def share(at: Any) -> Any:
            return leaf[index[at[0]]]

        shape, shares = (len(index), *leaf.shape[1:]), NamedSharding(mesh, SHARED)
        return jax.make_array_from_callback(shape, shares, share)

    return jax.tree.map(put, tree)


def copied(mesh: Mesh | None, tree: Any) -> Any:
    """Replicate every leaf on all devices."""
    return tree if mesh is None else jax.tree.map(partial(_put, mesh, WHOLE), tree)


def _put(mesh: Mesh, spec: PartitionSpec, leaf: Any) -> Any:
    if jax.process_count() == 1:
        return jax.device_put(leaf, NamedSharding(mesh, spec))
    # A JAX array of one process is not visible to the others; NumPy arrays are assumed to be equal
    # everywhere.
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        numbers = _put(mesh, spec, jax.random.key_data(leaf))
        return jax.random.wrap_key_data(numbers, impl=jax.random.key_impl(leaf))
    return jax.device_put(np.asarray(leaf), NamedSharding(mesh, spec))


def on_host(tree: Any) -> Any:
    """Leaves as NumPy arrays, complete in every process."""

    def get(leaf: Any) -> np.ndarray:
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
            return np.asarray(multihost_utils.process_allgather(leaf, tiled=True))
        return np.asarray(leaf)

    return jax.tree.map(get, tree)


def cut(mesh: Mesh | None, tree: Any, entries: int) -> Any:
    """Undo ``spread``: on the host and without the padding."""
    return tree if mesh is None else jax.tree.map(lambda leaf: leaf[:entries], on_host(tree))


def agreed(value: int) -> int:
    """The largest value over all processes, whose clocks and signals differ."""
    if jax.process_count() == 1:
        return value
    return int(multihost_utils.process_allgather(np.int32(value)).max())


def divided(
    function: Callable[..., Any],
    mesh: Mesh | None,
    shared: Sequence[PartitionSpec],
    results: Any = SHARED,
) -> Callable[..., Any]:
    """``function`` run by all devices, each on its share of the sharded arguments."""
    if mesh is None:
        return function
    specs: Any = {"in_specs": tuple(shared), "out_specs": results}
    # The check would reject loops whose initial values are constants, as all loops here do.
    return jax.shard_map(function, mesh=mesh, **specs, check_vma=False)


def by_rows(
    *, static: Sequence[str], rows: Sequence[str], draws: Mapping[str, Sequence[int]] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function whose arguments ``rows`` and results have rows as their leading axis.

    ``static`` names arguments that are compiled in. Results are padded to ``room`` rows. For a
    single row, weight draws are sharded instead: ``draws`` names the argument that holds them, and
    the axis of the draws in each of its fields. Like a result of ``jax.jit``, the compiled function
    has a method ``lower``.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        names = list(inspect.signature(function).parameters)
        arrays = [name for name in names if name not in static]
        specs = [SHARED if name in rows else WHOLE for name in arrays]

        @partial(jax.jit, static_argnames=("mesh", "fixed"))
        def compiled(mesh: Mesh | None, fixed: tuple[Any, ...], *values: Any) -> Any:
            def whole(*values: Any) -> Any:
                return function(**dict(zip((*static, *arrays), (*fixed, *values), strict=True)))

            return divided(whole, mesh, specs)(*values)

        def prepare(*arguments: Any) -> tuple[Any, ...]:
            given = dict(zip(names, arguments, strict=True))
            fixed = tuple(given[name] for name in static)
            mesh = devices_for(len(given[rows[0]]))
            if mesh is None:
                placed = given | _draws_apart(given, draws or {})
            else:
                placed = {n: (spread if n in rows else copied)(mesh, given[n]) for n in arrays}
            return mesh, fixed, *(placed[name] for name in arrays)

        @wraps(function)
        def call(*arguments: Any) -> Any:
            return compiled(*prepare(*arguments))

        call.lower = lambda *arguments: compiled.lower(*prepare(*arguments))  # type: ignore[attr-defined]
        return call

    return decorate


def _draws_apart(given: Mapping[str, Any], draws: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Arguments with their weight draws sharded over as many devices as divide them evenly."""
    result = {}
    for name, axes in draws.items():
        count = given[name][0].shape[axes[0]]
        mesh = devices_for(count)
        if mesh is None or jax.process_count() > 1:
            continue
        shares = max(n for n in range(1, mesh.size + 1) if count % n == 0)
        mesh = Mesh(mesh.devices[:shares], (AXIS,))
        specs = [PartitionSpec(*[None] * axis, AXIS) for axis in axes]
        placed = [_put(mesh, spec, leaf) for spec, leaf in zip(specs, given[name], strict=True)]
        result[name] = type(given[name])(*placed)
    return result
