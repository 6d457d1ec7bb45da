"""Replays of logged actions, of a linear tank, against a loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.model.spec import Draws
from twofold.plant.log import LogError
from twofold.plant.replay import choose_passages, replay_costs
from twofold.plant.rollout import draw_noise

from .linear_tank import log_of, model_of


def test_replay_is_a_loop_over_logged_actions():
    """With two levels and two flows in the input: the change is
    ``w · (level[t-1], level[t], flow[t-1], flow[t]) + b + ε``, and levels are bent where they are
    more than the width of the logged range beyond it."""
    steps, draw_count, count = 5, 3, 2
    log = log_of(2, 9)
    model = model_of(log, np.zeros(5), history=2)
    passages, _ = choose_passages(model, log, steps, 4, np.random.default_rng(0))
    windows, actions, *_ = passages
    weights = 0.3 * np.random.default_rng(1).normal(size=(draw_count, 5))
    draws = Draws(jnp.asarray(weights, jnp.float32), jnp.full((draw_count, 1), -2.0))
    key = jax.random.key(2)
    costs = replay_costs(model, count, key, draws, passages)
    noise = draw_noise(key, model.regressor.model_, steps, draw_count, 4 * count)
    luck = np.asarray(noise.additive)
    levels, bent = log.column("level"), 0
    width, low, high = (
        np.ptp(levels),
        2 * levels.min() - levels.max(),
        2 * levels.max() - levels.min(),
    )
    for draw, particle in np.ndindex(draw_count, 4 * count):
        own, noise_draw = divmod(particle, count)
        before, now = windows.observations[own, :, 0]
        past = windows.actions[own, 0, 0]
        for step in range(steps):
            flow = actions[own, step, 0]
            change = weights[draw] @ [before, now, past, flow, 1.0]
            change += np.exp(-1.0) * luck[step, draw, particle, 0]
            before, now, past = now, now + change, flow
            end = np.clip(now, low, high)
            bent += now != end
            now = end + width * np.tanh((now - end) / width)
            found = costs[draw, noise_draw, own, step]
            assert found == pytest.approx(now + 0.1 * flow, rel=1e-4, abs=1e-5)
    assert 0 < bent < costs.size / 4


def test_a_log_shorter_than_the_history_has_no_passages():
    model = model_of(log_of(2, 9), np.zeros(5), history=2)
    with pytest.raises(LogError, match="a history of 2 needs episodes of at least 3 rows"):
        choose_passages(model, log_of(2, 1), 5, 100, np.random.default_rng(0))


def test_passages_are_pieces_of_the_log():
    log = log_of(2, 9)
    model = model_of(log, np.zeros(5), history=2)
    (windows, actions, after, _), costs = choose_passages(
        model, log, 5, 100, np.random.default_rng(0)
    )
    found = actions, after, costs
    assert len(actions) == 2 * (9 - 5 - 2 + 2)
    pieces = {
        tuple(episode.observations[first : first + 2, 0]): (episode, first + 1)
        for episode in log.episodes
        for first in range(4)
    }
    for seen, past, actions, after, costs in zip(*windows, *found, strict=True):
        episode, now = pieces[tuple(seen[:, 0])]
        np.testing.assert_array_equal(past, episode.actions[now - 1 : now])
        np.testing.assert_array_equal(actions, episode.actions[now : now + 5])
        levels, flows = episode.observations[now + 1 : now + 6, 0], actions[:, 0]
        np.testing.assert_array_equal(after[:, 0], levels)
        np.testing.assert_allclose(costs, levels + 0.1 * flows, rtol=1e-5, atol=1e-6)
