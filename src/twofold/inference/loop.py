"""The interface of inference algorithms, and the loop that runs them.

A method is an ``Algorithm``: ``init`` makes a state, ``step`` advances it by one epoch. ``run``
compiles many epochs for many members (seeds, data sets, values of α) into one program, calls it
in short chunks, and hands control back after each one, so that a caller can show progress, write
checkpoints or stop. The chunks never affect the result: everything random in epoch ``i`` depends on
the member's key and ``i`` alone.

Methods with minibatches share ``Schedule`` and ``make_batches``.
"""

import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial, reduce
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, PartitionSpec

from twofold.core import cores, numerics, sharding
from twofold.core.arrays import Array, Bool, Float, Int, Key, Keys, Scalar
from twofold.core.numerics import Padded, select

# Capture loops and conditions too in one CUDA graph, instead of launching each kernel.
CAPTURED = "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,CONDITIONAL,WHILE"
GRAPHS = {"xla_gpu_graph_min_graph_size": 1, "xla_gpu_enable_command_buffer": CAPTURED}
Index: TypeAlias = Int[Array, ""]  # of an epoch, a batch or a step
CHUNK_SECONDS = 0.5
CHUNK_EPOCHS = 256
STEEP_DROP = 0.1


class Info(NamedTuple):
    """Report of an epoch: mean energy per datum and number of skipped updates."""

    energy: Scalar
    skipped: Int[Array, ""]


class Algorithm(NamedTuple):
    """An inference method.

    ``init(key, problem)`` makes a state. ``step(key, state, problem, schedule, epoch)`` advances it
    by one epoch; ``problem`` differs between members fitted together, ``schedule`` does not. With
    ``together`` a step takes all members at once: all arguments but the last two have a leading
    axis S. ``finished(states, epoch)`` tells which members no longer change. ``captured`` marks a
    step of small kernels, which a GPU runs as one graph.
    """

    init: Callable[..., Any]
    step: Callable[..., tuple[Any, Info]]
    together: bool = False
    finished: Callable[[Any, int], np.ndarray] | None = None
    captured: bool = False


@lru_cache
def bind(
    init: Callable[..., Any],
    step: Callable[..., Any],
    config: Any,
    together: bool = False,
    captured: bool = False,
) -> Algorithm:
    """Bind a method to its config; equal configs give the same object, so it compiles once."""
    return Algorithm(partial(init, config), partial(step, config), together, captured=captured)


class Progress(NamedTuple):
    """Progress of a run after a chunk; ``energies`` and ``skipped`` cover the new epochs only. The
    states are split by core, and valid until the next chunk."""

    parts: list[Any]
    portions: list[cores.Portion]
    epoch: int
    energies: np.ndarray
    skipped: np.ndarray

    @property
    def states(self) -> Any:
        whole = cores.join(self.parts, self.portions)
        return whole if len(self.parts) == 1 else jax.device_put(whole)


@partial(jax.jit, static_argnames=("algorithm", "mesh"))
def init(algorithm: Algorithm, keys: Keys, problems: Any, mesh: Mesh | None = None) -> Any:
    """Initial states of all members, sharded over the mesh by ``sharding.spread``."""
    shared = [sharding.SHARED] * 2
    return sharding.divided(jax.vmap(algorithm.init), mesh, shared)(keys, problems)


def _advance(
    algorithm: Algorithm,
    keys: Keys,
    states: Any,
    problems: Any,
    schedule: Any,
    first: Index,
    count: Int[Array, ""],
    mesh: Mesh | None = None,
) -> tuple[Any, Float[Array, "E S"], Int[Array, "E S"]]:
    """Run ``count`` (at most CHUNK_EPOCHS) epochs from epoch ``first`` on, in one program."""

    def advance_some(keys: Any, states: Any, problems: Any, *rest: Any) -> Any:
        (schedule, first, count), members = rest, keys.shape[0]
        step = algorithm.step if algorithm.together else _over_members(algorithm.step, members)

        def one_epoch(index: Any, carry: Any) -> Any:
            states, energies, skipped = carry
            epoch = first + index
            epoch_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, epoch)
            states, info = step(epoch_keys, states, problems, schedule, epoch)
            return states, energies.at[index].set(info.energy), skipped.at[index].set(info.skipped)

        shape = CHUNK_EPOCHS, members
        traces = jnp.zeros(shape, jnp.result_type(float)), jnp.zeros(shape, int)
        return jax.lax.fori_loop(0, count, one_epoch, (states, *traces))

    shared, traces = sharding.SHARED, PartitionSpec(None, sharding.AXIS)
    given = [shared] * 3 + [sharding.WHOLE] * 3
    advance_all = sharding.divided(advance_some, mesh, given, (shared, traces, traces))
    return advance_all(keys, states, problems, schedule, first, count)


