"""``elementwise``: a function of single numbers, for columns of them.

What ``jax.vmap`` makes of a function that stacks its arguments and takes the result apart again
moves arrays, and so does its gradient. Here every number of a small array is a column of its own,
and to stack some only makes a list. Functions that do more than that are left to ``jax.vmap``.
"""

from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from twofold.core.arrays import Array

NUMBERS = set(
    "abs acos acosh add and asin asinh atan atan2 atanh cbrt ceil clamp convert_element_type copy "
    "cos cosh div eq erf erf_inv erfc exp exp2 expm1 floor ge gt integer_pow is_finite le log "
    "log1p logistic lt max min mul ne neg not or pow rem round rsqrt select_n sign sin sinh sqrt "
    "square sub tan tanh xor".split()
)
CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr"}
CALLS |= {"custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}
SHAPES: dict[str, Callable[..., Any]] = {
    "broadcast_in_dim": lambda own, shape, broadcast_dimensions, **_: _broadcast(
        own, shape, broadcast_dimensions
    ),
    "reshape": lambda own, new_sizes, **_: own.reshape(new_sizes),
    "squeeze": lambda own, dimensions, **_: np.squeeze(own, dimensions),
    "expand_dims": lambda own, dimensions, **_: np.expand_dims(own, dimensions),
    "transpose": lambda own, permutation, **_: own.transpose(permutation),
    "concatenate": lambda *own, dimension, **_: np.concatenate(own, dimension),
    "stack": lambda *own, axis, **_: np.stack(own, axis),
    "reduce_sum": lambda own, axes, **_: np.sum(own, axes),
    "slice": lambda own, start_indices, limit_indices, strides, **_: own[
        tuple(
            starmap(
                slice, zip(start_indices, limit_indices, strides or [1] * own.ndim, strict=True)
            )
        )
    ],
}


def elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function for columns, arrays of one shape, instead of numbers."""

    def call(*arguments: Any) -> Any:
        leaves, tree = jax.tree.flatten(arguments)
        numbers = [jax.ShapeDtypeStruct((), leaf.dtype) for leaf in leaves]
        closed, found = jax.make_jaxpr(
            lambda *own: function(*tree.unflatten(own)), return_shape=True
        )(*numbers)
        if not _known(closed.jaxpr):
            mapped = function
            for _ in range(leaves[0].ndim):
                mapped = jax.vmap(mapped)
            return mapped(*arguments)
        results = _evaluate(closed.jaxpr, closed.consts, list(map(_single, leaves)))
        columns = [jnp.broadcast_to(own.item(), leaves[0].shape) for own in results]
        return jax.tree.unflatten(jax.tree.structure(found), columns)

    return call


def _known(jaxpr: core.Jaxpr) -> bool:
    """Whether all that a program does can be done number by number."""
    names = {equation.primitive.name for equation in jaxpr.eqns}
    inner = (_inner(equation) for equation in jaxpr.eqns if equation.primitive.name in CALLS)
    return names <= NUMBERS | set(SHAPES) | set(CALLS) and all(_known(one[0]) for one in inner)


def _inner(equation: core.JaxprEqn) -> tuple[core.Jaxpr, Sequence[Any]]:
    """The program that an equation calls, with its constants."""
    own = equation.params[CALLS[equation.primitive.name]]
    return getattr(own, "jaxpr", own), getattr(own, "consts", ())


def _evaluate(
    jaxpr: core.Jaxpr, constants: Sequence[Any], arguments: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """A program whose arrays are arrays of columns."""
    known = dict(zip(jaxpr.constvars, map(_each_number, constants), strict=True))
    known |= dict(zip(jaxpr.invars, arguments, strict=True))

    def read(atom: Any) -> np.ndarray:
        return _each_number(atom.val) if isinstance(atom, core.Literal) else known[atom]

    for equation in jaxpr.eqns:
        results = _apply(equation, [read(atom) for atom in equation.invars])
        known |= dict(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _apply(equation: core.JaxprEqn, arguments: list[np.ndarray]) -> list[np.ndarray]:
    name, primitive = equation.primitive.name, equation.primitive
    if name in CALLS:
        return _evaluate(*_inner(equation), arguments)
    if name in SHAPES:
        return [np.asarray(SHAPES[name](*arguments, **equation.params), object)]
    found = np.empty(equation.outvars[0].aval.shape, object)
    every = np.broadcast_arrays(*arguments)
    for place in np.ndindex(found.shape):
        columns = jnp.broadcast_arrays(*(own[place] for own in every))
        found[place] = primitive.bind(*columns, **equation.params)
    return [found]


def _single(column: Array) -> np.ndarray:
    """A column as the only entry of an array of columns."""
    found = np.empty((), object)
    found[()] = column
    return found


def _each_number(values: Any) -> np.ndarray:
    """The numbers of a constant, as columns."""
    found = np.empty(np.shape(values), object)
    for place in np.ndindex(found.shape):
        found[place] = values[place] if found.shape else values
    return found


def _broadcast(own: np.ndarray, shape: Sequence[int], places: Sequence[int]) -> np.ndarray:
    sizes = [1] * len(shape)
    for place, size in zip(places, own.shape, strict=True):
        sizes[place] = size
    return np.broadcast_to(own.reshape(sizes), shape)
