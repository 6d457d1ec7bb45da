"""What a campaign proposes: evenly spread points first, then those that teach most together."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from twofold.active.acquisition import epistemic_score
from twofold.active.batch import best_together
from twofold.campaign.errors import CampaignError
from twofold.campaign.space import Point, Space
from twofold.estimators.regressor import BNNLVRegressor
from twofold.estimators.validation import check_settings, plain

POOL = 256
REFERENCE = 128
REFERENCE_SEED = 2**31 - 1
SMALL_SHARE = 0.05
SPREAD = "spread evenly over the inputs: there are too few measurements for a model yet"


class Choice(NamedTuple):
    """Points with their split and reason, and what the model says of the whole space."""

    points: list[tuple[Point, dict[str, Any], str]]
    snapshot: dict[str, float] | None


def checked_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of the estimator, wrong ones refused before a campaign is made of them."""
    known = BNNLVRegressor().get_params()
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise CampaignError(f"BNNLVRegressor has no setting {', '.join(unknown)}")
    try:
        check_settings(BNNLVRegressor(**settings))
    except ValueError as error:
        raise CampaignError(str(error)) from error
    return plain(settings)


def fewest(space: Space) -> int:
    """Complete measurements that a first model needs: two for each column and some more."""
    return 2 * sum(one.width for one in space.inputs) + 4


def choose(
    campaign: Any,
    num: int,
    points: Sequence[Point],
    targets: np.ndarray,
    pending: Sequence[Point],
    asked: int,
) -> Choice:
    """``num`` points for a campaign with these complete measurements and open proposals."""
    space: Space = campaign.space
    if len(points) < fewest(space):
        return Choice([(point, {}, SPREAD) for point in _spread(campaign, num, asked)], None)
    settings = {"random_state": 0, "verbose": False} | campaign.settings
    targets = targets[:, 0] if targets.shape[1] == 1 else targets
    model = BNNLVRegressor(**settings).fit(space.encode(points), targets)
    pool = _pool(campaign, num, asked)
    free = [point for point in pool if point not in pending]
    free = free if len(free) >= num else pool
    every = [*pending, *free]
    chosen = _teaching(model, space, every, len(pending), num)
    return Choice(
        [(every[i], *_described(model, space, every[i], campaign.outputs)) for i in chosen],
        snapshot(model, space),
    )


def snapshot(model: BNNLVRegressor, space: Space) -> dict[str, float]:
    """What more data could still remove, over the whole space.

    ``epistemic_nats`` is the mean of ``I(W; y)``, ``epistemic_share`` the epistemic part of the
    predictive variance (the mean over outputs).
    """
    reference = space.encode(space.spread(REFERENCE, REFERENCE_SEED))
    variances = model.decompose(reference, by="variance")
    share = variances.epistemic.mean(axis=0) / variances.total.mean(axis=0)
    nats = epistemic_score(model.decompose(reference)).mean()
    return {"epistemic_nats": float(nats), "epistemic_share": float(np.mean(share))}


def advice(curve: Sequence[dict[str, float]], missing: int) -> str:
    """Whether going on pays, in words."""
    if not curve:
        return (
            f"no model yet: {missing} more complete measurements are needed"
            if missing > 0
            else "no model yet: ask once to fit the first one"
        )
    share, count = curve[-1]["epistemic_share"], curve[-1]["measurements"]
    noise = f"the other {1 - share:.0%} is noise that measuring again does not remove"
    verdict = "consider stopping" if share < SMALL_SHARE else "going on pays"
    return (
        f"{verdict}: after {count:.0f} measurements, more of them could remove about {share:.0%} "
        f"of the predictive variance; {noise}"
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
    scores = np.maximum(epistemic_score(model.decompose(x)), 0.0)
    return best_together(scores, means, variances.mean(axis=0), num, range(underway)).tolist()


def _described(
    model: BNNLVRegressor, space: Space, point: Point, outputs: list[str]
) -> tuple[dict[str, Any], str]:
    """The split at a point, in words and as standard deviations of each output."""
    x = space.encode([point])
    deviations = model.decompose(x, by="variance").standard_deviations()
    nats = float(epistemic_score(model.decompose(x))[0])
    parts = {
        part: dict(zip(outputs, map(float, np.ravel(getattr(deviations, part))), strict=True))
        for part in ("total", "epistemic", "aleatoric")
    }
    reason = f"a measurement here is expected to teach {nats:.2f} nats about the model"
    return {"information_nats": nats, "standard_deviation": parts}, reason
