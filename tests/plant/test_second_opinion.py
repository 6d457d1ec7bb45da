"""A linear regression as a model of a plant, against the regression itself."""

import jax
import numpy as np
import pytest

from twofold.core.numerics import Standardizer
from twofold.estimators.linear import LinearGaussian
from twofold.plant.forecast import evaluate_policy, forecast, measure_saving
from twofold.plant.policy import LearnedPolicy, PolicyNetwork
from twofold.plant.replay import choose_passages, replay_costs
from twofold.plant.rollout import DynamicsModel
from twofold.plant.second_opinion import linear_model

from . import linear_tank
from .linear_tank import NOISE, TRUE, log_of, model_of


@pytest.fixture(scope="module")
def model():
    return model_of(log_of(100, 20), TRUE, y_scale=2.0)


def lazy(model):
    """A policy that hardly reacts."""
    count = model.features.shape[1]
    plain = Standardizer(np.zeros(count), np.ones(count))
    weights = np.full(count + 1, -0.2, np.float32)
    return LearnedPolicy(model.embedding, PolicyNetwork(count, (), *model.bounds), plain, weights)


def test_its_roll_outs_are_those_of_the_regression(model):
    found = linear_model(model)
    x, y = model.embedding.design(model.log)
    regression = LinearGaussian.fit(x, y)
    np.testing.assert_allclose(found.regressor.predict(x), regression.predict(x), atol=1e-4)
    (draw, _) = jax.tree.leaves(found.posterior.sample(jax.random.key(0), 2))
    np.testing.assert_array_equal(draw[0], draw[1])
    noise = 2.0 * np.exp(0.5 * np.asarray(found.regressor.posterior_.log_noise))
    np.testing.assert_allclose(noise, NOISE, rtol=4 / np.sqrt(2 * len(x)))


def test_a_policy_saves_by_it_what_it_saves_by_the_plant(model):
    """The tank is linear, so the perfect model and the regression agree up to its fit."""
    held_out, policy = log_of(50, 20, seed=1), lazy(model)
    trial = evaluate_policy(model, policy, held_out, 8, 0, linear_model(model))
    assert trial.second_saving == pytest.approx(trial.saving, abs=0.1 * model.cost_scale)
    assert np.isnan(evaluate_policy(model, policy, held_out, 8, 0).second_saving)
    # An error that its replay shares with its forecast of the policy does not count.
    regressor, cost = linear_model(model).regressor, lambda row: 5.0 + linear_tank.cost(row)
    shifted = DynamicsModel(regressor, model.embedding, cost, model.log)
    again = evaluate_policy(model, policy, held_out, 8, 0, shifted)
    assert again.second_saving == pytest.approx(trial.second_saving, abs=1e-3)


def test_its_saving_is_against_its_own_replay(model):
    """Not against the logged cost: whatever that is, the saving is the same."""
    passages, _ = choose_passages(model, log_of(50, 20, seed=1), 8, 20, np.random.default_rng(0))
    second = linear_model(model)
    costs = forecast(second, lazy(model), passages.start, 8, noise_draws=10)
    replayed = replay_costs(
        second, 10, jax.random.split(jax.random.key(0))[1], second.posterior, passages
    )
    found = measure_saving(second, passages, None, costs, 0)
    assert found == pytest.approx(replayed.mean() - costs.by_draw.mean(), abs=0.05)
