"""The predictive distribution ``p(y | x) = ∫∫ p(y | x, z, W) p(z) q(W) dz dW`` (paper, Eq. 2).

All nested draws are made here: M weight draws, and for each of them L latent draws from the *prior*
(never from q(z): nothing is known about the z of a new point). All points share the same draws, so
a prediction does not depend on the other points. ``in_chunks`` processes any number of points, a
few at a time, so memory stays bounded.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from twofold.core import memory, numerics, sharding
from twofold.core.arrays import Array, Float, Int, Key
from twofold.core.numerics import stratified_normal
from twofold.model import network, spec
from twofold.model.density import Conditional, conditional
from twofold.model.spec import BNNLV, WIDE, Draws, Posterior, SampledPosterior

# Most activations of the widest layer in memory at once.
CPU_VALUES, GPU_VALUES = 2**15, 2**26
# Most nested draws at all rows of a chunk.
CHUNK_VALUES = 2**27
# One program, hence the same rounding, for all small requests; on a CPU, where tracing a program
# takes longer than running it, one more for all larger requests.
FEWEST_ROWS, CPU_ROWS = 32, 256
OnProgress = Callable[[int], None]


class Nested(NamedTuple):
    """M weight draws and, for each, L latent draws."""

    weights: Float[Array, "M P"]
    log_noise: Float[Array, "M noise"]
    latents: Float[Array, "L M Z"]


DRAW_AXES = (0, 0, 1)  # axis of M in the fields of Nested


class Moments(NamedTuple):
    """Mean and variance of y given each weight draw: over z and the noise."""

    mean: Float[Array, "M O B"]
    variance: Float[Array, "M O B"]


def latent_draws(key: Key, model: BNNLV, num: int, members: int) -> Float[Array, "L M Z"]:
    """Draws from p(z), spread evenly, ascending for one latent input. Without a latent input there
    is one draw; if z has levels, each is drawn once."""
    if model.latents == 0:
        return jnp.zeros((1, members, 0))
    shape, shuffle = (members, model.latents), model.latents > 1
    draws = stratified_normal(key, model.latent_levels or num, shape, shuffle=shuffle)
    return spec.latent_values(model, draws)


def nest(key: Key, model: BNNLV, posterior: Posterior, weights: int, latents: int) -> Nested:
    """``weights`` draws from the posterior, each with ``latents`` draws of z. From a posterior that
    is a set of draws, no more are taken than there are."""
    if isinstance(posterior, SampledPosterior):
        weights = min(weights, posterior.weights.shape[0])
    weight_key, latent_key = jax.random.split(key)
    draws = posterior.sample(weight_key, weights)
    z = latent_draws(latent_key, model, latents, weights).astype(draws.weights.dtype)
    return Nested(draws.weights, draws.log_noise, z)


def latents_at_once(model: BNNLV, draws: int, points: int, latents: int) -> int:
    """Number of latent draws evaluated together, a divisor of their total. A CPU processes one
    weight draw after another, with data that fit in its cache; a GPU all at once."""
    values = max(model.hidden, default=1) * points
    most = CPU_VALUES // values if numerics.on_cpu() else GPU_VALUES // (values * draws)
    return max(size for size in range(1, min(latents, max(1, most)) + 1) if latents % size == 0)


def in_blocks(model: BNNLV, nested: Nested, points: int) -> Float[Array, "blocks block M Z"]:
    """The latent draws, in blocks that are evaluated together."""
    latents, draws, size = nested.latents.shape
    block = latents_at_once(model, draws, points, latents)
    return nested.latents.reshape(latents // block, block, draws, size)


def components(model: BNNLV, nested: Nested, x: Float[Array, "B D"]) -> Conditional:
    """y given each nested draw: means and log-variances ``[L, M, O, B]``, log-odds ``[M]``; memory
    grows with L · M · B."""
    blocks = in_blocks(model, nested, x.shape[0])
    network_layers, latents = spec.layers(model, nested.weights), nested.latents.shape[0]
    outputs = jax.lax.map(
        lambda z: network.apply_nested(network_layers, x, z, model.activate), blocks
    )
    outputs = jnp.moveaxis(outputs, 0, 2)
    outputs = outputs.reshape(*outputs.shape[:2], latents, x.shape[0])
    given = conditional(model, outputs, nested.log_noise)
    mean, log_variance = (jnp.moveaxis(leaf, 2, 0) for leaf in given[:2])
    return Conditional(mean, log_variance, given.log_odds)


def moments(model: BNNLV, nested: Nested, x: Float[Array, "B D"]) -> Moments:
    """Mean and variance of y given each W, accumulated over blocks of latent draws."""
    blocks = in_blocks(model, nested, x.shape[0])
    block, network_layers = blocks.shape[1], spec.layers(model, nested.weights)

    def accumulate(carry: Any, z: Array) -> tuple[Any, None]:
        count, mean, squares, noise = carry
        outputs = network.apply_nested(network_layers, x, z, model.activate)
        given = conditional(model, outputs, nested.log_noise)
        values = given.mean
        if model.varying_noise:
            noise += network.sum_axis(given.variance, 2)
        block_mean = network.sum_axis(values, 2) / block
        spread = network.sum_axis(jnp.square(values - block_mean[:, :, None]), 2)
        shift, total = block_mean - mean, count + block
        squares += spread + jnp.square(shift) * (count * block / total)
        return (total, mean + shift * (block / total), squares, noise), None

    zeros = jnp.zeros((nested.weights.shape[0], model.outputs, x.shape[0]), x.dtype)
    start = 0.0, zeros, zeros, zeros
    (count, mean, squares, noise), _ = jax.lax.scan(accumulate, start, blocks)
    if not model.varying_noise:
        return Moments(mean, squares / count + conditional(model, zeros, nested.log_noise).variance)
    return Moments(mean, (squares + noise) / count)


def log_density(
    model: BNNLV,
    nested: Nested,
    x: Float[Array, "B D"],
    y: Float[Array, "B O"],
    error: Float[Array, "B O"],
) -> Float[Array, "B"]:
    """``log p(y | x)``: the log of the mean likelihood over all nested draws; ``error`` is the
    known error variance of each measurement, added to the noise."""
    network_layers = spec.layers(model, nested.weights)

    def accumulate(total: Array, z: Array) -> tuple[Array, None]:
        outputs = network.apply_nested(network_layers, x, z, model.activate)
        given = conditional(model, outputs, nested.log_noise).add_variance(error.T[:, None])
        terms = given.log_density(y.T[:, None])
        return jnp.logaddexp(total, jax.nn.logsumexp(terms, axis=(0, 1))), None

    start = jnp.full(x.shape[0], -jnp.inf, x.dtype)
    total, _ = jax.lax.scan(accumulate, start, in_blocks(model, nested, x.shape[0]))
    count = nested.latents.shape[0] * nested.latents.shape[1]
    return total - jnp.log(jnp.asarray(count, x.dtype))


def sample(
    key: Key, model: BNNLV, draws: Draws, x: Float[Array, "B D"], rows: Int[Array, "B 1"]
) -> Float[Array, "B M O"]:
    """One y at each point for each weight draw, with independent z and noise. ``rows`` numbers the
    points; the randomness of a point depends on its number alone."""
    dtype, num = draws.weights.dtype, draws.weights.shape[0]
    size = model.latents + model.num_noise

    def at_row(row: Int[Array, "1"]) -> Float[Array, "M noise"]:
        return jax.random.normal(jax.random.fold_in(key, row[0]), (num, size), dtype)

    noise = jnp.moveaxis(jax.vmap(at_row)(rows), 0, -1)
    z = spec.latent_values(model, noise[:, : model.latents])
    outputs = network.apply(spec.layers(model, draws.weights), x, z, model.activate)
    given = conditional(model, outputs, draws.log_noise)
    additive = noise[:, model.latents : model.latents + model.outputs]
    scale = jnp.exp(0.5 * given.log_variance)
    if given.log_odds is not None:
        wide = norm.sf(noise[:, -1]) < jax.nn.sigmoid(given.log_odds)[:, None]
        scale *= jnp.where(wide, WIDE, 1.0)[:, None]
    return jnp.moveaxis(given.mean + scale * additive, -1, 0)


def rows_at_once(model: BNNLV, weights: int, latents: int) -> int:
    """Number of rows whose nested draws fit in memory together."""
    return max(1, CHUNK_VALUES // (weights * latents * max(model.sizes)))


def chunk_rows(rows: int, limit: int, fewest: int = FEWEST_ROWS) -> int:
    """Number of rows per chunk: a power of two, at least ``fewest``, if one chunk is enough; on a
    CPU ``fewest`` or CPU_ROWS, unless padding rows are too expensive (``fewest`` is 1)."""
    if fewest > 1 and numerics.on_cpu():
        return min(limit, fewest if rows <= fewest else CPU_ROWS)
    chunks = -(-rows // limit)
    size = -(-rows // chunks) if chunks > 1 else max(fewest, 2 ** (rows - 1).bit_length())
    return min(limit, size)


def in_chunks(
    function: Any,
    shared: Sequence[Any],
    columns: Sequence[np.ndarray],
    limit: int,
    dtype: Any,
    on_progress: OnProgress | None = None,
    fewest: int = FEWEST_ROWS,
) -> Any:
    """Apply a compiled function to the ``shared`` arguments and equal chunks of rows (the last one
    padded), and join the results.

    The results are arrays with rows first, in float64 on the host. ``on_progress`` is called with
    the number of rows done. Several devices share the rows of a chunk, up to ``limit`` each.
    """
    rows = len(columns[0])
    mesh = sharding.devices_for(max(rows, fewest))
    limit *= 1 if mesh is None else mesh.size
    size = sharding.room(mesh, chunk_rows(rows, limit, fewest))
    parts = []
    for start in range(0, rows, size):
        filled = min(size, rows - start)
        chunk = (column[start : start + size] for column in columns)
        padded = (np.pad(column, ((0, size - filled), (0, 0)), "edge") for column in chunk)
        # Integers keep their dtype.
        arrays = [jnp.asarray(c, dtype if c.dtype.kind == "f" else None) for c in padded]
        if start == 0:
            _check_memory(function.lower(*shared, *arrays), rows, size)
        values = sharding.on_host(function(*shared, *arrays))
        parts.append(jax.tree.map(lambda v, n=filled: v[:n].astype(np.float64), values))
        if on_progress is not None:
            on_progress(start + filled)
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _check_memory(lowered: Any, rows: int, size: int) -> None:
    """Check that a chunk fits on the devices, and all results on the host."""
    numbers = sum(leaf.size for leaf in jax.tree.leaves(lowered.out_info)) / size
    what, remedy = (
        f"a prediction of {rows:,} rows",
        "predict fewer rows at a time or use fewer draws",
    )
    memory.check_program(lowered.compile(), what, remedy)
    # The chunks and the joined result, in double precision.
    memory.refuse_beyond(2 * 8 * rows * numbers, what, remedy, 1.0, memory.physical())
