"""The search from a fitted model: pairs and seeds, resumption, several goes, refusals."""

import copy
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold import Alpha, BNNLVRegressor
from twofold.core import memory
from twofold.core.numerics import Standardizer
from twofold.core.persistence import OtherRunError
from twofold.estimators.training import NonFiniteEnergyError
from twofold.plant import descent
from twofold.plant import search as module
from twofold.plant.cost import Cost
from twofold.plant.embedding import embed
from twofold.plant.forecast import forecast
from twofold.plant.log import Episode, Log
from twofold.plant.rollout import DynamicsModel
from twofold.plant.search import SearchSettings, best_of, search_policies

SETTINGS = SearchSettings(
    horizon=3, weight_draws=3, noise_draws=2, starts=2, epochs=4, updates=3, rounds=1, hidden=(4,)
)
QUIET = {"settings": SETTINGS, "verbose": False}


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
    regressor = BNNLVRegressor((4,), inference=Alpha(epochs=3, draws=5), random_state=0)
    with pytest.warns(Warning):  # a short fit says that it is short
        regressor.fit(*embedding.design(tank_log))
    return DynamicsModel(regressor, embedding, lambda row: row["level"] ** 2, tank_log)


def weights_of(policies):
    return np.stack([policy.weights for policy in policies])


def test_a_policy_for_each_pair_and_seed(model):
    found = search_policies(model, [(0, 0), (2, 1)], settings=SETTINGS, seeds=[0, 5], verbose=False)
    described = [(p.epistemic_weight, p.aleatoric_weight, p.seed) for p in found]
    assert described == [(0, 0, 0), (0, 0, 5), (2, 1, 0), (2, 1, 5)]
    alone = search_policies(model, [(2, 1)], settings=SETTINGS, seeds=[5], verbose=False)
    np.testing.assert_allclose(alone[0].weights, found[3].weights, rtol=1e-4, atol=1e-6)
    other = search_policies(model, [(2, 1)], seeds=[5], random_state=1, **QUIET)
    assert not np.allclose(other[0].weights, found[3].weights)


def test_what_no_memory_holds_is_refused_beforehand(model, monkeypatch):
    (policy,) = search_policies(model, [(0, 0)], settings=SETTINGS, verbose=False)
    monkeypatch.setattr(memory, "available", lambda: 2**20)
    long = replace(SETTINGS, horizon=20_000)
    with pytest.raises(memory.TooLargeError, match=r"roll-outs of 20,000 steps.*shorter horizon"):
        search_policies(model, [(0, 0)], settings=long, verbose=False)
    with pytest.raises(memory.TooLargeError, match=r"roll-outs of 20,000 steps.*shorter horizon"):
        forecast(model, policy, model.starts, 20_000)


def test_of_several_beginnings_the_one_that_ended_lowest_is_best(model):
    found = search_policies(model, [(0, 0), (2, 1)], seeds=[0, 5, 7], **QUIET)
    best = best_of(found)
    assert [(p.epistemic_weight, p.aleatoric_weight) for p in best] == [(0, 0), (2, 1)]
    for pair, own in zip((found[:3], found[3:]), best, strict=True):
        assert own.notes["criterion"] == min(policy.notes["criterion"] for policy in pair)
        assert len({policy.notes["criterion"] for policy in pair}) == 3


def test_in_several_goes_the_same_policies_are_found(model, monkeypatch, tmp_path):
    pairs = [(0, 0), (1, 0), (4, 0)]
    whole = search_policies(model, pairs, settings=SETTINGS, verbose=False)
    monkeypatch.setattr(module, "policies_at_once", lambda config: 2)
    parted = search_policies(model, pairs, settings=SETTINGS, verbose=False, folder=tmp_path / "a")
    np.testing.assert_allclose(weights_of(whole), weights_of(parted), rtol=1e-4, atol=1e-6)
    assert {path.name for path in (tmp_path / "a").glob("*.checkpoint*")} == {
        "search.checkpoint.0", "search.checkpoint.2",
    }  # fmt: skip


