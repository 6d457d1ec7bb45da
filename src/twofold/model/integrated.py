"""The likelihood with the latent input integrated out: ``p(y | x, W) = E_z N(y; f(x, z; W), Σ)``.

One latent input is a one-dimensional integral: an average over nodes in the middle of slices of
equal probability. It errs little as long as the noise is no narrower than the step that f takes
from one node to the next.
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri

from twofold.model import bnn
from twofold.model.bnn import BNNLV
from twofold.numerics import gaussian_log_density
from twofold.typing import Array, Float


def latent_nodes(model: BNNLV, num: int) -> Float[Array, "Q Z"]:
    """Medians of ``num`` slices of equal probability of p(z); one empty row without z."""
    if model.latents == 0:
        return jnp.zeros((1, 0))
    if model.latents > 1:
        raise ValueError(
            f"z is integrated out for at most one latent input, got {model.latents}; use "
            "latent_dim=1, or inference_options={'nodes': 0} with 'alpha', 'nuts' or 'hmc'"
        )
    return jnp.sqrt(model.latent_variance) * ndtri((jnp.arange(num) + 0.5) / num)[:, None]


def log_marginal(
    model: BNNLV,
    weights: Float[Array, "K P"],
    log_noise: Float[Array, "K O"],
    x: Float[Array, "B D"],
    y: Float[Array, "B O"],
    nodes: Float[Array, "Q Z"],
) -> Float[Array, "K B"]:
    """``log p(y | x, W)``: the log of the mean likelihood over the nodes."""
    (draws, _), rows, count = weights.shape, x.shape[0], nodes.shape[0]
    z = jnp.broadcast_to(nodes.T[None, :, :, None], (draws, model.latents, count, rows))
    every = jnp.tile(x, (count, 1))
    outputs = bnn.mean(model, weights, every, z.reshape(draws, model.latents, count * rows))
    outputs = outputs.reshape(draws, model.outputs, count, rows)
    terms = gaussian_log_density(y.T[:, None], outputs, log_noise[..., None, None]).sum(axis=1)
    return jax.nn.logsumexp(terms, axis=1) - jnp.log(jnp.asarray(count, x.dtype))