_compile = partial(jax.jit, static_argnames=("algorithm", "mesh"), donate_argnames="states")
advance = _compile(_advance)
advance_portion = _compile(_advance, compiler_options=cores.UNDIVIDED)
advance_captured = _compile(_advance, compiler_options=GRAPHS)


def _over_members(step: Callable[..., Any], members: int) -> Callable[..., Any]:
    """``step`` for all members at once; a single member runs without the axis, a fifth faster."""
    if members > 1:
        return jax.vmap(step, in_axes=(0, 0, 0, None, None))

    def alone(keys: Any, states: Any, problems: Any, schedule: Any, epoch: Any) -> Any:
        first = partial(jax.tree.map, lambda leaf: leaf[0])
        results = step(keys[0], first(states), first(problems), schedule, epoch)
        return jax.tree.map(lambda leaf: leaf[None], results)

    return alone


def _portions(keys: Keys, mesh: Mesh | None) -> list[cores.Portion]:
    return cores.portions_for(keys.shape[0] if mesh is None else 1)


def compile_run(
    algorithm: Algorithm,
    keys: Keys,
    states: Any,
    problems: Any,
    schedule: Any,
    mesh: Mesh | None = None,
) -> tuple[Any, int]:
    """The compiled program of ``run``, and how many copies of it run at once."""
    portions, one = _portions(keys, mesh), np.int32(1)
    given = cores.describe_portion((keys, states, problems), portions)
    program = advance_captured if algorithm.captured and not numerics.on_cpu() else advance
    program = advance_portion if len(portions) > 1 else program
    return program.lower(algorithm, *given, schedule, one, one, mesh).compile(), len(portions)


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
    """Advance from epoch ``first`` to ``last``, yielding after chunks of about half a second.

    If the problems are a function of the epoch (data in blocks), chunks have one epoch. On a CPU
    each core runs a portion of the members (``core.cores``).
    """
    if first >= last:
        return
    portions, passing = _portions(keys, mesh), callable(problems)
    given = problems(first) if passing else problems
    program, _ = compile_run(algorithm, keys, states, given, schedule, mesh)
    own_keys, own_states, own_problems = (
        cores.split(tree, portions) for tree in (keys, states, given)
    )
    del states, given
    count, epoch, most = 1, first, 1 if passing else CHUNK_EPOCHS
    while epoch < last:
        count = min(count, last - epoch, most)
        if passing and epoch > first:
            own_problems = cores.split(problems(epoch), portions)
        started = time.perf_counter()
        arguments = list(zip(own_keys, own_states, own_problems, strict=True))
        outputs = cores.run_each(program, arguments, (schedule, np.int32(epoch), np.int32(count)))
        own_states, *traces = (list(part) for part in zip(*outputs, strict=True))
        energies, skipped = (
            sharding.on_host(cores.join(trace, portions, axis=1))[:count] for trace in traces
        )
        seconds = time.perf_counter() - started
        epoch += count
        yield Progress(own_states, portions, epoch, energies, skipped)
        count = sharding.agreed(_next_count(count, seconds))


def _next_count(count: int, seconds: float) -> int:
    """Number of epochs that take about CHUNK_SECONDS, growing at most fourfold."""
    return max(1, min(4 * count, round(count * CHUNK_SECONDS / max(seconds, 1e-9))))


class Schedule(NamedTuple):
    """Shared by all members: length, learning rate, and 1 for cosine decay or 0 for none."""

    epochs: Int[Array, ""]
    batches: Int[Array, ""]
    learning_rate: Scalar
    decay: Scalar


def learning_rate(schedule: Schedule, progress: Scalar) -> Scalar:
    """The rate at a fraction of the run (0 start, 1 end), constant or a cosine that ends at 0."""
    cosine = 0.5 * (1.0 + jnp.cos(jnp.pi * progress))
    return schedule.learning_rate * (1.0 - schedule.decay + schedule.decay * cosine)


def descend(
    optimiser: optax.GradientTransformation,
    function: Callable[[Any], Scalar],
    parameters: Any,
    moments: Any,
    rate: Scalar,
) -> tuple[Any, Any, Scalar, Bool[Array, ""]]:
    """Parameters and moments after a step down a function, its value before, and whether all of it
    was finite; otherwise the step is skipped."""
    value, gradient = jax.value_and_grad(function)(parameters)
    finite = all_finite((value, gradient))
    direction, changed = optimiser.update(gradient, moments)
    moved = jax.tree.map(lambda p, d: p - rate * d, parameters, direction)
    parameters, moments = select(finite, (moved, changed), (parameters, moments))
    return parameters, moments, value, finite


