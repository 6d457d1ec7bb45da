"""Data as the compiled programs see it: standardised, and padded to one of a few sizes."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from twofold.typing import Array, Float, Int


class Padded(NamedTuple):
    """``size`` real rows, then rows of zeros; programs compile for the padded length only."""

    x: Float[Array, "N D"]
    y: Float[Array, "N O"]
    size: Int[Array, ""]


class Standardizer(NamedTuple):
    """Column means and scales; a constant column gets scale 1 and so becomes all zeros."""

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(cls, values: np.ndarray) -> "Standardizer":
        """Means and standard deviations of the columns."""
        with np.errstate(over="ignore"):
            return cls._fit(values)

    @classmethod
    def _fit(cls, values: np.ndarray) -> "Standardizer":
        low, high = values.min(axis=0), values.max(axis=0)
        # Decided on the range: the mean and deviation of a long constant column carry the rounding
        # of their sums, which would be taken for a spread.
        negligible = 10 * np.finfo(values.dtype).eps * np.maximum(np.abs(low), np.abs(high))
        constant = high - low <= negligible
        mean = np.where(constant, low, values.mean(axis=0))
        return cls(mean, np.where(constant, 1.0, values.std(axis=0)))

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Raw units to standardised ones."""
        return (values - self.mean) / self.scale

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """Standardised units to raw ones."""
        return values * self.scale + self.mean


def padded_size(rows: int) -> int:
    """The smallest of the sizes 2^k · (4, 5, 6, 7)/4, from 64 on, that holds ``rows``."""
    if rows <= 64:
        return 64
    quarter = 2 ** ((rows - 1).bit_length() - 3)
    return -(-rows // quarter) * quarter


def pad(x: np.ndarray, y: np.ndarray, length: int, dtype: str) -> Padded:
    """Standardised data with rows of zeros up to ``length``."""
    missing = ((0, length - len(x)), (0, 0))
    return Padded(
        jnp.asarray(np.pad(x, missing), dtype),
        jnp.asarray(np.pad(y, missing), dtype),
        jnp.asarray(len(x), jnp.int32),
    )
