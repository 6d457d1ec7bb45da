"""How much memory a request will take, and a refusal beforehand of what cannot be had.

A program of training is judged by the compiler's own count (``check_program``), before it runs.
What is far too large to be compiled at all is refused earlier, by coarse estimates of the arrays
that grow with what a user can ask for: rows, members, draws, nodes, units. They are right within a
factor of about three (``tests/fuzz/test_memory.py`` compares them with what the compiler says), so
that only what would take several times the memory that there is gets refused by them.
"""

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from twofold.core import numerics
from twofold.core.numerics import padded_size
from twofold.inference.method import option_names, resolve_method
from twofold.model.density import default_nodes
from twofold.model.spec import BNNLV
from twofold.uncertainty.entropies import SIZES
from twofold.uncertainty.predictive import chunk_rows, latents_at_once

# What there is of an array of activations at once: itself, its gradient, and a copy on the way.
ACTIVATIONS = 3
# Weights, anchor and Adam's two moments; of a mean field the same for means and variances.
STATE, MEAN_FIELD_STATE = 4, 8
# Data as they are and in the order of an epoch, on the device and on the host.
COPIES = 4
# Draws as they are and in the order in which layers want them; what is computed of them, and that
# in the order in which it is used; grids of densities and of their transforms; inputs on their way
# to standardised ones.
TWICE = 2
# An array of results as its chunks, joined, and in raw units.
RESULTS = 3
DOUBLE = 8
# Estimates are right within this factor.
SURELY = 3
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
Regressor = Any  # a BNNLVRegressor, whose module imports this one


class TooLargeError(ValueError):
    """A request needs more memory than there is."""


def available() -> int:
    """Bytes that the devices have, or, where they do not say, that this computer has."""
    chosen = jax.config.jax_default_device  # type: ignore[attr-defined]
    devices = jax.local_devices() if chosen is None else [chosen]
    stats: list[dict[str, Any]] = [getattr(one, "memory_stats", dict)() or {} for one in devices]
    limits = [int(one["bytes_limit"]) for one in stats if "bytes_limit" in one]
    return sum(limits) if limits else _physical()


def _physical() -> int:
    """Of this computer, or of the container that this runs in."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return sys.maxsize  # A system that does not say refuses nothing beforehand.
    try:
        return min(physical, int(CONTAINER_LIMIT.read_text()))
    except (OSError, ValueError):
        return physical


def refuse_beyond(needed: float, what: str, remedy: str, surely: float = SURELY) -> None:
    """Refuse what needs more than ``surely`` times what is available, and warn of what needs more
    than that."""
    limit = available()
    sentence = (
        f"{what} would take about {_shown(needed)} of memory, and there are {_shown(limit)}; "
        f"{remedy}"
    )
    if needed > surely * limit:
        raise TooLargeError(sentence)
    if needed > limit:
        warnings.warn(sentence, RuntimeWarning, stacklevel=5)


def program_bytes(program: Any) -> int:
    """Arguments, results and temporary arrays of a compiled program, each counted once; 0 if the
    compiler does not say."""
    found = program.memory_analysis()
    if found is None:
        return 0
    held = found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes
    return int(held - found.alias_size_in_bytes)


def check_program(program: Any, title: str) -> None:
    """Refuse a compiled program of training that needs more memory than there is."""
    remedy = "use smaller settings, a smaller batch_size first of all, or fewer rows"
    refuse_beyond(program_bytes(program), title, remedy, surely=1.0)


def check_fit(estimators: Sequence[Regressor], model: BNNLV, rows: int) -> None:
    """Refuse a fit that cannot fit into memory, with so many rows of the largest data set."""
    first = estimators[0]
    needed = fit_bytes(first, model, rows, len(estimators))
    method = resolve_method(first.inference)
    refuse_beyond(
        needed,
        f"a fit of {rows:,} rows",
        f"lower options of {type(method).__name__} ({', '.join(option_names(method))}) or "
        "hidden_layer_sizes, or use fewer rows",
    )


def fit_bytes(first: Regressor, model: BNNLV, rows: int, fits: int = 1) -> float:
    """Bytes of a fit of ``fits`` estimators with the settings of the first one."""
    method = resolve_method(first.inference)
    options = {name: getattr(method, name) for name in option_names(method)}
    room, itemsize = padded_size(rows), np.dtype(first.dtype).itemsize
    slots = min(options.get("batch_size", 1), room)
    nodes = max(default_nodes(model), 1) if options["nodes"] is None else options["nodes"]
    members = method.runs
    width, weights = sum(model.sizes[1:]), model.num_weights
    data = COPIES * room * (model.inputs + model.outputs)
    if method.name == "alpha":
        draws = options["draws"]
        latents = 0 if nodes else model.latents
        state = MEAN_FIELD_STATE * (weights + room * latents)
        work = ACTIVATIONS * draws * (weights + slots * (latents + max(nodes, 1) * width))
    elif method.name in ("nuts", "hmc"):
        state = weights * (STATE + options.get("samples", 1))
        work = ACTIVATIONS * room * max(nodes, 1) * width
    else:
        state = weights * (STATE + options.get("samples", 0)) + room
        work = ACTIVATIONS * slots * max(nodes, 1) * width
    traces = 4 * DOUBLE * int(options.get("epochs") or 0)
    return float(fits * members * (itemsize * (data + state + work) + traces))


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


def check_prediction(model: BNNLV, request: Request, dtype: str) -> None:
    """Refuse a prediction that cannot fit into memory."""
    refuse_beyond(
        prediction_bytes(model, request, dtype),
        f"{request.rows:,} rows with {request.weights:,} weight draws of {request.latents:,} "
        "latent draws each",
        "ask for fewer rows at a time, or for fewer draws (n_weight_draws, n_latent_draws, "
        "n_samples)",
    )


def _shown(number: float) -> str:
    return f"{number / 2**30:,.1f} GiB"
