"""Standard normal noise for training, from a cheap counter-based generator."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from twofold.core import numerics
from twofold.core.arrays import Array, Bool, Float, Int, Key, UInt32


def mix(words: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """A bijection of 32-bit words in which every input bit moves every output bit.

    Wellons' ``lowbias32`` (2018): two multiplications between three shifts.
    """
    words = (words ^ (words >> 16)) * jnp.uint32(0x7FEB352D)
    words = (words ^ (words >> 15)) * jnp.uint32(0x846CA68B)
    return words ^ (words >> 16)


def fast_normal(key: Key, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Standard normal numbers in float32, from a cheaper generator than ``jax.random``'s.

    Each number's counter is mixed twice, with half of the key each time; training spends a good
    part of its time on noise, and needs no cryptography and no far tail (|z| stays below 5.5).
    """
    first, second = jax.random.key_data(key)
    counters = jax.lax.iota(jnp.uint32, math.prod(shape))
    words = mix(mix(counters ^ first) + second)
    uniform = (words >> 8).astype(jnp.float32) * 2.0**-23 + (2.0**-24 - 1.0)
    return (math.sqrt(2.0) * jax.lax.erf_inv(uniform)).reshape(shape)


def fenced(draw: Callable, index: Int[Array, ""], always: Bool[Array, ""]) -> Any:
    """``draw(index)``, kept out of XLA's fusions on a CPU by a condition that always holds.

    XLA would fuse the generator into each of the many uses of its numbers, and so run it again for
    every point and hidden unit. On a GPU the condition gained nothing, so it is left out there.
    """
    if not numerics.on_cpu():
        return draw(index)
    return jax.lax.cond(always, draw, lambda i: jnp.zeros_like(draw(i)), index)
