"""Memory of a prediction as a formula in its sizes, for the cost model.

The library itself uses the compiler's estimate. This formula is coarse: it counts the arrays that
grow with the request, and is too large rather than too small, by up to a factor of about three.
"""

from typing import Literal, NamedTuple

import numpy as np

from twofold.core import numerics
from twofold.model.spec import BNNLV
from twofold.uncertainty.entropies import SIZES
from twofold.uncertainty.predictive import chunk_rows, latents_at_once

# Copies of an array of activations at a time: itself, its gradient, and a temporary copy.
ACTIVATIONS = 3
# Draws, and the same transposed for the layers; results, and the same transposed; grids of
# densities and of their transforms; inputs and standardised inputs.
TWICE = 2
# An array of results: in chunks, concatenated, and in raw units.
RESULTS = 3
DOUBLE = 8


class Request(NamedTuple):
    """A prediction: program, rows, largest chunk of rows, weight draws, latent draws for each of
    them, and numbers in the result of a row."""

    program: Literal["sample", "density", "moments", "entropy"]
    rows: int
    limit: int
    weights: int
    latents: int
    results: int


def prediction_bytes(model: BNNLV, request: Request, dtype: str) -> float:
    """Bytes of a prediction: the draws, one chunk of rows, and all rows with their results."""
    _, rows, limit, weights, latents, results = request
    latents = latents if model.latents else 1
    each = model.num_weights + model.outputs + latents * model.latents
    work = _work(model, request, chunk_rows(rows, limit), latents)
    itemsize = np.dtype(dtype).itemsize
    on_host = DOUBLE * rows * (TWICE * model.inputs + RESULTS * results)
    return float(itemsize * (TWICE * weights * each + work) + on_host)


def _work(model: BNNLV, request: Request, chunk: int, latents: int) -> int:
    """Numbers in the memory of a chunk's program, besides the draws."""
    program, _, _, weights, _, _ = request
    if program == "sample":
        noise = TWICE * (model.latents + model.outputs)
        return chunk * weights * (ACTIVATIONS * max(model.sizes) + noise)
    block = latents_at_once(model, weights, chunk, latents)
    # A CPU processes weight draws one by one.
    together = 1 if numerics.on_cpu() else weights
    # The contribution of x to the first layer is kept besides the activations.
    values = chunk * together * (1 + ACTIVATIONS * block) * max(model.sizes)
    values += block * chunk * TWICE * weights * model.outputs
    if program == "density":
        return values
    if program == "moments":
        return values + TWICE * ACTIVATIONS * chunk * weights * model.outputs
    centres = TWICE * latents * weights * model.outputs * chunk
    # Of every weight draw, and of all together.
    return centres + max(values, TWICE * (weights + 1) * SIZES[-1])
