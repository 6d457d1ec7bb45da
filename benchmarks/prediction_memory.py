"""How much memory a prediction takes, as a formula of its sizes, for the cost model.

The library itself asks the compiler. The formula is coarse, of the arrays that grow with what a
user can ask for, and meant to be too large rather than too small, within a factor of about three.
"""

from typing import Literal, NamedTuple

import numpy as np

from twofold.core import numerics
from twofold.model.spec import BNNLV
from twofold.uncertainty.entropies import SIZES
from twofold.uncertainty.predictive import chunk_rows, latents_at_once

# What there is of an array of activations at once: itself, its gradient, and a copy on the way.
ACTIVATIONS = 3
# Draws as they are and in the order in which layers want them; what is computed of them, and that
# in the order in which it is used; grids of densities and of their transforms; inputs on their way
# to standardised ones.
TWICE = 2
# An array of results as its chunks, joined, and in raw units.
RESULTS = 3
DOUBLE = 8


class Request(NamedTuple):
    """A prediction: by which program, of how many rows, of which at most so many at once, with how
    many draws of weights and of z for each of them, and how many numbers come out for a row."""

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
    """Numbers that the program of a chunk holds beside the draws."""
    program, _, _, weights, _, _ = request
    if program == "sample":
        noise = TWICE * (model.latents + model.outputs)
        return chunk * weights * (ACTIVATIONS * max(model.sizes) + noise)
    block = latents_at_once(model, weights, chunk, latents)
    # A CPU takes one weight draw after another.
    together = 1 if numerics.on_cpu() else weights
    # What x adds to the first layer is kept beside the activations.
    values = chunk * together * (1 + ACTIVATIONS * block) * max(model.sizes)
    values += block * chunk * TWICE * weights * model.outputs
    if program == "density":
        return values
    if program == "moments":
        return values + TWICE * ACTIVATIONS * chunk * weights * model.outputs
    centres = TWICE * latents * weights * model.outputs * chunk
    # Of every weight draw, and of all together.
    return centres + max(values, TWICE * (weights + 1) * SIZES[-1])
