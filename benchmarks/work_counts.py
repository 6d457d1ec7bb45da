"""The work of a job: arithmetic, special functions and memory traffic.

A count is independent of the implementation, so the time of a count at a machine's best rates is a
floor: no program is faster, and a good one is not many times slower. Products count two operations
for each pair, a sum, a comparison or an integer operation one; exponentials, logarithms, roots,
sines and normal numbers are special functions; bytes are those of inputs and outputs, as if all
intermediate results stayed in the cache.
"""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend import core

BYTES = 4
SPECIAL = {"exp", "exp2", "expm1", "log", "log1p", "tanh", "logistic", "sqrt", "rsqrt", "cbrt"}
SPECIAL |= {"sin", "cos", "tan", "asin", "acos", "atan2", "pow", "erf", "erf_inv", "erfc", "lgamma"}
# Copies and reshapes, which a compiler fuses with other operations.
FREE = {"broadcast_in_dim", "reshape", "transpose", "squeeze", "slice", "concatenate", "copy"}
FREE |= {"convert_element_type", "iota", "pad", "rev", "stop_gradient", "bitcast_convert_type"}
FREE |= {"dynamic_slice", "dynamic_update_slice", "gather", "random_wrap", "random_unwrap"}
FREE |= {"optimization_barrier", "split", "copy_p", "expand_dims"}
THREEFRY = 60  # operations for a random word: twenty rounds of five on two words, and the key's
SPLINE = 30  # operations that distribute one centre over four grid points


class Work(NamedTuple):
    """Operations, special functions, bytes."""

    operations: float
    special: float = 0.0
    moved: float = 0.0

    def __add__(self, other: "Work") -> "Work":  # type: ignore[override]
        return Work(*(a + b for a, b in zip(self, other, strict=True)))

    def times(self, factor: float) -> "Work":
        """The work of this many repetitions."""
        return Work(*(factor * part for part in self))


class Rates(NamedTuple):
    """Best rates of a machine: operations, special functions and bytes per second."""

    operations: float
    special: float
    moved: float


def floor_seconds(work: Work, rates: Rates) -> float:
    """The time of the slowest part, which the others overlap."""
    return max(done / rate for done, rate in zip(work, rates, strict=True))


def weights_of(sizes: tuple[int, ...]) -> int:
    """Weights of a network without its biases."""
    return sum(a * b for a, b in pairwise(sizes))


def training_update(sizes: tuple[int, ...], latents: int, batch: int, draws: int) -> Work:
    """One α-update: a forward pass, and a backward pass to weights and activations; a normal number
    for each weight and latent input of each draw; parameters and Adam's moments read and
    written."""
    products = 6 * weights_of(sizes) * batch * draws
    parameters = weights_of(sizes) + sum(sizes[1:])
    noise = draws * (parameters + batch * latents)
    return Work(products, noise + draws * batch, 2 * 6 * parameters * BYTES)


def ensemble_update(sizes: tuple[int, ...], batch: int, nodes: int, members: int) -> Work:
    """One update of an ensemble: every node of z is a forward and a backward pass, and an
    exponential."""
    products = 6 * weights_of(sizes) * batch * nodes * members
    parameters = weights_of(sizes) + sum(sizes[1:])
    return Work(products, batch * nodes * members, 2 * 4 * parameters * members * BYTES)


def predictive_draws(
    sizes: tuple[int, ...], latents: int, points: int, weights: int, draws: int
) -> Work:
    """Means of y for nested draws: the contribution of x to the first layer is needed once per
    point and weight draw, that of z once per nested draw; the rest for each of them."""
    inputs, first = sizes[0] - latents, sizes[1]
    shared = 2 * first * (inputs * points + latents * draws) * weights
    every = (first + 2 * weights_of(sizes[1:])) * points * weights * draws
    into = weights * (weights_of(sizes) + sum(sizes[1:]) + draws * latents) + inputs * points
    return Work(shared + every, 0, BYTES * (into + 2 * weights * sizes[-1] * points))


