"""Fits that choose by rows they keep out: with and without z, members or chains."""

import copy
from types import SimpleNamespace
from typing import NamedTuple

import jax
import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.base import clone

import twofold
from twofold import BNNLVRegressor, fit_many
from twofold.core.numerics import pad
from twofold.estimators.fitting import hidden_sizes, noise_floor
from twofold.estimators.latent import latent_evidence, needs_latent
from twofold.estimators.members import Members, Task, score_rows
from twofold.estimators.stages import (
    LAST_STAGE,
    StageResult,
    begin_chains,
    is_kept,
    is_worthwhile,
    run_stage,
    warn_if_unfinished,
)
from twofold.inference.ensemble import SCORE, Ensemble, Network, OutOfBag, assign_roles
from twofold.inference.langevin import LATE_FACTOR, STEPS, Langevin
from twofold.model.spec import BNNLV

QUICK = Ensemble(members=6, folds=3, nodes=6, updates=600)
SHORT = Langevin(chains=6, folds=3, nodes=6, updates=600, steps=16_000, samples=4)
SETTINGS = {"hidden_layer_sizes": (8,), "random_state": 0, "n_latent_draws": 20}


def make_data(rows=120, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (rows, 1))
    return x, 5.0 + 3.0 * x[:, 0] + np.exp(0.5 * x[:, 0]) * rng.normal(size=rows)


def two_branches(rows=150, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (rows, 1))
    return x, rng.choice([-4.0, 4.0], rows) + x[:, 0] + 0.5 * rng.normal(size=rows)


@pytest.fixture(scope="module")
def quick():
    return BNNLVRegressor(**SETTINGS, inference=QUICK).fit(*make_data())


@pytest.fixture(scope="module")
def chained():
    return BNNLVRegressor(**SETTINGS, inference=SHORT).fit(*make_data())


@pytest.mark.parametrize("name", ["quick", "chained"])
def test_noise_that_grows_is_found_and_scored(name, request):
    model = request.getfixturevalue(name)
    x, y = make_data(1_000, seed=1)
    truth = -0.5 * np.log(2 * np.pi * np.e) - 0.5 * x[:, 0].mean()
    scores = model.log_likelihood(x, y)
    assert truth - 0.2 < scores.mean() < truth + 0.1
    assert abs(model.out_of_bag_.score - scores.mean()) < 4 * model.out_of_bag_.standard_error
    split = model.decompose(np.array([[-1.8], [1.8]]))
    assert 0.7 < split.aleatoric[1] - split.aleatoric[0] < 3.0
    assert model.model_.varying_noise and model.model_.latents == 0


def test_z_is_used_where_the_noise_has_two_humps():
    model = BNNLVRegressor(**SETTINGS, inference=QUICK).fit(*two_branches())
    assert model.model_.latents == 1
    draws = model.sample(np.zeros((1, 1)), 400)[:, 0]
    assert 0.2 < (draws > 0).mean() < 0.8
    assert (np.abs(np.abs(draws) - 4.0) < 2.0).mean() > 0.7


def test_chains_add_draws(chained, quick):
    assert len(quick.posterior_.weights) == 6
    assert len(chained.posterior_.weights) == 24


@pytest.mark.parametrize("name", ["quick", "chained"])
def test_a_saved_model_predicts_the_same(name, request, tmp_path):
    model = request.getfixturevalue(name)
    x, y = make_data(20, seed=2)
    model.save(tmp_path / "model")
    loaded = twofold.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))
    np.testing.assert_array_equal(loaded.log_likelihood(x, y), model.log_likelihood(x, y))
    assert loaded.out_of_bag_ == model.out_of_bag_
    assert clone(loaded).get_params(deep=False)["hidden_layer_sizes"] == (8,)


def test_a_finished_run_is_read_from_its_checkpoints(chained, tmp_path):
    path = tmp_path / "run"
    first = BNNLVRegressor(**SETTINGS, inference=SHORT, checkpoint=path).fit(*make_data())
    again = BNNLVRegressor(**SETTINGS, inference=SHORT, checkpoint=path).fit(*make_data())
    np.testing.assert_array_equal(first.posterior_.weights, chained.posterior_.weights)
    np.testing.assert_array_equal(again.posterior_.weights, chained.posterior_.weights)


def test_data_sets_fitted_together_choose_for_themselves(quick):
    models = [BNNLVRegressor(**SETTINGS, inference=QUICK) for _ in range(2)]
    data = [make_data(), two_branches(120)]
    fit_many(models, *zip(*data, strict=True))
    assert [model.model_.latents for model in models] == [0, 1]
    np.testing.assert_allclose(models[0].posterior_.weights, quick.posterior_.weights, atol=0.01)


