"""Why roll-outs are not finite: a logged value, a predicted column, or the cost, in that order."""

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float
from twofold.plant.cost import FINITE
from twofold.plant.descent import Config, Plant, draw
from twofold.plant.raw_log import find_far
from twofold.plant.rollout import rollout


def explain_lost(config: Config, plant: Plant, weights: Float[Array, "P"]) -> str:
    """What is not finite, with a remedy, in the roll-outs of a policy's first update."""
    task, names = config.task, config.task.embedding.observations
    latest = np.asarray(plant.starts.observations[:, -1], float)
    for name, values in zip(names, latest.T, strict=True):
        if len(rows := find_far(values)):
            value = f"{values[rows[0]]:g}, more than a million times its usual spread"
            return f"column {name!r} of the log is {value}; correct or remove that row"
    given = plant.scales, weights[None], *draw(config, plant, jnp.int32(0))
    trace = jax.jit(rollout, static_argnums=0)(task, *given)
    lost = ~np.isfinite(trace.observations).all(axis=(1, 2, 3))
    if lost.any():
        step, column = np.argwhere(lost)[0]
        remedy = f"bound them with transforms={{{names[column]!r}: 'logit'}}"
        lost = f"predictions of {names[column]!r} are not finite from step {step + 1} on"
        return f"{lost}; {remedy}, or look for extreme values in the log"
    visited = [part.reshape(-1, part.shape[-1]) for part in (trace.observations, trace.actions)]
    bad, what = task.cost.find_lost(*map(jnp.asarray, visited))
    if len(bad):
        where = task.cost.describe(*(np.asarray(part)[bad[0]] for part in visited))
        return f"{what} where {where}; {FINITE}"
    return "shorten the horizon, or lower learning_rate"