def test_a_finished_search_is_read_and_a_foreign_one_refused(model, tmp_path, monkeypatch):
    folder = tmp_path / "search"
    options = {"settings": SETTINGS, "seeds": [0, 5], "verbose": False}
    first = search_policies(model, [(1, 0)], folder, **options)
    assert {path.stem for path in folder.glob("*.policy")} == {
        "beta-1_gamma-0_seed-0", "beta-1_gamma-0_seed-5",
    }  # fmt: skip
    (folder / "beta-1_gamma-0_seed-5.policy").unlink()
    resumed = search_policies(model, [(1, 0)], folder, **options)  # from its checkpoint
    monkeypatch.setattr(module, "train", None)
    again = search_policies(model, [(1, 0)], folder, **options)
    for found in (resumed, again):
        np.testing.assert_array_equal(weights_of(first), weights_of(found))
    for changes, message in (
        ({"risk_weights": [(2, 0)]}, "belongs to another run: members was"),
        ({"random_state": 1}, "belongs to another run: random_state was 0, now 1"),
    ):
        with pytest.raises(OtherRunError, match=message):
            search_policies(model, folder=folder, **{"risk_weights": [(1, 0)]} | options | changes)


def test_a_forecast_has_a_value_for_each_start_and_step(model):
    policy = search_policies(model, [(1, 0)], settings=SETTINGS, verbose=False)[0]
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
        search_policies(model, weights, settings=SETTINGS)


def test_settings_and_models_that_cannot_be_are_refused(model, tank_log):
    with pytest.raises(ValueError, match="epochs must be an integer of at least 1, got 0"):
        SearchSettings(epochs=0)
    with pytest.raises(ValueError, match="learning_rate must be a positive number"):
        SearchSettings(learning_rate=0.0)
    wider = embed(tank_log, history=3)
    with pytest.raises(ValueError, match="the regressor was fitted to 2 and 1"):
        DynamicsModel(model.regressor, wider, model.cost, tank_log)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda row: jnp.sqrt(jnp.maximum(row["level"] - 9, 0)), r"py:\d+: the gradient of cost"),
        (lambda row: jnp.log(row["level"] - 9), r"py:\d+: cost\(row\) is not finite where level ="),
    ],
)
def test_a_cost_that_loses_every_update_is_named(model, tank_log, function, message):
    cost = Cost(function, tank_log.observations, tank_log.actions)
    lost = DynamicsModel(model.regressor, model.embedding, cost, tank_log)
    with pytest.raises(NonFiniteEnergyError, match=message) as caught:
        search_policies(lost, [(0, 0)], **QUIET)
    assert "target_acceptance" not in str(caught.value)


def test_a_value_of_the_log_that_loses_every_update_is_named(model, tank_log):
    first = tank_log.episodes[0]
    seen = first.observations.copy()
    seen[3] = 1e30
    log = replace(tank_log, episodes=(replace(first, observations=seen), *tank_log.episodes[1:]))
    regressor = copy.deepcopy(model.regressor)
    regressor.y_standardizer_ = Standardizer(np.zeros(1), np.full(1, 1e29))
    lost = DynamicsModel(regressor, embed(log), lambda row: row["level"] ** 2, log)
    with pytest.raises(NonFiniteEnergyError, match=r"column 'level' of the log is 1e\+30"):
        search_policies(lost, [(0, 0)], **QUIET)


def test_predictions_that_are_not_finite_are_named(model):
    unbounded = replace(model.embedding, ranges=())
    regressor = copy.deepcopy(model.regressor)
    regressor.y_standardizer_ = Standardizer(np.zeros(1), np.full(1, 1e38))
    lost = DynamicsModel(regressor, unbounded, lambda row: row["level"], model.log)
    with pytest.raises(NonFiniteEnergyError, match="predictions of 'level' are not finite from"):
        search_policies(lost, [(0, 0)], **QUIET)


