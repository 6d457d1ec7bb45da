"""Imitation of logged controllers, and replays that react as they did."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.core.numerics import Standardizer
from twofold.plant.imitation import HIDDEN, imitate, imitate_actions
from twofold.plant.log import Episode, Log, find_successors, steps
from twofold.plant.policy import PolicyNetwork
from twofold.plant.quality import assess
from twofold.plant.replay import choose_passages, replay, replay_task
from twofold.plant.rollout import DynamicsModel

from .linear_tank import NOISE, model_of

DRIFTING = [-0.01, 0.5, 0.0]  # of level and flow, and a bias, in the change of the level


def feedback_log(episodes=40, steps=50, seed=0, high=1.0, switch=False):
    """A level that drifts away unless the flow, between -1 and ``high``, brings it back."""
    rng, parts = np.random.default_rng(seed), []
    for number in range(episodes):
        levels, flows = [rng.normal()], []
        for _ in range(steps):
            flow = np.clip(-0.8 * levels[-1] + 0.2 * rng.normal(), -1.0, high)
            flows.append(np.where(flow > 0.5 * (high - 1.0), high, -1.0) if switch else flow)
            change = np.dot(DRIFTING, [levels[-1], flows[-1], 1.0])
            levels.append(levels[-1] + change + NOISE * rng.normal())
        parts.append(Episode(np.array(levels)[:, None], np.array(flows)[:, None], name=str(number)))
    return Log(("level",), ("flow",), [-1.0], [high], tuple(parts))


def true_model(log):
    model = model_of(log, DRIFTING)
    cost = lambda row: jnp.square(row["level"])  # noqa: E731
    return DynamicsModel(model.regressor, model.embedding, cost, log)


def test_what_depends_on_the_state_is_imitated_and_nothing_else():
    rng = np.random.default_rng(0)
    features = rng.normal(2.0, 3.0, (2_000, 2))
    reaction = np.tanh(0.4 * (features[:, 0] - 2.0))
    actions = np.stack([1.0 + reaction, rng.uniform(-3.0, 0.0, 2_000)], axis=1)
    shape = PolicyNetwork(2, HIDDEN, (0.0, -3.0), (2.0, 0.0))
    follows = np.arange(2_000) % 100 > 0
    weights = jnp.asarray(imitate(shape, features, actions, follows))
    seen = jnp.asarray(Standardizer.fit(features).transform(features), jnp.float32)
    first, second = np.asarray(imitate_actions(shape, weights, seen)).T
    assert np.square(first - reaction).mean() < 0.01 * reaction.var()
    assert not second.any()
    assert not imitate(shape, features, rng.permutation(actions), follows).any()
    assert not imitate(shape, features[:99], actions[:99], follows[:99]).any()


@pytest.mark.parametrize("history", [1, 2])
def test_exploration_that_persists_is_replayed_as_logged(history):
    """The level and the previous flow predict most of its variance, as they would of a reaction."""
    rng, parts = np.random.default_rng(0), []
    for number in range(40):
        levels, flows = [rng.normal()], [0.0]
        for _ in range(50):
            flows.append(np.clip(0.9 * flows[-1] + 0.1 * rng.normal(), -1.0, 1.0))
            change = np.dot([-0.5, 0.5, 0.0], [levels[-1], flows[-1], 1.0])
            levels.append(levels[-1] + change + 0.01 * rng.normal())
        names = {"name": str(number)}
        parts.append(Episode(np.array(levels)[:, None], np.array(flows[1:])[:, None], **names))
    log = Log(("level",), ("flow",), [-1.0], [1.0], tuple(parts))
    model = model_of(log, [-0.5, *[0.0] * 2 * (history - 1), 0.5, 0.0], history=history)
    assert not model.controller.any()


def test_a_reaction_is_found_beside_exploration_that_persists():
    """A least-squares fit would hardly find it, because exploration moves the level, too."""
    rng, features, actions, follows = np.random.default_rng(0), [], [], []
    for _ in range(40):
        level, explored = 0.0, 0.0
        for step in range(100):
            explored = 0.95 * explored + 0.05 * rng.normal()
            features.append([level])
            actions.append([-0.3 * level + explored])
            follows.append(step > 0)
            level = 0.5 * level + 2.0 * actions[-1][0] + 0.3 * rng.normal()
    features, actions = np.array(features), np.array(actions)
    shape = PolicyNetwork(1, HIDDEN, (-2.0,), (2.0,))
    weights = jnp.asarray(imitate(shape, features, actions, np.array(follows)))
    standard = Standardizer.fit(features)
    ends = jnp.asarray(standard.transform(np.array([[-0.5], [0.5]])), jnp.float32)
    low, high = 2.0 * np.asarray(imitate_actions(shape, weights, ends))[:, 0]
    assert high - low == pytest.approx(-0.3, abs=0.05)
    assert np.polyfit(features[:, 0], actions[:, 0], 1)[0] > -0.1


@pytest.mark.parametrize("history", [1, 3])
def test_steps_follow_those_of_the_same_episode(history):
    log = feedback_log(episodes=3, steps=7)
    after, found = steps(log, history).actions, find_successors(log, history)
    assert len(found) == len(after)
    expected = [row > history - 1 for one in log.episodes for row in range(history - 1, len(one))]
    np.testing.assert_array_equal(found, expected)


def test_replays_of_the_right_model_are_unbiased_where_a_controller_holds_the_plant():
    """Its logged actions answer the logged noise; as they are, they would let the level drift."""
    model, held_out = true_model(feedback_log()), feedback_log(seed=1)
    spread = np.std([np.square(one.observations).mean() for one in held_out.episodes])
    assert abs(assess(model, held_out, 40).multi_step.replay_bias) < 0.3 * spread
    model.controller = None
    assert assess(model, held_out, 40).multi_step.replay_bias > 3.0 * spread


@pytest.mark.parametrize("switch", [False, True])
def test_replayed_actions_stay_within_their_bounds(switch):
    log = feedback_log(high=0.5, switch=switch)
    model = true_model(log)
    passages, _ = choose_passages(model, log, 20, 30, np.random.default_rng(0))
    given = model.scales, model.posterior, jax.tree.map(jnp.float32, passages)
    found = replay(replay_task(model), 2, jax.random.key(0), *given)
    actions = np.asarray(found.actions)
    logged = np.repeat(passages.actions, 2, axis=0).swapaxes(0, 1)[:, None, None]
    assert not np.allclose(actions, logged, atol=0.01)
    assert actions.min() >= -1.0 and actions.max() <= 0.5
    if switch:
        assert set(np.unique(actions.round(5))) == {-1.0, 0.5}