def test_the_floor_of_the_noise_follows_the_resolution_of_the_target():
    rng = np.random.default_rng(0)
    assert noise_floor(rng.normal(size=(50, 1))) == ()
    assert noise_floor(np.repeat(rng.normal(size=(5, 1)), 2, axis=0)) == ()
    whole = rng.integers(0, 4, (60, 1)).astype(float)
    first, second = noise_floor(np.concatenate([whole, rng.normal(size=(60, 1))], axis=1))
    assert first == 0.25 and second < 1e-8
    rounded = np.round(rng.normal(size=(200, 1)) / 0.5) * 0.5
    (floor,) = noise_floor(rounded)
    assert 0.5 / 12**0.5 / 1.5 < floor < 0.5 / 12**0.5 * 1.5
    at_a_limit = np.maximum(rng.normal(size=(200, 1)), -0.5)
    assert 0.01 < noise_floor(at_a_limit)[0] < 0.1
    assert noise_floor(np.zeros((50, 1))) == ()
    x = rng.uniform(-1, 1, (200, 1))
    model = BNNLVRegressor(**SETTINGS, inference=QUICK, latent_dim=0)
    model.fit(x, np.round(2 * x[:, 0]))
    assert model.model_.noise_floor
    spread = model.predict(x, return_std=True)[1]
    assert spread.min() > 0.15


@pytest.mark.parametrize(
    ("rows", "inputs", "expected"), [(50, 3, (20,)), (400, 1, (20, 20)), (900, 8, (50, 50))]
)
def test_the_width_follows_the_table(rows, inputs, expected):
    assert hidden_sizes("auto", True, rows, inputs) == expected
    assert hidden_sizes("auto", False, rows, inputs) == (20, 20)
    assert hidden_sizes((3,), True, rows, inputs) == (3,)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"noise": "loud"}, "noise must be one of 'auto', 'constant', 'varying', got 'loud'"),
        ({"hidden_layer_sizes": "wide"}, "hidden_layer_sizes must be a list .* got 'wide'"),
        (
            {"noise": "varying", "inference": "alpha"},
            "noise='varying' needs inference='langevin' or 'ensemble'",
        ),
        ({"latent_dim": "many"}, "latent_dim must be an integer of at least 0, got 'many'"),
    ],
)
def test_impossible_settings_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        BNNLVRegressor(**setting).fit(*make_data(10))


def test_a_table_of_three_rows_is_fitted_and_saved(tmp_path):
    method = Ensemble(members=2, updates=20)
    model = BNNLVRegressor((4,), inference=method, random_state=0).fit(*make_data(3))
    model.save(tmp_path / "model")
    assert twofold.load(tmp_path / "model").out_of_bag_ == model.out_of_bag_


def test_a_single_draw_of_each_chain_is_kept_or_the_members_are(chained):
    method = Langevin(chains=6, folds=3, nodes=6, updates=600, steps=500, samples=1)
    model = BNNLVRegressor(**SETTINGS, inference=method).fit(*make_data())
    assert model.posterior_.weights.shape == (6, model.model_.num_weights)


def test_the_paper_s_form_can_be_asked_for():
    model = BNNLVRegressor((6,), inference="ensemble", noise="constant", prior="constant")
    model.set_params(inference__updates=100, random_state=0, activation="relu", latent_dim=0)
    model.fit(*make_data(40))
    assert not model.model_.varying_noise and model.model_.activation == "relu"
    assert model.posterior_.log_noise.shape == (Ensemble().members, 1)