def all_finite(tree: Any) -> Bool[Array, ""]:
    return reduce(jnp.logical_and, [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)])


class Weights(NamedTuple):
    """Weight of each row of a minibatch in the likelihood, and the sum over all data."""

    own: Float[Array, "B"]
    total: Scalar


class Batch(NamedTuple):
    """A minibatch of at most B data; the importance of empty slots is 0, that of the others 1."""

    x: Float[Array, "B D"]
    y: Float[Array, "B O"]
    importance: Float[Array, "B"]
    num_data: Scalar
    weights: Weights | None = None


def shuffle(key: Key, data: Padded) -> Int[Array, "N"]:
    """A random order of the data with the padding last, independent of the amount of padding."""
    positions = jnp.arange(data.x.shape[0])
    ranks = jax.random.uniform(key, positions.shape)
    return jnp.argsort(jnp.where(positions < data.size, ranks, 2.0))


def batch_bounds(
    size: Int[Array, ""], batches: Int[Array, ""], index: Int[Array, ""]
) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """Start and length of batch ``index``, with sizes as equal as possible."""
    length, longer = size // batches, size % batches
    return index * length + jnp.minimum(index, longer), length + (index < longer)


def reorder(tree: Any, order: Int[Array, "N"], slots: int) -> Any:
    """The rows of all leaves in this order, then ``slots`` (the size of a batch) rows of zeros."""
    return jax.tree.map(
        lambda leaf: jnp.pad(leaf[order], ((0, slots), *[(0, 0)] * (leaf.ndim - 1))), tree
    )


def make_batches(
    key: Key, data: Padded, slots: int
) -> tuple[Int[Array, ""], Callable[[Any], Batch]]:
    """The number of batches of an epoch, and a function from index to batch."""
    x, y, weight = reorder((data.x, data.y, data.weight), shuffle(key, data), slots)
    batches = -(-data.size // slots)

    def batch(index: Int[Array, ""]) -> Batch:
        start, length = batch_bounds(data.size, batches, index)
        filled = jnp.arange(slots) < length
        cut = partial(jax.lax.dynamic_slice_in_dim, start_index=start, slice_size=slots)
        batch_x, batch_y = (jnp.where(filled[:, None], cut(leaf), 0.0) for leaf in (x, y))
        weights = None if weight is None else Weights(cut(weight), jnp.sum(weight))
        num_data = data.num_data.astype(x.dtype)
        return Batch(batch_x, batch_y, filled.astype(x.dtype), num_data, weights)

    return batches, batch


class Setup(NamedTuple):
    """Program, number of epochs, batches per epoch of each data set, displayed name of an epoch."""

    config: Any
    algorithm: Algorithm
    schedule: Any
    epochs: int
    batches: np.ndarray
    unit: str


class Convergence(NamedTuple):
    """The energy per datum (nats) and its drop over the second half of the run. The drop is
    measured from the middle of the run, where the learning rate is still half of its maximum: a
    rate that decays to zero flattens every curve at the end, converged or not."""

    energy: float
    late_drop: float
    standard_error: float
    epochs: int
    planned_epochs: int

    @property
    def steep(self) -> bool:
        """Whether the energy still fell by more than STEEP_DROP nats, significantly."""
        return self.late_drop - 2.0 * self.standard_error > STEEP_DROP

    @property
    def converged(self) -> bool:
        """Whether the run was completed and its energy had levelled off."""
        return self.epochs == self.planned_epochs and not self.steep


def convergence(energies: np.ndarray, planned_epochs: int) -> Convergence:
    """Compare the 5 % of the run after its middle with the last 5 %."""
    window = max(1, len(energies) // 20)
    middle = energies[len(energies) // 2 :][:window]
    last = energies[-window:]
    error = float(np.sqrt((np.var(middle) + np.var(last)) / window))
    drop = float(middle.mean() - last.mean())
    return Convergence(float(last.mean()), drop, error, len(energies), planned_epochs)


def convergence_advice(report: Convergence) -> str | None:
    """A warning if the run should be longer, else None."""
    if not report.steep:
        return None
    return (
        f"the energy still fell by {report.late_drop:.2f} nats per datum over the second half of "
        f"the run ({report.epochs} epochs); increase epochs (try twice as many)"
    )


class Chains(NamedTuple):
    """Draws of Markov chains, chain by chain."""

    weights: Float[Array, "C R P"]
    log_noise: Float[Array, "C R O"]
    divergences: Int[Array, "C"]


class Result(NamedTuple):
    """Posterior and diagnostics of a run; ``nodes`` is 0 if z was not integrated out."""

    posterior: Any
    nodes: int
    convergence: Convergence | None = None
    chains: Chains | None = None
    out_of_bag: Any = None
