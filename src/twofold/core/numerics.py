"""Shared numerical functions, and data in the form that compiled programs take: standardised and
padded to one of a few sizes."""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri

from twofold.core.arrays import Array, Float, Int, Key

LOG_TWO_PI = math.log(2.0 * math.pi)


def on_cpu() -> bool:
    return jax.default_backend() == "cpu"


def power_log_mean_exp(
    log_values: Float[Array, "K *rest"], power: Float[Array, ""] | float
) -> Float[Array, "*rest"]:
    """``log(mean(exp(v)**power)) / power`` over the first axis: the log of a power mean. Power 1 is
    the log-mean-exp. Towards power 0 it becomes the mean of ``v``, and stays accurate in float32
    there, because ``expm1`` and ``log1p`` keep the digits that ``exp`` and ``log`` drop."""
    largest = jax.lax.stop_gradient(jnp.max(log_values, axis=0))
    largest = jnp.where(jnp.isfinite(largest), largest, 0.0)
    # Smaller weights add nothing, and their products are denormal numbers: slow on a CPU.
    negligible = 0.5 * math.log(jnp.finfo(log_values.dtype).tiny)
    scaled = jnp.maximum(power * (log_values - largest), negligible)
    shortfall = jnp.mean(jnp.expm1(scaled), axis=0)
    return largest + jnp.log1p(shortfall) / power


def gaussian_log_density(
    value: Float[Array, "..."], mean: Float[Array, "..."], log_variance: Float[Array, "..."]
) -> Float[Array, "..."]:
    square = jnp.square(value - mean) * jnp.exp(-log_variance)
    return -0.5 * (square + log_variance + LOG_TWO_PI)


def key_of(seed: int, *streams: int) -> Key:
    """The random key for one use of a seed; always Threefry, regardless of JAX's default."""
    key = jax.random.key(seed, impl="threefry2x32")
    for stream in streams:
        key = jax.random.fold_in(key, stream)
    return key


@partial(jax.jit, static_argnames=("num", "shape", "shuffle"))
def stratified_normal(
    key: Key, num: int, shape: tuple[int, ...], shuffle: bool = True
) -> Float[Array, "num ..."]:
    """``num`` standard normal draws of a shape, spread evenly in each coordinate (Latin hypercube).

    Each coordinate has one draw in each of ``num`` slices of equal probability, in random order,
    or in ascending order without ``shuffle``. Each draw is exactly normal; averages over draws have
    smaller errors than averages over independent draws, and never notably larger ones.
    """
    slice_key, order_key = jax.random.split(key)
    within = jax.random.uniform(slice_key, (num, *shape))
    slices = jnp.arange(num).reshape(num, *([1] * len(shape)))
    if shuffle:
        slices = jnp.argsort(jax.random.uniform(order_key, (num, *shape)), axis=0)
    # Clipped: a rank rounded to 0 or 1 would be an infinite draw.
    return ndtri(jnp.clip((slices + within) / num, 1e-7, 1.0 - 2e-7))


def select(condition: Any, new: Any, old: Any) -> Any:
    """``new`` where the condition holds, else ``old``: trees whose leaves begin with its axes."""

    def choose(a: Any, b: Any) -> Any:
        return jnp.where(
            condition.reshape(condition.shape + (1,) * (a.ndim - condition.ndim)), a, b
        )

    return jax.tree.map(choose, new, old)


class Place(NamedTuple):
    """Row numbers of a block within a larger table, and the number of rows of that table."""

    rows: Int[Array, "N"]
    total: Int[Array, ""]


