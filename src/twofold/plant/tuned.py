"""Selection of settings for tuning on roll-outs, and whether to tune at all.

Some weight draws are tuned on part of the runs of the model's log, for each horizon T and each cost
weight λ. Passages of the other runs are then replayed, and scored by the error of their mean cost.
If the best pair (T, λ) reduces it significantly, all draws are tuned with that pair on all runs;
otherwise the model is left as fitted.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Float
from twofold.estimators.training import Checkpoint
from twofold.model.spec import Draws, SampledPosterior
from twofold.plant.log import LogError
from twofold.plant.replay import PASSAGES, Passages, choose_passages, replay_costs
from twofold.plant.rollout import DynamicsModel
from twofold.plant.tuning import TuningSettings, gather, tune_draws

HELD_OUT, NOISE_DRAWS = 0.25, 5
# Neighbouring passages share rows, so standard errors come from the means of this many groups.
GROUPS = 8
DRAW_STREAM, REPLAY_STREAM = 1, 2


@dataclass(frozen=True)
class Tuning:
    """Effect of tuning on the error of the mean cost of replayed passages of ``steps`` steps, in
    raw units: bias and root mean square, for the fitted draws and for those tuned with the best
    horizon and cost weight. A horizon of 0 means that no run of the log was long enough to try."""

    steps: int
    horizon: int
    cost_weight: float
    kept: bool
    bias_before: float = 0.0
    error_before: float = 0.0
    bias_after: float = 0.0
    error_after: float = 0.0

    def __str__(self) -> str:
        if not self.horizon:
            return "The model was not tuned on roll-outs: the runs of the log are too short."
        found = (
            f"on runs held out from tuning, the mean cost of {self.steps} replayed steps was off "
            f"by {self.error_before:.3g} before and {self.error_after:.3g} after (on average by "
            f"{self.bias_before:+.3g} and {self.bias_after:+.3g})"
        )
        if self.kept:
            return f"The model was tuned on roll-outs of {self.horizon} steps: {found}."
        return f"Tuning the model on roll-outs did not help and was dropped: {found}."


NOTHING = Tuning(0, 0, 0.0, False)


def tune_all(
    model: DynamicsModel,
    tuning: Tuning,
    settings: TuningSettings,
    random_state: int,
    checkpoint: Checkpoint,
    verbose: bool | str,
) -> DynamicsModel:
    """The model with weight draws tuned on all runs of its log."""
    draws = draw_weights(model, settings.draws, random_state)
    weights = [tuning.cost_weight] * len(draws.weights)
    found = tune_draws(
        model, model.log, draws, tuning.horizon, weights, settings, random_state=random_state,
        checkpoint=checkpoint, verbose=verbose,
    )  # fmt: skip
    return replace_draws(model, found)


def split_draws(model: DynamicsModel) -> tuple[DynamicsModel, DynamicsModel]:
    """Split a tuned model into one with half of the draws, for the search of policies, and one with
    the rest, to evaluate them: policies also exploit chance properties of the draws they saw."""
    posterior = model.regressor.posterior_
    middle = max(1, len(posterior.weights) // 2)
    first, last = ([part[rows] for part in posterior] for rows in np.s_[:middle, -middle:])
    return replace_draws(model, Draws(*first)), replace_draws(model, Draws(*last))


def replace_draws(model: DynamicsModel, draws: Draws) -> DynamicsModel:
    regressor = copy.copy(model.regressor)
    regressor.posterior_ = SampledPosterior(*jax.device_get(draws))
    return model.with_regressor(regressor)


def choose_tuning(
    model: DynamicsModel,
    steps: int,
    settings: TuningSettings,
    random_state: int,
    checkpoint: Callable[[int], Checkpoint],
    verbose: bool | str,
) -> Tuning:
    """The best settings, by replays of ``steps`` steps of held-out runs."""
    try:
        fit, judge = model.log.split(HELD_OUT, seed=random_state)
        rng = np.random.default_rng(random_state)
        passages, costs = choose_passages(model, judge, steps, PASSAGES, rng)
    except LogError:
        return NOTHING
    draws = draw_weights(model, settings.trial_draws, random_state)
    before = replay_errors(model, draws, passages, costs, random_state)
    count, weights = len(draws.weights), settings.cost_weights
    tiled = Draws(*(jnp.tile(part, (len(weights), 1)) for part in draws))
    found = {}
    for horizon in settings.horizons:
        if not len(gather(model, fit, horizon, settings).starts):
            continue
        tuned = tune_draws(
            model, fit, tiled, horizon, np.repeat(weights, count).tolist(), settings,
            random_state=random_state, checkpoint=checkpoint(horizon), verbose=verbose,
        )  # fmt: skip
        for number, weight in enumerate(weights):
            own = Draws(*(part[number * count : (number + 1) * count] for part in tuned))
            found[horizon, weight] = replay_errors(model, own, passages, costs, random_state)
    if not found:
        return NOTHING
    best = min(found, key=lambda pair: float(np.square(found[pair]).mean()))
    kept = is_better(found[best], before)
    return Tuning(costs.shape[1], *best, kept, *_summary(before), *_summary(found[best]))


def _summary(errors: np.ndarray) -> tuple[float, float]:
    return float(errors.mean()), float(np.sqrt(np.square(errors).mean()))


def is_better(after: Float[np.ndarray, "B"], before: Float[np.ndarray, "B"]) -> bool:
    """Whether squared errors have decreased by more than the standard error over their groups."""
    fallen = np.square(before) - np.square(after)
    groups = [part.mean() for part in np.array_split(fallen, min(GROUPS, len(fallen)))]
    error = np.std(groups, ddof=1) / np.sqrt(len(groups)) if len(groups) > 1 else 0.0
    return bool(np.mean(groups) > error)


def replay_errors(
    model: DynamicsModel, draws: Draws, passages: Passages, costs: np.ndarray, random_state: int
) -> Float[np.ndarray, "B"]:
    """Predicted minus observed mean cost of each passage."""
    key = jax.random.fold_in(jax.random.key(REPLAY_STREAM), random_state)
    found = replay_costs(model, NOISE_DRAWS, key, draws, passages)
    return found.mean(axis=(0, 1, 3)) - costs.mean(axis=1)


def draw_weights(model: DynamicsModel, wanted: int, random_state: int) -> Draws:
    """Weight draws to be tuned; of a sampled posterior, at most as many as it has."""
    key = jax.random.fold_in(jax.random.key(DRAW_STREAM), random_state)
    return model.posterior.sample(key, model.draws_of(wanted))
