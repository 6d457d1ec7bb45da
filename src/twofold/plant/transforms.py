"""How a model sees a column: as it is, on a logarithmic scale, or between two bounds.

A cost that is never negative and seldom large is seen as ``log(1 + c)``; a column with a range as
the logit of its place in that range, which a prediction then cannot leave. A value beyond that
range, of a log that was not there when it was chosen, is seen as if it were at its end.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float
from twofold.core.naming import nearest
from twofold.plant.errors import LogError, LogWarning

Kind = Literal["identity", "log1p", "logit", "log1p_logit"]
KINDS = ("identity", "log1p", "logit", "log1p_logit")
# Beyond the data, as a part of their range, on either side.
MARGIN = 0.05
# Nearest to a bound, as a part of the range, that a value is taken for: logits stay finite.
EDGE = 1e-6


@dataclass(frozen=True)
class Transform:
    """A column as a model sees it; ``low`` and ``high`` bound it after the logarithm, if any."""

    kind: Kind = "identity"
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self):
        if self.kind not in KINDS:
            raise LogError(
                f"a transform is one of {', '.join(KINDS)}, got {self.kind!r}"
                f"{nearest(self.kind, KINDS)}"
            )
        if not self.low < self.high:
            raise LogError(f"a transform needs low < high, got {self.low:g} and {self.high:g}")

    def forward(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        """From the column's units."""
        if self.kind.startswith("log1p"):
            value = jnp.log1p(value)
        if not self.kind.endswith("logit"):
            return value
        place = jnp.clip((value - self.low) / (self.high - self.low), EDGE, 1.0 - EDGE)
        return jnp.log(place) - jnp.log1p(-place)

    def settled(self, seen: Float[Array, "..."]) -> Float[Array, "..."]:
        """What ``forward`` gives for the value that ``inverse`` makes of this."""
        if not self.kind.endswith("logit"):
            return seen
        edge = math.log1p(-EDGE) - math.log(EDGE)
        return jnp.clip(seen, -edge, edge)

    def inverse(self, seen: Float[Array, "..."]) -> Float[Array, "..."]:
        """Back to the column's units."""
        if self.kind.endswith("logit"):
            # 1/2 + tanh/2 is the logistic function without an overflow.
            seen = self.low + (self.high - self.low) * (0.5 + 0.5 * jnp.tanh(0.5 * seen))
        return jnp.expm1(seen) if self.kind.startswith("log1p") else seen


def fitted(name: str, transform: Any, values: np.ndarray) -> Transform:
    """A transform by name, with bounds that hold the values and a margin of 5 % on either side."""
    if isinstance(transform, Transform):
        return transform
    kind = Transform(transform).kind
    values = _logarithms(name, kind, values)
    if not kind.endswith("logit"):
        return Transform(kind)
    low, high = float(values.min()), float(values.max())
    if not low < high:
        raise LogError(f"{name!r} cannot be scaled to its range: it is {low:g} in every row")
    margin = MARGIN * (high - low)
    return Transform(kind, low - margin, high + margin)


def check_seen(name: str, transform: Transform, values: np.ndarray) -> None:
    """Refuse values that have no logarithm, and warn of those beyond the bounds."""
    seen = _logarithms(name, transform.kind, values)
    if not transform.kind.endswith("logit"):
        return
    beyond = values[(seen < transform.low) | (seen > transform.high)]
    if len(beyond):
        ends = np.array([transform.low, transform.high])
        after = " after the logarithm" if transform.kind.startswith("log1p") else ""
        low, high = np.expm1(ends) if after else ends
        warnings.warn(
            f"{name!r} leaves the range of its transform, {low:g} to {high:g}, in {len(beyond):,} "
            f"of {len(values):,} values ({beyond.min():g} to {beyond.max():g}), which are seen as "
            "if they were at its end; do not score predictions of those, or embed with a wider "
            f"range: transforms={{{name!r}: Transform({transform.kind!r}, low, high)}}{after}",
            LogWarning,
            stacklevel=4,
        )


def _logarithms(name: str, kind: Kind, values: np.ndarray) -> np.ndarray:
    """The values after the logarithm, if the transform has one."""
    if not kind.startswith("log1p"):
        return values
    if values.min() <= -1.0:
        raise LogError(
            f"{name!r} cannot be seen as log(1 + value): its smallest value is {values.min():g}, "
            "and it must be above -1"
        )
    return np.log1p(values)
