"""Tuning on roll-outs, of a linear tank: its error, its resume, and what is kept of it."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.estimators.training import Checkpoint
from twofold.model.spec import Draws
from twofold.plant.replay import replay_task
from twofold.plant.rollout import draw_noise
from twofold.plant.tuning import (
    Config,
    Problem,
    TuningSettings,
    draw_starts,
    gather,
    rollout_error,
    tune_draws,
)

from .linear_tank import NOISE, TRUE, log_of, model_of

SHORT = TuningSettings(stretches=4, epochs=4, updates=5)
WRONG = [-0.3, 0.5, 0.2]


def draws_of(*weights):
    log_noise = np.full((len(weights), 1), 2 * np.log(NOISE))
    return Draws(jnp.asarray(weights, jnp.float32), jnp.asarray(log_noise, jnp.float32))


def problem_of(model, log, config, blocks, cost_weight=3.0):
    draw = jax.tree.map(lambda part: part[0], draws_of(WRONG))
    return Problem(draw, jnp.float32(cost_weight), jnp.asarray(blocks, jnp.int32))


@pytest.mark.parametrize("counted", [5.0, 2.25])
def test_the_error_is_a_loop_over_stretches(counted):
    """Products of the errors of two roll-outs, of each stretch, with the noise of each; of the
    last step that counts a part."""
    log, horizon = log_of(3, 12), 5
    model = model_of(log, TRUE)
    config = Config(replay_task(model), horizon, 4, 1)
    logged = gather(model, log, horizon, SHORT)
    problem, key = problem_of(model, log, config, [1, 0, 0]), jax.random.key(3)
    found = float(rollout_error(config, problem, logged, problem.draw.weights, key, counted))
    place_key, noise_key = jax.random.split(key)
    rows = np.asarray(draw_starts(config, problem, logged, place_key))
    luck = np.asarray(draw_noise(noise_key, model.regressor.model_, horizon, 1, 8).additive)
    levels = np.concatenate([one.observations[:, 0] for one in log.episodes])
    flows = np.concatenate([np.append(one.actions[:, 0], np.nan) for one in log.episodes])
    of_levels, of_costs = [], []
    for stretch, row in enumerate(rows):
        errors, off = np.zeros((2, horizon)), np.zeros((2, horizon))
        for pair in range(2):
            level = levels[row]
            for step in range(horizon):
                flow = flows[row + step]
                level += np.dot(WRONG, [level, flow, 1.0])
                level += NOISE * luck[step, 0, 2 * stretch + pair, 0]
                error = level - levels[row + step + 1]
                errors[pair, step], off[pair, step] = error / levels.std(), error / model.cost_scale
        share = np.clip(counted - np.arange(horizon), 0, 1) / counted
        of_levels.append((errors.prod(axis=0) * share).sum())
        of_costs.append((off * share).sum(axis=1).prod())
    assert found == pytest.approx(np.mean(of_levels) + 3.0 * np.mean(of_costs), rel=1e-4)


def test_the_error_is_that_of_the_mean_over_noise():
    """For a model that is right, and whatever its noise, the square of the plant's own."""
    log, horizon = log_of(40, 30), 4
    model = model_of(log, TRUE)
    config = Config(replay_task(model), horizon, 20_000, 1)
    logged = gather(model, log, horizon, SHORT)
    problem = problem_of(model, log, config, np.arange(len(logged.starts) // horizon), 1e-6)
    own = jax.jit(lambda draw, key: rollout_error(
        config, problem._replace(draw=draw), logged, jnp.asarray(TRUE, jnp.float32), key, horizon
    ))  # fmt: skip
    key, levels = jax.random.key(0), log.column("level")
    # NOISE² Σ 0.8^2k of the level after k steps, averaged over them.
    expected = NOISE**2 * np.cumsum(0.64 ** np.arange(horizon)).mean() / levels.var()
    for log_noise in (-20.0, 2 * np.log(NOISE)):
        draw = problem.draw._replace(log_noise=jnp.full(1, log_noise))
        assert float(own(draw, key)) == pytest.approx(expected, rel=0.05)


def test_stretches_are_whole_and_those_of_the_draws_own_blocks():
    log, horizon = log_of(3, 12), 5
    model = model_of(log, np.zeros(5), history=2)
    config = Config(replay_task(model), horizon, 1_000, 1)
    logged = gather(model, log, horizon, SHORT)
    firsts = [first + 13 * number for number in range(3) for first in range(13 - 2 - horizon + 1)]
    assert logged.starts.tolist() == firsts
    problem = problem_of(model, log, config, [2, 2, 0])
    found = np.asarray(draw_starts(config, problem, logged, jax.random.key(0)))
    length = len(firsts) // 3
    assert set(found) == {*firsts[:length], *firsts[2 * length : 3 * length]}
    later = np.isin(found, firsts[2 * length :]).mean()
    assert later == pytest.approx(2 / 3, abs=4 * np.sqrt(2 / 9 / 1_000))


def test_a_run_that_is_resumed_is_the_same(tmp_path):
    log = log_of(4, 20)
    model, draws = model_of(log, TRUE), draws_of(WRONG, TRUE)
    whole = tune_draws(model, log, draws, 6, [1.0, 2.0], SHORT, verbose=False)

    def resumed(settings):
        checkpoint = Checkpoint(tmp_path / "tuning.checkpoint", 0.0, {})
        return tune_draws(
            model, log, draws, 6, [1.0, 2.0], settings, checkpoint=checkpoint, verbose=False
        )

    class StopError(Exception):
        pass

    saved = Checkpoint.save

    def stop(self, run):
        saved(self, run)
        if run.epoch >= 2:
            raise StopError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoint, "save", stop)
        with pytest.raises(StopError):
            resumed(SHORT)
    np.testing.assert_array_equal(resumed(SHORT).weights, whole.weights)
    assert not np.array_equal(whole.weights[0], draws.weights[0])


def test_draws_come_to_the_plant_and_go_on_to_differ():
    """From wrong weights to those of least squares, each by its own bootstrap: the deviation
    between draws is that of the estimate, about NOISE / √N for the bias of N independent rows."""
    log = log_of(20, 25)
    model, draws = model_of(log, TRUE), draws_of(*[WRONG] * 12)
    settings = replace(SHORT, stretches=16, epochs=10, updates=60, learning_rate=0.01)
    found = np.asarray(tune_draws(model, log, draws, 6, [1.0] * 12, settings, verbose=False)[0])
    np.testing.assert_allclose(found.mean(axis=0), TRUE, atol=0.04)
    spread = found.std(axis=0, ddof=1)
    assert (spread > 0.2 * NOISE / np.sqrt(500)).all() and (spread < 0.1).all()
