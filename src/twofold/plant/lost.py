"""Diagnosis of non-finite roll-outs: a value of the log, a predicted column, or the cost, checked
in that order."""

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float
from twofold.model.spec import Draws
from twofold.plant.cost import FINITE
from twofold.plant.log import Start, Window
from twofold.plant.raw_log import find_far
from twofold.plant.rollout import Noise, Scales, Task, rollout


def explain_lost(
    task: Task,
    scales: Scales,
    weights: Float[Array, "1 P"],
    draws: Draws,
    noise: Noise,
    windows: Window | Start,
    starts: Window | Start,
) -> str:
    """Explain what is not finite, with a remedy, from roll-outs of one policy from some windows;
    ``starts`` are all starts in the log."""
    names = task.embedding.observations
    for name, values in zip(names, np.asarray(starts.observations[:, -1], float).T, strict=True):
        if len(rows := find_far(values)):
            return (
                f"column {name!r} of the log is {values[rows[0]]:g}, more than a million times its "
                "usual spread; correct or remove that row"
            )
    trace = jax.jit(rollout, static_argnums=0)(task, scales, weights, draws, noise, windows)
    lost = ~np.isfinite(trace.observations).all(axis=(1, 2, 3))
    if lost.any():
        step, column = np.argwhere(lost)[0]
        return (
            f"predictions of {names[column]!r} are not finite from step {step + 1} on; bound it "
            f"with a transform, as transforms={{{names[column]!r}: 'logit'}}, or look for extreme "
            "values in the log"
        )
    visited = [part.reshape(-1, part.shape[-1]) for part in (trace.observations, trace.actions)]
    bad, what = task.cost.find_lost(*map(jnp.asarray, visited))
    if len(bad):
        where = task.cost.describe(*(np.asarray(part)[bad[0]] for part in visited))
        return f"{what} where {where}; {FINITE}"
    return "shorten the horizon, or lower learning_rate"