def evidence(residual, seed):
    """The p-value of members that know the mean of y, x, and the deviation of its noise,
    exp(x / 4), in units of which ``residual`` draws it."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(300, 1))
    y = x + np.exp(0.25 * x) * residual(rng, x.shape)
    model = BNNLV(1, 1, (), 0, 1.0, 1.0, varying_noise=True)
    # Kernel and bias of the mean and of the noise's logarithm; no wide part.
    truth = Network(
        np.tile([1.0, 0.25, 0.0, 0.0], (2, 1)).astype(np.float32),
        np.tile([0.0, -30.0], (2, 1)).astype(np.float32),
    )
    roles = assign_roles(seed, 2, 2, 300, 300)
    members = Members(model, truth, roles, np.empty(0), np.empty((0, 2)))
    return latent_evidence(members, members.best, pad(x, y, 300, "float32"))


def test_gaussian_residuals_of_the_right_width_are_no_evidence_for_z():
    found = [evidence(lambda rng, shape: rng.normal(size=shape), seed) for seed in range(100)]
    # Uniform: rejected by one seed set in a thousand.
    assert kstest(found, "uniform").pvalue > 1e-3


@pytest.mark.parametrize(
    "residual",
    [
        lambda rng, shape: 0.95 * rng.choice([-1.0, 1.0], shape) + 0.3 * rng.normal(size=shape),
        lambda rng, shape: rng.exponential(size=shape) - 1.0,
        lambda rng, shape: 1.2 * rng.choice([-1, 0, 1], shape) + 0.1 * rng.normal(size=shape),
    ],
    ids=["two humps", "skewed", "three branches"],
)
def test_residuals_that_are_not_gaussian_are_evidence_for_z(residual):
    assert max(evidence(residual, seed) for seed in range(5)) < 1e-6


def test_z_must_predict_clearly_better_to_be_chosen():
    scores = np.random.default_rng(0).normal(size=50)
    worse, better = (Members(None, None, None, scores + gain, None) for gain in (-0.1, 0.1))
    assert not needs_latent(scores, worse)
    assert needs_latent(scores, better)
    uneven = better._replace(scores=scores + np.where(np.arange(50) < 3, 3.0, -0.1))
    assert not needs_latent(scores, uneven)


@pytest.fixture
def refuse_members(monkeypatch):
    """Members are not trained."""

    def refuse(*_, **__):
        raise AssertionError("members were trained")

    monkeypatch.setattr("twofold.estimators.staged.fit_members", refuse)


def test_a_warm_start_goes_on_from_the_earlier_draws(chained, refuse_members):
    model = copy.deepcopy(chained).set_params(warm_start=True).fit(*make_data(125))
    assert model.posterior_.weights.shape[1:] == chained.posterior_.weights.shape[1:]
    test = make_data(1_000, seed=1)
    cold = chained.log_likelihood(*test).mean()
    assert model.log_likelihood(*test).mean() > cold - 0.2


@pytest.mark.parametrize(
    "change", [{"hidden_layer_sizes": (5,)}, {"inference__members": 4}, {"latent_dim": 1}]
)
def test_a_warm_start_of_another_shape_is_a_cold_one(quick, change):
    model = copy.deepcopy(quick).set_params(warm_start=True, inference__updates=20, **change)
    cold = clone(model).fit(*make_data())
    np.testing.assert_array_equal(
        model.fit(*make_data()).posterior_.weights, cold.posterior_.weights
    )


def test_chains_are_held_against_their_start_by_the_same_rows(rng):
    model = BNNLV(1, 1, (4,), 0, 1.0, 1.0, varying_noise=True, scaled_prior=True)
    data = pad(rng.normal(size=(40, 1)), rng.normal(size=(40, 1)), 64, "float32")
    weights = 0.3 * rng.normal(size=(6, model.num_weights))
    networks = Network(weights.astype("float32"), np.full((6, 2), -1.0, "float32"))
    members = Members(model, networks, assign_roles(0, 6, 3, 40, 64), np.empty(0), np.empty((0, 6)))
    unmoved = Network(*(leaf[:, None] for leaf in networks))
    scores = score_rows(1, members, unmoved, data, SCORE)
    chains = StageResult(networks, np.ones(6), unmoved, scores, scores, unmoved, 1)
    np.testing.assert_array_equal(members._replace(scores=scores).scores, chains.fair_scores)
    assert is_kept(members._replace(scores=scores), chains)
    worse = chains._replace(fair_scores=scores - 1.0)
    assert not is_kept(members._replace(scores=scores), worse)
    noise = np.where(np.isfinite(scores), rng.normal(size=len(scores)), np.nan)
    noise = (noise - np.nanmean(noise)) / np.nanstd(noise, ddof=1)
    error = np.isfinite(scores).sum() ** -0.5
    for errors, kept in ((1.5, True), (2.5, False)):
        unsure = chains._replace(fair_scores=scores - errors * error + noise)
        assert is_kept(members._replace(scores=scores), unsure) == kept


class Script:
    """Training that returns scripted scores: what each stage gains on held-out rows."""

    def __init__(self, gains, monkeypatch, stopped_at=None, epoch=None):
        self.model = BNNLV(1, 1, (), 0, 1.0, 1.0)
        self.gains, self.stopped_at, self.epoch, self.steps = gains, stopped_at, epoch, []
        self.late = []
        monkeypatch.setattr("twofold.estimators.stages.score_rows", self.score)

    def score(self, nodes, members, draws, data, *roles):
        return np.full(20, sum(self.gains[: len(self.steps)]))

    def train(self, name, title, model, setup, keys, walk):
        self.steps.append(setup.epochs * STEPS)
        self.late.append(walk.late_factor.tolist())
        weights = np.full((2, 3, model.num_weights), len(self.steps), "float32")
        states = States(weights, weights[..., :1], np.zeros(2, "float32"))
        stopped = len(self.steps) == self.stopped_at
        epoch = self.epoch if stopped else setup.epochs
        return SimpleNamespace(states=states, stopped=stopped, epoch=epoch)

    def begin(self):
        network = Network(np.zeros((2, 2), "float32"), np.zeros((2, 1), "float32"))
        roles = assign_roles(0, 2, 2, 20, 64)
        members = Members(self.model, network, roles, np.zeros(20), np.empty((0, 2)))
        data = pad(np.zeros((20, 1)), np.zeros((20, 1)), 64, "float32")
        data = jax.tree.map(lambda leaf: leaf[None], data)
        keys = jax.random.split(jax.random.key(0), 2)
        method = Langevin(chains=2, samples=3, steps=3_200)
        self.task, self.members = Task(method, data, keys, self.train), [members]
        (chains,), stopped = begin_chains(self.task, self.members)
        return chains, stopped


class States(NamedTuple):
    """What is read of the chains' states."""

    weights: np.ndarray
    log_noise: np.ndarray
    log_step: np.ndarray