def test_every_pair_takes_over_a_policy_that_is_clearly_better_by_its_criterion(model):
    config = module.Config(model.task((4,)), 3, 3, 2, 2)
    plant = module._plant(model, SETTINGS, 0, distance=False)
    weights = weights_of(search_policies(model, [(0, 0), (2, 0), (5, 0)], seeds=[0, 1], **QUIET))
    weights[0], weights[4] = 30.0 * weights[0], np.nan  # far from good, and useless
    members = [((beta, 0.0), seed) for beta in (0.0, 2.0, 5.0) for seed in (0, 1)]
    problem = module.RiskWeights(*jnp.asarray([pair for pair, _ in members], jnp.float32).T)
    found, values = module.take_best(config, plant, members, problem, weights)
    numbers = module.COMPARED_FROM + jnp.arange(module.COMPARED)
    everything = np.asarray(module.compare(config, problem, plant, jnp.asarray(weights), numbers))
    for row, (_, seed) in enumerate(members):
        allowed = {other: everything[row, other] for other in range(seed, 6, 2)}
        chosen = [other for other in allowed if np.array_equal(weights[other], found[row])]
        assert chosen and values[row] == everything[row, chosen[0]]
        finite = [value for value in allowed.values() if np.isfinite(value)]
        assert values[row] <= min(finite) + module.CLEARLY * model.cost_scale
        if np.isfinite(allowed[row]) and chosen != [row]:
            assert values[row] < allowed[row] - module.CLEARLY * model.cost_scale
    assert not np.array_equal(found[0], weights[0])


def test_j_of_all_policies_by_all_weights_is_that_of_an_update(model):
    """On the draws of an update the comparison is the objective that the update descends."""
    config = module.Config(model.task((4,)), 3, 3, 2, 2)
    plant = module._plant(model, SETTINGS, 0, distance=False)
    policies = search_policies(model, [(0, 0), (3, 1)], **QUIET)
    weights = jnp.asarray(weights_of(policies))
    problem = module.RiskWeights(jnp.array([0.0, 3.0]), jnp.array([0.0, 1.0]))
    found = module.compare(config, problem, plant, weights, jnp.array([4]))
    state = descent.State(weights, jax.vmap(descent.optimiser(config).init)(weights))
    _, info = descent.update(config, state, problem, plant, jnp.int32(4))
    np.testing.assert_allclose(np.diag(found), info.energy, rtol=1e-5)
    both = module.compare(config, problem, plant, weights, jnp.array([4, 9]))
    alone = module.compare(config, problem, plant, weights, jnp.array([9]))
    np.testing.assert_allclose(both, (found + alone) / 2, rtol=1e-5)


def test_rounds_are_resumed_and_none_begins_where_another_does(model, tmp_path, monkeypatch):
    settings = replace(SETTINGS, rounds=2)
    options = {"settings": settings, "verbose": False}
    whole = search_policies(model, [(0, 0), (1, 0), (4, 0)], **options)
    lengths, train = [], module.train

    def stop_in_the_second(algorithm, keys, problems, schedule, plan):
        lengths.append(plan.epochs)
        assert len({key.tobytes() for key in np.asarray(jax.random.key_data(keys))}) == 3
        if len(lengths) == 2:
            raise KeyboardInterrupt
        return train(algorithm, keys, problems, schedule, plan)

    monkeypatch.setattr(module, "train", stop_in_the_second)
    with pytest.raises(KeyboardInterrupt):
        search_policies(model, [(0, 0), (1, 0), (4, 0)], tmp_path / "a", **options)
    monkeypatch.setattr(module, "train", train)
    resumed = search_policies(model, [(0, 0), (1, 0), (4, 0)], tmp_path / "a", **options)
    np.testing.assert_array_equal(weights_of(whole), weights_of(resumed))
    assert lengths == [2, 2]
    assert {path.name for path in (tmp_path / "a").glob("*.checkpoint*")} == {
        "search.checkpoint", "search.checkpoint.1",
    }  # fmt: skip
