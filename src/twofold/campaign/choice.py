"""What a campaign proposes: evenly spread points first, then those that teach most together."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from twofold.active.batch import best_together
from twofold.campaign.definition import PARTS
from twofold.campaign.space import Point, Space
from twofold.estimators.regressor import BNNLVRegressor

POOL = 256
REFERENCE = 128
REFERENCE_SEED = 2**31 - 1
SMALL_SHARE = 0.05
SPREAD = "evenly spread: too few measurements for a model yet"


class Chosen(NamedTuple):
    """A point, what is known there, and why it was chosen."""

    point: Point
    split: dict[str, Any]
    reason: str


def fewest(space: Space) -> int:
    """Complete measurements that a first model needs: two for each column and some more."""
    return 2 * sum(one.width for one in space.inputs) + 4


def choose(
    campaign: Any,
    model: BNNLVRegressor | None,
    num: int,
    pending: Sequence[Point],
    asked: int,
) -> list[Chosen]:
    """``num`` points for a campaign with this model, if any, and these open proposals."""
    if model is None:
        return [Chosen(point, {}, SPREAD) for point in _spread(campaign, num, asked)]
    pool = _pool(campaign, num, asked)
    free = [point for point in pool if point not in pending]
    free = free if len(free) >= num else pool
    every = [*pending, *free]
    best = _teaching(model, campaign.space, every, len(pending), num)
    return _described(model, campaign.space, [every[i] for i in best], campaign.outputs)


def snapshot(model: BNNLVRegressor, space: Space) -> dict[str, float]:
    """What more data could still remove, over the whole space.

    ``epistemic_nats`` is the mean of ``I(W; y)``, ``epistemic_share`` the epistemic part of the
    predictive variance (the mean over outputs).
    """
    reference = space.encode(space.spread(REFERENCE, REFERENCE_SEED))
    variances = model.decompose(reference, by="variance")
    share = variances.epistemic.mean(axis=0) / variances.total.mean(axis=0)
    nats = information(model, reference).mean()
    return {"epistemic_nats": float(nats), "epistemic_share": float(np.mean(share))}


def information(model: BNNLVRegressor, x: np.ndarray) -> np.ndarray:
    """``I(W; y)`` at each row, what a measurement there is expected to teach, summed over outputs.

    Where the noise is too narrow for the entropies to be known it is that of Gaussians with the
    same variances.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the entropies of", RuntimeWarning)
        nats = model.decompose(x).epistemic
    variances = model.decompose(x, by="variance")
    gaussian = 0.5 * np.log(variances.total / variances.aleatoric)
    known = np.where(np.isfinite(nats), np.maximum(nats, 0.0), gaussian)
    return known.reshape(len(x), -1).sum(axis=1)


def is_enough(curve: Sequence[dict[str, float]]) -> bool:
    """Whether what more data could remove is small beside what they could not."""
    return bool(curve) and curve[-1]["epistemic_share"] < SMALL_SHARE


def advice(curve: Sequence[dict[str, float]], missing: int, complete: int) -> str:
    """Whether going on pays, in words."""
    if not curve:
        return (
            f"no model yet: {missing} more complete measurement"
            f"{'s are' if missing > 1 else ' is'} needed"
            if missing > 0
            else "no model yet: ask once to fit the first one"
        )
    share, seen = curve[-1]["epistemic_share"], int(curve[-1]["measurements"])
    verdict = "consider stopping" if is_enough(curve) else "going on pays"
    later = f" ({complete - seen} have come since: ask to count them in)" if complete > seen else ""
    return (
        f"{verdict}: after {seen} measurements{later}, more of them could remove about {share:.0%} "
        f"of the predictive variance; the other {1 - share:.0%} is noise that measuring again does "
        "not remove"
    )


def _spread(campaign: Any, num: int, asked: int) -> list[Point]:
    if campaign.candidates is None:
        return campaign.space.spread(asked + num, seed=0)[asked:]
    order = np.random.default_rng(0).permutation(len(campaign.candidates))
    return [campaign.candidates[order[(asked + i) % len(order)]] for i in range(num)]


def _pool(campaign: Any, num: int, asked: int) -> list[Point]:
    if campaign.candidates is not None:
        return campaign.candidates
    return campaign.space.spread(max(POOL, 4 * num), seed=asked + 1)


def _teaching(
    model: BNNLVRegressor, space: Space, points: list[Point], underway: int, num: int
) -> list[int]:
    """Indices of the points that teach most together, the first ``underway`` being underway."""
    x = space.encode(points)
    means, variances = model.conditional_moments(x)
    scores = information(model, x)
    return best_together(scores, means, variances.mean(axis=0), num, range(underway)).tolist()


def _described(
    model: BNNLVRegressor, space: Space, points: list[Point], outputs: list[str]
) -> list[Chosen]:
    """The split at each point, in words and as standard deviations of each output."""
    x = space.encode(points)
    deviations = model.decompose(x, by="variance").standard_deviations()
    columns = {part: getattr(deviations, part).reshape(len(points), -1) for part in PARTS}
    return [
        Chosen(
            point,
            {
                "information_nats": float(nats),
                "standard_deviation": {
                    part: dict(zip(outputs, map(float, columns[part][i]), strict=True))
                    for part in PARTS
                },
            },
            f"expected to teach {nats:.2f} nats about the model",
        )
        for i, (point, nats) in enumerate(zip(points, information(model, x), strict=True))
    ]
