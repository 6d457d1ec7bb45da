"""Rules of selection on numbers chosen by hand, and what they go by where answers are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paper import fitted_q
from paper.control_problems import river
from paper.dynamics import judge_replay
from paper.fitted_q import Steps, fit_q
from paper.selection import choices, costs_of_choices, regrets
from paper.selection_tasks import TASKS, WIND
from paper.simulator_search import search_by_slope
from paper.truth import Starts, logged_costs, true_costs
from twofold.core.numerics import Standardizer
from twofold.envs.system import Policy
from twofold.plant.log import Window
from twofold.plant.policy import LearnedPolicy, PolicyNetwork
from twofold.plant.policy import init as random_weights
from twofold.plant.search import SearchSettings

FOUND = {
    "betas": [0.0, 2.0, 8.0, 30.0],
    "true": [6.0, 5.0, 7.0, 9.0],
    "logged": 8.0,
    "in_log": 8.1,
    "predicted": [3.0, 4.0, 6.0, 8.0],
    "by_q": [9.0, 8.5, 8.2, 8.4],
    "recommended": 2,
}


def test_regrets_are_shares_of_the_logged_cost():
    assert choices(FOUND) == {"regret": 2, "lowest_predicted_regret": 0, "fqe_regret": None}
    assert costs_of_choices(FOUND) == {
        "regret": 7.0,
        "lowest_predicted_regret": 6.0,
        "fqe_regret": 8.0,
    }
    expected = {"regret": 0.25, "lowest_predicted_regret": 0.125, "fqe_regret": 0.375}
    assert regrets(FOUND) == expected
    wind = {**FOUND, "true": [-0.5] * 4, "logged": -0.8, "recommended": None}
    assert regrets(wind)["regret"] == 0.0
    assert regrets(wind)["lowest_predicted_regret"] == pytest.approx(0.375)
    lost = {**FOUND, "predicted": [None, 4.0, 6.0, 8.0]}
    assert choices(lost)["lowest_predicted_regret"] == 1


def test_fitted_q_knows_what_constant_actions_cost(rng, monkeypatch):
    """Costs a² + s with states that follow from nothing: an action costs its square more."""
    monkeypatch.setattr(fitted_q, "UPDATES", 2000)
    states, following = rng.uniform(-1, 1, (2, 1500, 1))
    actions = rng.uniform(-1, 1, (1500, 1))
    costs = (actions**2 + states)[:, 0]
    always = np.broadcast_to(np.array([0.0, 0.5, 0.9])[:, None, None], (3, 1500, 1))
    parts = states, actions, costs, following, always, always
    steps = Steps(*(jnp.asarray(part, jnp.float32) for part in parts))
    values = fit_q(jax.random.key(0), steps, 0.9)
    np.testing.assert_allclose(values, [0.0, 0.25, 0.81], atol=0.15)


def test_logged_controller_goes_on_with_a_fresh_memory():
    """Its n-th action is n, which is added to the state; the cost is the state."""
    counting = Policy(lambda key: jnp.zeros(()), lambda key, memory, seen: (memory + 1, memory + 1))
    system = river().system._replace(
        step=lambda key, state, action: state + action,
        observe=lambda state: state[None],
        cost=lambda state: state,
    )
    starts = Starts(jnp.array([0.0, 10.0]), Window(jnp.zeros((2, 1, 1)), jnp.zeros((2, 0, 1))))
    costs = logged_costs(jax.random.key(0), system, counting, starts, 4, 3)
    assert costs.shape == (2, 3, 4)
    np.testing.assert_allclose(costs[0, 0], [1.0, 3.0, 6.0, 10.0])
    np.testing.assert_allclose(costs[1, 2], [11.0, 13.0, 16.0, 20.0])


def test_replay_of_the_truth_is_unbiased_and_covers(rng):
    means = rng.normal(size=(400, 1)) + np.zeros(10)
    costs = means + 0.5 * rng.normal(size=means.shape)
    samples = means + 0.5 * rng.normal(size=(199, *means.shape))
    found = judge_replay(samples, costs, 2.0)
    expected = -0.5 * np.log(2 * np.pi * (0.5 / 2.0) ** 2) - 0.5
    assert set(found) == {
        "1/log_likelihood", "1/coverage_90", "10/log_likelihood", "10/coverage_90", "bias", "lost"
    }  # fmt: skip
    # Of 400 values: ± 3 deviations of 0.015 and of 0.035.
    assert found["10/coverage_90"] == pytest.approx(0.9, abs=0.045)
    assert found["10/log_likelihood"] == pytest.approx(expected, abs=0.11)
    assert abs(found["bias"]) < 0.03
    shifted = judge_replay(samples + 0.3, costs, 2.0)
    apart = 0.3 / costs.mean(axis=1).std(ddof=1)
    assert shifted["bias"] - found["bias"] == pytest.approx(apart)


def test_slopes_of_the_simulator_improve_a_policy():
    problem = river()
    embedding = problem.embed(problem.batch(0, 200))
    shape = PolicyNetwork(2, (8,), (-1.0, -1.0), (1.0, 1.0))
    units = Standardizer(np.full(2, 2.5), np.full(2, 1.5))
    settings = SearchSettings(10, 2, 2, 4, epochs=2, updates=30, learning_rate=1e-2)
    key = jax.random.key(0)
    found = search_by_slope(key, problem, embedding, shape, units, settings)
    first = np.asarray(random_weights(jax.random.split(key)[0], shape))
    before = LearnedPolicy(embedding, shape, units, first)
    starts = problem.starts(jax.random.key(1), 200)
    costs = [
        true_costs(jax.random.key(2), problem.system, one, starts, 10, 5).mean(axis=(1, 2))
        for one in (before, found)
    ]
    gain = costs[0] - costs[1]
    assert gain.mean() > 3.0 * gain.std() / np.sqrt(len(gain))


def test_the_tasks_are_those_of_the_record():
    assert list(TASKS) == [
        "pendulum", "reactor", "four_tank", "wet_chicken", "wind", "industrial_behaviour",
        "industrial_random",
    ]  # fmt: skip
    problem = TASKS["wind"].problem()
    embedding = problem.embed(problem.batch(0, 200))
    assert embedding.exogenous == (WIND,)
    assert f"{WIND}[t+1]" in embedding.input_names
