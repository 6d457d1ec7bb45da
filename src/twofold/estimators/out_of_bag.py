"""Predictions of rows held out by members or chains, compared with a linear model."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Bool, Float, Int, Key
from twofold.core.numerics import Padded
from twofold.estimators.comparison import Comparison, compare_gains, pick_rows
from twofold.estimators.linear import cross_validate_linear
from twofold.estimators.members import row_weights
from twofold.inference.ensemble import Network, weigh_scores
from twofold.model.spec import BNNLV, Draws
from twofold.uncertainty import metrics, predictive

DRAWS, ROWS_AT_ONCE, SEED = 200, 64, 0


class HeldOut(NamedTuple):
    """Networks of K members with R draws each, mask of the rows each held out, and the score of
    each row (NaN if no member held it out)."""

    networks: Network
    mask: np.ndarray
    scores: np.ndarray


@partial(jax.jit, static_argnames="model")
def sample_held_out(
    key: Key,
    model: BNNLV,
    networks: Network,
    mask: Bool[Array, "K B"],
    x: Float[Array, "B D"],
    rows: Int[Array, "B"],
) -> Float[Array, "B draws O"]:
    """Draws of y at each row, each from a random one of the members that held the row out."""
    runs, each = networks.weights.shape[:2]

    def at_row(row: Any) -> Array:
        place, own_x, counted = row
        of_member, of_draw, of_y = jax.random.split(jax.random.fold_in(key, place), 3)
        odds = jnp.where(counted, 0.0, -jnp.inf)
        members = jax.random.categorical(of_member, odds, shape=(DRAWS,))
        picked = jax.random.randint(of_draw, (DRAWS,), 0, each)
        draws = Draws(*(leaf[jnp.minimum(members, runs - 1), picked] for leaf in networks))
        return predictive.sample(of_y, model, draws, own_x[None], place[None, None])[0]

    return jax.lax.map(at_row, (rows, x, mask.T), batch_size=ROWS_AT_ONCE)


def compare_out_of_bag(
    model: BNNLV, held_out: HeldOut, data: Padded, groups: np.ndarray | None
) -> Comparison | None:
    """Compare with a cross-validated linear model, row by row; None if there are too few rows."""
    count = int(data.size)
    x, y = (np.asarray(part[:count], np.float64) for part in (data.x, data.y))
    weight = row_weights(data)
    linear = cross_validate_linear(x, y, weight, groups)
    known = np.flatnonzero(np.isfinite(held_out.scores))
    if linear is None or len(known) < 2:
        return None
    linear_scores, linear_crps = linear
    own_weight = None if weight is None else weight[known]
    gains = held_out.scores[known] - weigh_scores(linear_scores[known], own_weight)
    some = known[pick_rows(len(known))]
    crps = score_draws(model, held_out, data, some)
    weight = None if weight is None else weight[some]
    return compare_gains(gains, crps, linear_crps[some], weight)


def score_draws(model: BNNLV, held_out: HeldOut, data: Padded, rows: np.ndarray) -> np.ndarray:
    """CRPS of some rows ``[B, O]``, including their known measurement errors."""
    at: Any = np.pad(rows, (0, len(data.x) - len(rows)), "edge")  # one program for all row counts
    key = jax.random.key(SEED)
    draws = sample_held_out(
        key, model, held_out.networks, held_out.mask[:, at], data.x[at], at.astype(np.int32)
    )
    samples = np.moveaxis(np.asarray(draws, np.float64), 1, 0)[:, : len(rows)]
    if data.error is not None:
        error = np.sqrt(np.asarray(data.error, np.float64)[rows])
        samples = samples + error * np.random.default_rng(SEED).standard_normal(samples.shape)
    return metrics.crps(samples, np.asarray(data.y, np.float64)[rows])