def quadrature(points: int, weights: int, draws: int, grid: int) -> Work:
    """Entropies on a grid, from given centres: each centre distributed over the grid, a transform
    and its inverse, half a grid of exponentials and one of logarithms for each point and weight
    draw."""
    transforms = 2 * 2.5 * grid * math.log2(grid)
    each = Work(SPLINE * draws + transforms + 6 * grid, 1.5 * grid)
    return each.times(points * weights) + Work(0, 0, 2 * BYTES * points * weights)


def neighbours(points: int, weights: int, draws: int, k: int) -> Work:
    """Entropies of all draws together and of each weight draw: sorting by comparisons, and for each
    draw k + 1 windows of four operations, a normal number and two logarithms."""
    pooled = weights * draws
    sorting = pooled * (math.log2(pooled) + math.log2(draws))
    return Work(sorting + 2 * 4 * (k + 1) * pooled, 3 * pooled, 2 * BYTES * weights).times(points)


class Rollouts(NamedTuple):
    """Sizes of roll-outs: steps, weight draws, noise draws, policies."""

    steps: int
    draws: int
    noises: int
    policies: int = 1


def rollout_gradient(model: tuple[int, ...], policy: tuple[int, ...], sizes: Rollouts) -> Work:
    """A forward pass through model and policy, a backward pass through both to the states and to
    the policies' weights; a tangent for each action; two normal numbers for each particle and step,
    shared by all policies; states written in the forward pass and read in the backward pass."""
    particles = sizes.steps * sizes.draws * sizes.noises
    rows = particles * sizes.policies
    products = (4 * weights_of(model) + 6 * weights_of(policy)) * rows
    return Work(products, policy[-1] * rows + 2 * particles, 2 * BYTES * policy[0] * rows)


def traced(function: Callable[..., Any], *arguments: Any) -> Work:
    """The work of any function of arrays, from its equations; bytes are those of inputs and
    outputs. Loops of unknown length count once, conditionals as their first branch."""
    closed = jax.make_jaxpr(function)(*arguments)
    ends = [*closed.jaxpr.invars, *closed.jaxpr.outvars]
    moved = sum(_elements(end.aval) * BYTES for end in ends if hasattr(end, "aval"))
    return _equations(closed.jaxpr) + Work(0, 0, moved)


def _elements(aval: Any) -> float:
    return float(math.prod(getattr(aval, "shape", ())))


def _equations(jaxpr: Any) -> Work:
    total = Work(0.0)
    for equation in jaxpr.eqns:
        total = total + _equation(equation)
    return total


def _equation(equation: Any) -> Work:
    name, size = equation.primitive.name, _elements(equation.outvars[0].aval)
    kinds = core.ClosedJaxpr, core.Jaxpr
    inner: list[Any] = [each for each in equation.params.values() if isinstance(each, kinds)]
    if name == "cond":
        return _equations(equation.params["branches"][0].jaxpr)
    if name == "while":
        return _equations(equation.params["body_jaxpr"].jaxpr)
    if name.startswith("random_"):
        return Work(THREEFRY * _words(equation))
    if inner:
        own = _equations(getattr(inner[0], "jaxpr", inner[0]))
        return own.times(equation.params["length"]) if name == "scan" else own
    if name == "dot_general":
        return Work(2 * size * _contracted(equation))
    if name.startswith("reduce_") or name.startswith("cum"):
        return Work(_elements(equation.invars[0].aval))
    return _elementwise(name, size)


def _elementwise(name: str, size: float) -> Work:
    if name in SPECIAL:
        return Work(0, size)
    return Work(0.0 if name in FREE else size)


def _words(equation: Any) -> float:
    """Number of 32-bit words that a random primitive generates; two for a key."""
    made = equation.outvars[0].aval
    if equation.primitive.name == "random_bits":
        return _elements(made)
    free = equation.primitive.name in ("random_wrap", "random_unwrap")
    return 0.0 if free else 2 * _elements(made)


def _contracted(equation: Any) -> int:
    (left, _), _ = equation.params["dimension_numbers"]
    shape = equation.invars[0].aval.shape
    return int(np.prod([shape[axis] for axis in left]))
