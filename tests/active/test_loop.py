"""The pool loop does what a plain loop does, and goes on exactly where it stopped."""

import numpy as np
import pytest

from twofold.active import Data, Setting, pool_loop

ROUNDS = 4


@pytest.fixture
def setting():
    """Two learners: the model is the mean of y, the choice the point nearest to it or farthest."""

    def choose(learner, number, model, pool):
        distance = np.abs(pool[:, 0] - model)
        return np.argsort(distance if learner == 0 else -distance)[:2]

    return Setting(
        lambda number, data: [own.y.mean() + number for own in data],
        lambda learner, number: np.random.default_rng([learner, number]).normal(size=(7, 1)),
        choose,
        lambda learner, number, x: 2.0 * x[:, 0] + learner,
    )


@pytest.fixture
def start():
    return [Data(np.zeros((3, 1)), np.arange(3.0)), Data(np.ones((5, 1)), np.arange(5.0))]


def plain_loop(setting, learner, data):
    x, y = list(data.x), list(data.y)
    for number in range(ROUNDS):
        model = np.mean(y) + number
        pool = setting.pool(learner, number)
        order = sorted(range(len(pool)), key=lambda i: abs(pool[i, 0] - model))
        for i in order[:2] if learner == 0 else order[::-1][:2]:
            x.append(pool[i])
            y.append(2.0 * pool[i, 0] + learner)
    return np.array(x), np.array(y), np.mean(y) + ROUNDS


def test_every_learner_needs_a_model(setting, start):
    short = setting._replace(fit=lambda number, data: [0.0])
    with pytest.raises(ValueError, match="fit must return 2 models"):
        next(pool_loop(short, start, ROUNDS))


def test_the_loop_is_a_plain_loop_for_each_learner(setting, start):
    rounds = list(pool_loop(setting, start, ROUNDS))
    assert [one.number for one in rounds] == list(range(ROUNDS + 1))
    for learner, own in enumerate(start):
        x, y, model = plain_loop(setting, learner, own)
        np.testing.assert_allclose(rounds[-1].data[learner].x, x)
        np.testing.assert_allclose(rounds[-1].data[learner].y, y)
        assert rounds[-1].models[learner] == pytest.approx(model)
    assert [len(own.x) for own in start] == [3, 5]


def test_it_goes_on_where_it_stopped(setting, start):
    whole = list(pool_loop(setting, start, ROUNDS))
    rest = list(pool_loop(setting, whole[1].data, ROUNDS, first=2))
    assert [one.number for one in rest] == [2, 3, 4]
    for one, other in zip(whole[-1].data, rest[-1].data, strict=True):
        np.testing.assert_array_equal(one.y, other.y)
    assert whole[-1].models == rest[-1].models
    assert list(pool_loop(setting, whole[-1].data, ROUNDS, first=ROUNDS + 1)) == []


def test_mistakes_are_said(setting, start):
    with pytest.raises(ValueError, match="first must lie between 0 and 5"):
        list(pool_loop(setting, start, ROUNDS, first=9))
    forgetful = setting._replace(measure=lambda learner, number, x: x[:1, 0])
    with pytest.raises(ValueError, match="2 points measured, but 1 outputs"):
        list(pool_loop(forgetful, start, ROUNDS))