class Padded(NamedTuple):
    """``size`` real rows, then rows of zeros; programs compile for the padded length only. A block
    of a larger table has a ``place`` in it. ``weight`` is the weight of each row in the likelihood
    (None: 1), ``error`` the known error variance of each measurement (None: none)."""

    x: Float[Array, "N D"]
    y: Float[Array, "N O"]
    size: Int[Array, ""]
    place: Place | None = None
    weight: Float[Array, "N"] | None = None
    error: Float[Array, "N O"] | None = None

    @property
    def num_data(self) -> Int[Array, ""]:
        """Number of rows of the whole data set, of which this may be a block."""
        return self.size if self.place is None else self.place.total

    def errors_of(self, rows: Any) -> Any:
        return None if self.error is None else self.error[rows]

    def weigh(self, values: Any, rows: Any = slice(None)) -> Any:
        """Values of all rows, or of those numbered ``rows``, times the weights of the rows."""
        return values if self.weight is None else values * self.weight[rows]


class Standardizer(NamedTuple):
    """Column means and scales; a constant column gets scale 1 and so becomes all zeros."""

    mean: Any
    scale: Any

    @classmethod
    def fit(cls, values: np.ndarray) -> "Standardizer":
        low, high = values.min(axis=0), values.max(axis=0)
        with np.errstate(over="ignore"):
            return cls.of(low, high, values.mean(axis=0), values.std(axis=0))

    @classmethod
    def of(cls, low: Any, high: Any, mean: Any, deviation: Any) -> "Standardizer":
        # Constant columns are recognised by their range: in a long constant column, rounding makes
        # the deviation slightly larger than 0.
        negligible = 10 * np.finfo(low.dtype).eps * np.maximum(np.abs(low), np.abs(high))
        with np.errstate(over="ignore"):
            constant = high - low <= negligible
        return cls(np.where(constant, low, mean), np.where(constant, 1.0, deviation))

    def transform(self, values: Any) -> Any:
        return (values - self.mean) / self.scale

    def inverse(self, values: Any) -> Any:
        return values * self.scale + self.mean

    def at(self, columns: Any) -> "Standardizer":
        return Standardizer(self.mean[columns], self.scale[columns])


class Running(NamedTuple):
    """Streaming statistics of columns: rows, means, sums of squared deviations, ranges."""

    rows: int
    mean: np.ndarray
    squares: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> "Running":
        with np.errstate(over="ignore", invalid="ignore"):
            mean = values.mean(axis=0)
            squares = np.square(values - mean).sum(axis=0)
        return cls(len(values), mean, squares, values.min(axis=0), values.max(axis=0))

    def merge(self, other: "Running") -> "Running":
        """Statistics of both together (Chan, Golub and LeVeque 1983), without sums of raw squares,
        which lose digits if the mean is large."""
        rows = self.rows + other.rows
        apart, share = other.mean - self.mean, other.rows / rows
        squares = self.squares + other.squares + np.square(apart) * self.rows * share
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return Running(rows, self.mean + share * apart, squares, low, high)

    def standardizer(self) -> Standardizer:
        """Equal to ``Standardizer.fit`` of all rows together, up to rounding."""
        with np.errstate(over="ignore"):
            deviation = np.sqrt(self.squares / self.rows)
        return Standardizer.of(self.low, self.high, self.mean, deviation)


def padded_size(rows: int) -> int:
    """The smallest size of the form 2^k · (4, 5, 6, 7)/4, at least 64, that holds ``rows``."""
    if rows <= 64:
        return 64
    quarter = 1 << ((rows - 1).bit_length() - 3)
    return -(-rows // quarter) * quarter


def pad(
    x: np.ndarray, y: np.ndarray, length: int, dtype: str,
    weight: np.ndarray | None = None, error: np.ndarray | None = None,
) -> Padded:  # fmt: skip
    """Standardised data with rows of zeros up to ``length``, still on the host."""

    def fill(values: Any) -> Any:
        missing = [(0, length - len(x)), *[(0, 0)] * (values.ndim - 1)]
        return np.pad(values, missing).astype(dtype)

    size: Any = np.asarray(len(x), np.int32)
    known: list[Any] = [None if part is None else fill(part) for part in (weight, error)]
    return Padded(fill(x), fill(y), size, None, *known)
