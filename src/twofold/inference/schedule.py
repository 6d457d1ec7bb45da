"""How long a run is and how its learning rate goes along it."""

from typing import NamedTuple

import jax.numpy as jnp

from twofold.core.arrays import Array, Float, Int


class Schedule(NamedTuple):
    """Settings shared by all members: length, rate, and 1 for cosine decay or 0 for none."""

    epochs: Int[Array, ""]
    batches: Int[Array, ""]
    learning_rate: Float[Array, ""]
    decay: Float[Array, ""]


def learning_rate(schedule: Schedule, progress: Float[Array, ""]) -> Float[Array, ""]:
    """The rate at a point of the run (0 start, 1 end): constant, or falling to 0 as a cosine."""
    cosine = 0.5 * (1.0 + jnp.cos(jnp.pi * progress))
    return schedule.learning_rate * (1.0 - schedule.decay + schedule.decay * cosine)
