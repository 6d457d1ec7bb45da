"""The search from a fitted model: pairs and seeds, resumption, several goes, refusals."""

import importlib
from dataclasses import replace

import numpy as np
import pytest

from twofold import BNNLVRegressor
from twofold.estimators import memory
from twofold.plant.dynamics import DynamicsModel
from twofold.plant.embed import embed
from twofold.plant.forecast import forecast
from twofold.plant.log import Episode, Log
from twofold.plant.search import SearchSettings, best_of, search

MODULE = importlib.import_module("twofold.plant.search")  # the package has a function there

SETTINGS = SearchSettings(
    horizon=3, weight_draws=3, noise_draws=2, starts=2, epochs=4, updates=3, hidden=(4,)
)


@pytest.fixture(scope="module")
def tank_log():
    rng = np.random.default_rng(0)
    episodes = [
        Episode(rng.normal(size=(13, 1)), rng.uniform(-1, 1, (12, 1)), name=str(i))
        for i in range(4)
    ]
    return Log(("level",), ("flow",), [-1.0], [3.0], tuple(episodes))


@pytest.fixture(scope="module")
def model(tank_log):
    embedding = embed(tank_log)
    regressor = BNNLVRegressor((4,), inference="alpha", epochs=3, draws=5, random_state=0)
    with pytest.warns(Warning):  # a short fit says that it is short
        regressor.fit(*embedding.design(tank_log))
    return DynamicsModel(regressor, embedding, lambda row: row["level"] ** 2, tank_log)


def weights_of(policies):
    return np.stack([policy.weights for policy in policies])


def test_a_policy_for_each_pair_and_seed(model):
    found = search(model, [(0, 0), (2, 1)], settings=SETTINGS, seeds=[0, 5], verbose=False)
    described = [(p.epistemic_weight, p.aleatoric_weight, p.seed) for p in found]
    assert described == [(0, 0, 0), (0, 0, 5), (2, 1, 0), (2, 1, 5)]
    alone = search(model, [(2, 1)], settings=SETTINGS, seeds=[5], verbose=False)
    np.testing.assert_allclose(alone[0].weights, found[3].weights, rtol=1e-4, atol=1e-6)
    other = search(model, [(2, 1)], settings=SETTINGS, seeds=[5], random_state=1, verbose=False)
    assert not np.allclose(other[0].weights, found[3].weights)


def test_what_no_memory_holds_is_refused_beforehand(model, monkeypatch):
    (policy,) = search(model, [(0, 0)], settings=SETTINGS, verbose=False)
    monkeypatch.setattr(memory, "available", lambda: 2**20)
    long = replace(SETTINGS, horizon=20_000)
    with pytest.raises(memory.TooLargeError, match=r"roll-outs of 20,000 steps.*shorter horizon"):
        search(model, [(0, 0)], settings=long, verbose=False)
    with pytest.raises(memory.TooLargeError, match=r"roll-outs of 20,000 steps.*shorter horizon"):
        forecast(model, policy, model.starts, 20_000)


def test_of_several_beginnings_the_one_that_ended_lowest_is_best(model):
    found = search(model, [(0, 0), (2, 1)], settings=SETTINGS, seeds=[0, 5, 7], verbose=False)
    best = best_of(found)
    assert [(p.epistemic_weight, p.aleatoric_weight) for p in best] == [(0, 0), (2, 1)]
    for pair, own in zip((found[:3], found[3:]), best, strict=True):
        assert own.notes["criterion"] == min(policy.notes["criterion"] for policy in pair)
        assert len({policy.notes["criterion"] for policy in pair}) == 3


def test_in_several_goes_the_same_policies_are_found(model, monkeypatch, tmp_path):
    pairs = [(0, 0), (1, 0), (4, 0)]
    whole = search(model, pairs, settings=SETTINGS, verbose=False)
    monkeypatch.setattr(MODULE, "policies_at_once", lambda config: 2)
    parted = search(model, pairs, settings=SETTINGS, verbose=False, checkpoint=tmp_path / "a.state")
    np.testing.assert_allclose(weights_of(whole), weights_of(parted), rtol=1e-4, atol=1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.state.0", "a.state.2"]


def test_a_finished_checkpoint_is_read_and_a_foreign_one_refused(model, tmp_path):
    path = tmp_path / "search.state"
    first = search(model, [(1, 0)], settings=SETTINGS, checkpoint=path, verbose=False)
    again = search(model, [(1, 0)], settings=SETTINGS, checkpoint=path, verbose=False)
    np.testing.assert_array_equal(weights_of(first), weights_of(again))
    with pytest.raises(ValueError, match="belongs to another run: members was"):
        search(model, [(2, 0)], settings=SETTINGS, checkpoint=path, verbose=False)


def test_a_forecast_has_a_value_for_each_start_and_step(model):
    policy = search(model, [(1, 0)], settings=SETTINGS, verbose=False)[0]
    few = type(model.starts)(*(leaf[:3] for leaf in model.starts))
    found = forecast(model, policy, few, 5, weight_draws=4, noise_draws=3)
    assert found.expected.shape == found.epistemic.shape == found.aleatoric.shape == (3, 5)
    assert found.sampled.shape == (3, 5) and len(np.unique(found.sampled[:, -1])) == 3
    assert found.criterion(0.0, 0.0) == found.cost
    variance = np.maximum(4.0 * found.epistemic + found.aleatoric, 0.0)
    assert found.criterion(2.0, 1.0) == pytest.approx(found.cost + np.sqrt(variance).mean())
    np.testing.assert_allclose(found.aleatoric_risk, np.sqrt(found.aleatoric).mean())


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([], "pairs"),
        ([1.0, 2.0], "pairs"),
        ([(1.0, 2.0, 3.0)], "pairs"),
        ([(-1.0, 0.0)], "at least 0"),
        ([(float("nan"), 0.0)], "finite"),
    ],
)
def test_weights_must_be_pairs_of_numbers_that_are_not_negative(model, weights, message):
    with pytest.raises(ValueError, match=message):
        search(model, weights, settings=SETTINGS)


def test_settings_and_models_that_cannot_be_are_refused(model, tank_log):
    with pytest.raises(ValueError, match="epochs must be at least 1, got 0"):
        SearchSettings(epochs=0)
    with pytest.raises(ValueError, match="learning_rate must be positive"):
        SearchSettings(learning_rate=0.0)
    wider = embed(tank_log, history=3)
    with pytest.raises(ValueError, match="the regressor was fitted to 2 and 1"):
        DynamicsModel(model.regressor, wider, model.cost, tank_log)