@pytest.mark.parametrize(
    ("gains", "steps", "last"),
    [
        ([0.1, 0.0], [100, 200], 800),
        ([0.0, 0.1, 0.1, 0.0], [100, 200, 400, 800], 800),
        ([0.0, 0.1, 0.1, 0.1, 0.1], [100, 200, 400, 800, 1_600], 3_200),
        ([0.0, 0.1, 0.1, 0.1, -0.1], [100, 200, 400, 800, 1_600], 1_600),
    ],
)
def test_stages_double_while_they_pay_and_the_last_is_twice_as_long(
    gains, steps, last, monkeypatch
):
    script = Script(gains, monkeypatch)
    chains, stopped = script.begin()
    assert (script.steps, chains.steps, stopped) == (steps, last, False)


def test_draws_on_all_rows_tolerate_less_energy_error(monkeypatch):
    script = Script([0.1, 0.0], monkeypatch)
    chains, _ = script.begin()
    run_stage(script.task, script.members, [chains], LAST_STAGE, chains.steps)
    assert script.late == [[1.0, 1.0], [1.0, 1.0], [LATE_FACTOR, LATE_FACTOR]]


def test_chains_worse_than_their_start_are_dropped(monkeypatch):
    chains, _ = Script([-0.1, 0.0], monkeypatch).begin()
    assert chains is None


@pytest.mark.parametrize(("epoch", "kept"), [(3, 1), (5, 2)])
def test_a_stage_that_is_stopped_early_leaves_the_draws_of_the_one_before(epoch, kept, monkeypatch):
    chains, stopped = Script([0.1, 0.1], monkeypatch, stopped_at=2, epoch=epoch).begin()
    assert stopped
    np.testing.assert_array_equal(chains.draws.weights, np.full((2, 3, 2), kept))


@pytest.mark.parametrize(
    ("gain", "steps", "said"), [(0.2, 3_200, True), (0.01, 3_200, False), (0.2, 1_600, False)]
)
def test_chains_that_would_go_on_improving_say_so(gain, steps, said, recwarn):
    method, model = Langevin(steps=3_200), BNNLV(1, 1, (), 0, 1.0, 1.0)
    chains = StageResult(None, None, None, None, None, None, steps, OutOfBag(gain, 0.01, 50))
    members = Members(model, None, None, None, None)
    warn_if_unfinished(method, [members, members], [chains, None], 50)
    assert [("steps=6400" in str(one.message)) for one in recwarn] == [True] * said


@pytest.mark.parametrize(
    ("previous", "gain", "error", "goes_on"),
    [
        (None, 0.05, 0.02, True),
        (None, 0.05, 0.06, False),
        (None, -0.05, 0.01, False),
        (0.05, 0.04, 0.02, True),
        (0.06, 0.02, 0.01, False),
        (0.02, 0.06, 0.01, True),
        (-0.02, 0.02, 0.01, True),
    ],
)
def test_chains_go_on_while_the_next_stage_is_expected_to_pay(previous, gain, error, goes_on):
    after = StageResult(None, None, None, None, None, None, 1, OutOfBag(gain, error, 50))
    before = after._replace(gain=None if previous is None else OutOfBag(previous, 0.01, 50))
    assert is_worthwhile(before, after) is goes_on


def test_an_ensemble_takes_no_warm_start(quick):
    warm = copy.deepcopy(quick).set_params(warm_start=True).fit(*make_data())
    np.testing.assert_array_equal(warm.posterior_.weights, quick.posterior_.weights)
