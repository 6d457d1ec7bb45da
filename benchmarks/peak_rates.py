"""Best rates of this machine: products, special functions, memory traffic."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.work_counts import Rates

CHAIN = 16


def seconds(call: Callable[[], Any]) -> float:
    """Seconds of one call until its result is ready."""
    started = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - started


class Peaks:
    """Programs that measure the rates; compiled once, measured repeatedly between other jobs."""

    def __init__(self, smoke: bool = False):
        gpu = jax.default_backend() == "gpu"
        self.side = 256 if smoke else 8192 if gpu else 2048
        self.values = 2**16 if smoke else 2**27 if gpu else 2**20
        self.long = 2**16 if smoke else 2**28 if gpu else 2**25
        key = jax.random.key(0)
        matrix = jax.random.normal(key, (self.side, self.side))
        few = jax.random.uniform(key, (self.values,))
        many = jax.random.uniform(key, (self.long,))
        product = jax.jit(lambda a: jnp.matmul(a, a, precision="float32"))
        chain, triad = jax.jit(exponentials), jax.jit(lambda a, b: a + 0.5 * b)
        other = many + 1.0
        self.calls = (lambda: product(matrix), lambda: chain(few), lambda: triad(many, other))
        for call in self.calls:
            jax.block_until_ready(call())

    def measure(self) -> Rates:
        """One measurement of each."""
        done = 2.0 * self.side**3, float(CHAIN * self.values), 12.0 * self.long
        found = [amount / seconds(call) for amount, call in zip(done, self.calls, strict=True)]
        return Rates(*found)


def exponentials(values: jax.Array) -> jax.Array:
    """Many exponentials of each value in sequence, so that memory does not matter."""
    for _ in range(CHAIN):
        values = jnp.exp(-values)
    return values
