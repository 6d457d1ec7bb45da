"""Forces on many networks at once: the gradient of their log-likelihood with z integrated out.

On a GPU they come from ``forces.cu``, which is compiled when first needed and several times as fast
as XLA's program. Its products have the low precision of TF32. That suffices for a trajectory but
not for the acceptance test: any force that depends only on the position keeps a trajectory
reversible and volume-preserving, so the chains sample exactly the density used in the test, that of
``log_likelihoods``.
"""

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp

from twofold.core.arrays import Array, Float, Int
from twofold.inference.ensemble import Network
from twofold.inference.langevin import from_position
from twofold.model.density import Nodes, latent_nodes, log_marginal
from twofold.model.network import split_skip
from twofold.model.spec import BNNLV, layers

UNITS = 20
AT_ONCE = 256


class Tables(NamedTuple):
    """Data sets of one size, standardised."""

    x: Float[Array, "S N"]
    y: Float[Array, "S N"]


class Target(NamedTuple):
    """The target density: a model with its values of z, and data sets."""

    model: BNNLV
    nodes: Nodes
    tables: Tables

    @classmethod
    def of(cls, model: BNNLV, nodes: int, tables: Tables) -> "Target":
        """The target with this number of nodes of z."""
        return cls(model, latent_nodes(model, nodes), tables)


def flat_network(model: BNNLV, position: Float[Array, "d"]) -> Float[Array, "525"]:
    """All numbers that the likelihood depends on, in the order of ``forces.cu``."""
    network = from_position(model, position)
    (first, second, last), skip = split_skip(layers(model, network.weights[None]))
    kernel = jnp.pad(first.kernel[0], ((0, 0), (0, 1 - model.latents)))
    heads = jnp.pad(last.kernel[0], ((0, 2 - last.kernel.shape[1]), (0, 0)))
    biases = jnp.pad(last.bias[0], (0, 2 - last.bias.shape[1]))
    slope = jnp.zeros(1) if skip is None else skip.kernel[0, :1, 0]
    noise = jnp.pad(network.log_noise, (0, 2 - model.num_noise))
    parts = [kernel.T, first.bias, second.kernel, second.bias, heads, biases, slope, noise]
    return jnp.concatenate([part.ravel() for part in parts])


def log_likelihood(
    target: Target, position: Float[Array, "d"], number: Int[Array, ""]
) -> Float[Array, ""]:
    """``Σ_n log p(y_n | x_n, W)`` at a position, for the data set of this index."""
    network: Network = from_position(target.model, position)
    x, y = (part[number][:, None] for part in target.tables)
    with jax.default_matmul_precision("highest"):
        terms = log_marginal(
            target.model, network.weights[None], network.log_noise[None], x, y, target.nodes
        )
    return jnp.sum(terms)


def log_likelihoods(
    target: Target, positions: Float[Array, "C d"], numbers: Int[Array, "C"]
) -> Float[Array, "C"]:
    """``log_likelihood`` of many chains."""
    values: Array = jax.lax.map(
        lambda one: log_likelihood(target, *one), (positions, numbers), batch_size=AT_ONCE
    )
    return values


def forces(
    target: Target, positions: Float[Array, "C d"], numbers: Int[Array, "C"]
) -> Float[Array, "C d"]:
    """Gradients of the log-likelihood."""
    if not has_kernel(target.model):
        slope = jax.grad(log_likelihood, argnums=1)
        gradients: Array = jax.lax.map(
            lambda one: slope(target, *one), (positions, numbers), batch_size=AT_ONCE
        )
        return gradients
    flat, to_positions = jax.vjp(jax.vmap(functools.partial(flat_network, target.model)), positions)
    return to_positions(kernel_gradients(target, flat, numbers)[0])[0]


def kernel_gradients(
    target: Target, flat: Float[Array, "C 525"], numbers: Int[Array, "C"]
) -> tuple[Float[Array, "C 525"], Float[Array, "C"]]:
    """Gradients and log-likelihoods by ``forces.cu``."""
    x, y = target.tables
    kinds = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in (flat.shape, flat.shape[:1])]
    z = (
        jnp.zeros(len(target.nodes.points))
        if not target.model.latents
        else target.nodes.points[:, 0]
    )
    gradients, values = jax.ffi.ffi_call("twofold_forces", kinds)(
        *(flat, x, y, numbers.astype(jnp.int32), z.astype(jnp.float32)),
        target.nodes.log_weights.astype(jnp.float32),
        tanh=target.model.activation == "tanh",
        varying=target.model.varying_noise,
    )
    return gradients, values


def has_kernel(model: BNNLV) -> bool:
    """Whether ``forces.cu`` supports the model and can be used."""
    shape = (model.inputs, model.outputs, model.hidden, model.latents, model.noise_floor)
    known = shape in [(1, 1, (UNITS, UNITS), latents, ()) for latents in (0, 1)]
    return known and jax.default_backend() == "gpu" and compile_kernel()


@functools.cache
def compile_kernel() -> bool:
    """Compile and register ``forces.cu``; False without a compiler."""
    compiler = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if compiler is None:
        return False
    source = Path(__file__).with_name("forces.cu")
    library = Path(tempfile.mkdtemp()) / "forces.so"
    target = jax.devices()[0].compute_capability.replace(".", "")
    words = ["-std=c++20", "-O3", f"-arch=sm_{target}", "--shared", "-Xcompiler", "-fPIC"]
    include = f"-I{jax.ffi.include_dir()}"
    subprocess.run([compiler, *words, include, source, "-o", library], check=True)
    handler = ctypes.CDLL(str(library)).Forces
    jax.ffi.register_ffi_target("twofold_forces", jax.ffi.pycapsule(handler), platform="CUDA")
    return True
