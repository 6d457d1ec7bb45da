"""Tuning is kept where replays of runs that it has not seen improve, and nowhere else."""

import numpy as np
import pytest

from twofold.estimators.training import Checkpoint
from twofold.plant.replay import choose_passages
from twofold.plant.tuned import (
    NOTHING,
    choose_tuning,
    draw_weights,
    is_better,
    replay_errors,
    split_draws,
    tune_all,
)
from twofold.plant.tuning import TuningSettings

from .linear_tank import TRUE, log_of, model_of

SETTINGS = TuningSettings(
    draws=3, trial_draws=2, horizons=(4, 200), cost_weights=(1.0, 5.0), epochs=6, updates=40,
    learning_rate=0.01,
)  # fmt: skip
STEPS = 10


def choose(model, folder):
    def checkpoint(horizon):
        return Checkpoint(folder / f"tuning.{horizon}", 60.0, {})

    return choose_tuning(model, STEPS, SETTINGS, 0, checkpoint, False)


def error_of(model):
    passages, costs = choose_passages(model, log_of(40, STEPS, 5), STEPS, 40, np.random)
    draws = draw_weights(model, 3, 0)
    return np.sqrt(np.square(replay_errors(model, draws, passages, costs, 0)).mean())


@pytest.mark.parametrize(
    ("after", "expected"),
    [(np.full(16, 0.5), True), (np.ones(16), False), (np.r_[np.zeros(2), np.ones(14)], False)],
)
def test_errors_must_fall_by_more_than_chance(after, expected):
    """In one of eight groups only, the mean of what they fell by is its standard error."""
    assert is_better(after, np.ones(16)) == expected
    assert not is_better(np.ones(16), after)


def test_a_model_whose_rollouts_are_off_is_tuned_and_gets_better(tmp_path):
    """The level settles at 1.7 times what it should."""
    log = log_of(16, 25)
    model, right = model_of(log, [-0.12, 0.5, 0.1]), model_of(log, TRUE)
    tuning = choose(model, tmp_path)
    assert tuning.kept and tuning.horizon == 4 and tuning.steps == STEPS
    assert tuning.error_after < 0.5 * tuning.error_before
    assert f"off by {tuning.error_before:.3g} before" in str(tuning) and "tuned on" in str(tuning)
    tuned = tune_all(model, tuning, SETTINGS, 0, Checkpoint(tmp_path / "all", 60.0, {}), False)
    assert error_of(tuned) < 1.2 * error_of(right) < error_of(model)
    one, other = split_draws(tuned)  # of a single draw two were tuned
    weights = [own.regressor.posterior_.weights for own in (one, other)]
    assert not np.array_equal(*weights)
    np.testing.assert_array_equal(np.concatenate(weights), tuned.regressor.posterior_.weights)


def test_a_model_that_is_right_is_left_alone(tmp_path):
    tuning = choose(model_of(log_of(16, 25), TRUE), tmp_path)
    assert not tuning.kept and "dropped" in str(tuning)


def test_without_stretches_nothing_is_tuned(tmp_path):
    assert choose(model_of(log_of(4, 3), TRUE), tmp_path) == NOTHING
    assert "too short" in str(NOTHING)
