"""Where policies lead, for linear plants whose model is written down instead of fitted."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold import BNNLVRegressor
from twofold.core.numerics import Standardizer
from twofold.model.spec import BNNLV, SampledPosterior
from twofold.plant.embedding import embed
from twofold.plant.forecast import (
    Visited,
    distances,
    evaluate_policy,
    forecast,
    measure_reach,
    measure_saving,
    quantiles,
    save_against,
    share_explained,
    visit,
    with_epistemic_part,
)
from twofold.plant.log import Episode, Log, Window
from twofold.plant.policy import LearnedPolicy, PolicyNetwork
from twofold.plant.replay import choose_passages
from twofold.plant.rollout import DynamicsModel

NOISE, HORIZON = 0.3, 15
CHANGES = np.array([[-0.5, 0.0, 1.0, 0.0], [0.0, -0.5, 0.0, 0.0]])  # of level and heat


def log_of(episodes=40, steps=50, seed=0):
    """Two columns that go back to 0 by themselves, under the flow ``2 tanh(0.1 level)``."""
    rng = np.random.default_rng(seed)
    parts = []
    for number in range(episodes):
        seen, done = [rng.normal(size=2)], []
        for _ in range(steps):
            done.append([2 * np.tanh(0.1 * seen[-1][0])])
            change = CHANGES @ [*seen[-1], *done[-1], 1.0]
            seen.append(seen[-1] + change + NOISE * rng.normal(size=2))
        parts.append(Episode(np.array(seen)[5:], np.array(done)[5:], name=str(number)))
    return Log(("level", "heat"), ("flow",), [-2.0], [2.0], tuple(parts))


def model_of(log, weights, history=1):
    """A linear model of both changes with draws of weights, without latent inputs."""
    embedding = embed(log, history=history)
    inputs = len(embedding.input_names)
    regressor = BNNLVRegressor((), latent_dim=0, verbose=False, n_latent_draws=1)
    regressor.model_ = BNNLV(inputs, 2, (), 0, 1.0, 1.0)
    log_noise = np.full((len(weights), 2), 2 * np.log(NOISE), np.float32)
    regressor.posterior_ = SampledPosterior(np.asarray(weights, np.float32), log_noise)
    regressor.x_standardizer_ = Standardizer(np.zeros(inputs), np.ones(inputs))
    regressor.y_standardizer_ = Standardizer(np.zeros(2), np.ones(2))
    regressor.seed_, regressor.y_ndim_, regressor.n_features_in_ = 0, 2, inputs
    return DynamicsModel(regressor, embedding, cost, log)


def cost(row):
    return row["level"]


def flat(changes):
    """The kernel row by row, then the bias."""
    return np.concatenate([changes[:, :-1].ravel(), changes[:, -1]])


def linear_policy(model, weights):
    """``2 tanh(weights · (features, 1))``, of features as they are."""
    count = model.features.shape[1]
    shape = PolicyNetwork(count, (), *model.bounds)
    plain = Standardizer(np.zeros(count), np.ones(count))
    return LearnedPolicy(model.embedding, shape, plain, np.asarray(weights, np.float32))


def reach(*arguments):
    return SimpleNamespace(**measure_reach(*arguments))


def test_savings_are_against_the_logged_actions_from_the_same_starts():
    """Two weight draws without noise: a loop over each passage, under its actions and under
    none."""
    log, held_out, steps = log_of(), log_of(3, 20, seed=1), 6
    draws = [flat(CHANGES), flat(CHANGES + np.outer([1.0, 0.0], [0.0, 0.0, -0.4, 0.3]))]
    model = model_of(log, draws)
    model.regressor.posterior_.log_noise[:] = -60.0
    passages, paid = choose_passages(model, held_out, steps, 10, np.random.default_rng(0))
    passages = passages._replace(controller=None)
    policy = linear_policy(model, [0.0, 0.0, 0.0])
    costs = forecast(model, policy, passages.start, steps, weight_draws=2, noise_draws=2)
    found = measure_saving(model, passages, paid.mean(), costs, 0)
    expected = []
    for gain, bias in ((1.0, 0.0), (0.6, 0.3)):
        both = []
        for start, actions in zip(passages.start.observations, passages.actions, strict=True):
            logged = idle = start[-1, 0]
            for (flow,) in actions:
                logged, idle = 0.5 * logged + gain * flow + bias, 0.5 * idle + bias
                both.append((logged, idle))
        expected.append(np.mean(both, axis=0))
    right = save_against(paid.mean(), *np.transpose(expected))
    assert sorted(found) == pytest.approx(sorted(right), rel=1e-3)
    trial = evaluate_policy(model, policy, held_out, steps, 0)
    assert trial.saving_risk > 0.0
    assert trial.careful_saving == trial.saving - 2.0 * trial.saving_risk


def test_only_common_errors_of_a_replay_are_subtracted():
    """A replay that errs as the policy's forecast does, one that errs by itself, and one that is
    the same for all draws."""
    rng = np.random.default_rng(0)
    errors, others = rng.normal(size=(2, 20_000))
    found = save_against(10.0, 12.0 + errors, 7.0 + errors)
    np.testing.assert_allclose(found, 5.0)
    found = save_against(10.0, 12.0 + 5.0 * others, 7.0 + errors)
    assert found.mean() == pytest.approx(3.0, abs=4 * np.sqrt(1 / 20_000) + 0.05)
    assert found.std() == pytest.approx(1.0, abs=0.05)
    np.testing.assert_allclose(
        save_against(10.0, np.full(20_000, 12.0), 7.0 + errors), 5.0 - errors
    )


def test_distances_beyond_those_of_held_out_states():
    """The log's own policy, on a perfect model, goes where held-out states are: 1 % of it is
    beyond. The percentile of 1,800 of them, of which neighbours in time share their luck, errs by
    ``sqrt(0.0099 / 1800) = 0.0023`` and the share of 25 · 20 · 15 visited ones by less."""
    log, held_out = log_of(), log_of(seed=1)
    model = model_of(log, [flat(CHANGES)])
    found = reach(model, linear_policy(model, [0.1, 0.0, 0.0]), held_out, HORIZON)
    assert found.beyond.shape == found.apart.shape == (HORIZON,)
    assert found.beyond.mean() == pytest.approx(0.01, abs=4 * 0.0023)
    assert found.apart.mean() == pytest.approx(found.usual, rel=0.2)
    # A constant flow of -2 leads to a level of -4, nine deviations from where the log is.
    away = reach(model, linear_policy(model, [0.0, 0.0, -9.0]), held_out, HORIZON)
    assert away.far == found.far
    assert away.beyond[-5:].min() > 0.98
    assert away.apart[-1] > 5 * found.far


def test_distances_are_those_to_the_nearest_of_all(rng):
    known, usual, visited = (rng.normal(size=(*n, 2)) for n in ((30,), (50,), (3, 5)))
    visited[1, 2, 0] = np.nan
    median, beyond, middle, far = distances(known, usual, visited)
    ordinary = [min(np.linalg.norm(one - other) for other in known) for one in usual]
    assert middle == pytest.approx(np.median(ordinary))
    assert far == pytest.approx(np.quantile(ordinary, 0.99))
    for step in range(3):
        apart = np.array(
            [min(np.linalg.norm(one - other) for other in known) for one in visited[step]]
        )
        apart[np.isnan(apart)] = np.inf
        assert median[step] == pytest.approx(np.median(apart))
        assert beyond[step] == np.mean(apart > far)


def test_visited_states_follow_from_each_other():
    """With a history of two, a state's input has the state before it and what was done there, and
    what is done is what the policy does."""
    log = log_of(episodes=3, steps=12)
    model = model_of(log, 0.1 * np.random.default_rng(0).normal(size=(3, 14)), history=2)
    policy = linear_policy(model, [0.3, -0.2, 0.5, 0.1, 0.4, 0.05])
    task, *of_policy = model.under(policy)
    draws = model.posterior.sample(jax.random.key(1), 3)
    starts = Window(*(jnp.asarray(leaf[:4]) for leaf in model.starts))
    found = visit(task, 6, jax.random.key(0), *of_policy, draws, starts)
    found = Visited(*map(np.asarray, found))
    assert found.inputs.shape == (6, 12, 6)
    for step, run in np.ndindex(6, 12):
        level, heat, flow = (found.inputs[step, run, i : i + 2] for i in (0, 2, 4))
        np.testing.assert_array_equal([level[1], heat[1]], found.observations[step, run])
        np.testing.assert_array_equal(flow[1:], found.actions[step, run])
        if step:
            np.testing.assert_array_equal([level[0], heat[0]], found.observations[step - 1, run])
            np.testing.assert_array_equal(flow[:1], found.actions[step - 1, run])
        else:
            np.testing.assert_array_equal(level[0], model.starts.observations[run % 4, 1, 0])
        done = policy.act(np.stack([level, heat], axis=1), flow[:1, None])
        np.testing.assert_allclose(found.actions[step, run], done, rtol=1e-5)
        seen = [*level, *heat, flow[0]]  # standardised and back, in single precision
        np.testing.assert_allclose(found.features[step, run], seen, rtol=1e-6, atol=1e-6)


def test_the_column_that_drives_the_epistemic_part_comes_first():
    """Draws differ in what heat does to the level, by ±0.1: the epistemic part is ``0.01 heat²``.
    Of the variance of a Gaussian's square 70 % lie between the deciles of the Gaussian."""
    log = log_of()
    off = np.zeros_like(CHANGES)
    off[0, 1] = 0.1
    model = model_of(log, [flat(CHANGES - off), flat(CHANGES + off)])
    found = reach(model, linear_policy(model, [0.1, 0.0, 0.0]), log_of(seed=1), HORIZON)
    assert list(found.columns) == ["heat", "level"]
    assert found.columns["heat"] == pytest.approx(0.7, abs=0.1)
    assert found.columns["level"] < 0.05
    states = found.riskiest
    epistemic = states["epistemic part"]
    np.testing.assert_allclose(epistemic, 0.01 * states["heat"] ** 2, rtol=1e-3)
    np.testing.assert_allclose(states["flow"], 2 * np.tanh(0.1 * states["level"]), rtol=1e-4)
    assert len(epistemic) == 10 and np.all(np.diff(epistemic) <= 0)
    assert states["after steps"].min() >= 1 and states["after steps"].max() <= HORIZON


def test_groups_between_deciles(rng):
    values, epistemic = rng.normal(size=200), rng.exponential(size=200)
    groups = np.split(epistemic[np.argsort(values)], 10)
    between = sum(20 * (group.mean() - epistemic.mean()) ** 2 for group in groups)
    assert share_explained(values, epistemic) == pytest.approx(between / (200 * epistemic.var()))


def test_columns_with_few_values(rng):
    epistemic = rng.exponential(size=100)
    assert share_explained(np.full(100, 7.0), epistemic) == pytest.approx(0.0)
    switch = np.arange(100) % 2
    assert share_explained(switch.astype(float), 3.0 + switch) == pytest.approx(1.0)
    assert share_explained(rng.normal(size=100), np.ones(100)) == 0.0


def test_quantiles_of_what_was_visited(rng):
    """Of every column at every step, over the roll-outs that are finite there."""
    observations, actions = rng.normal(size=(3, 40, 2)), rng.normal(size=(3, 40, 1))
    observations[1, :7, 0] = np.inf
    observations[2, :, 1] = np.nan
    found = quantiles(Visited(np.zeros((3, 40, 1)), observations, actions, np.zeros((3, 40, 1))))
    assert found.shape == (3, 3, 5)
    levels = [5, 25, 50, 75, 95]
    np.testing.assert_allclose(found[0, 0], np.percentile(observations[0, :, 0], levels))
    np.testing.assert_allclose(found[0, 1], np.percentile(observations[1, 7:, 0], levels))
    np.testing.assert_allclose(found[2, 2], np.percentile(actions[2, :, 0], levels))
    assert np.isnan(found[1, 2]).all()


def test_visited_quantiles_are_where_the_plant_goes():
    """Without noise in its weights, the log's own plant and policy visit what was logged."""
    log, held_out = log_of(), log_of(seed=1)
    model = model_of(log, [flat(CHANGES)])
    found = reach(model, linear_policy(model, [0.1, 0.0, 0.0]), held_out, HORIZON).visited
    assert {name: band.shape for name, band in found.items()} == dict.fromkeys(
        ("level", "heat", "flow"), (HORIZON, 5)
    )
    found = np.stack(list(found.values()))
    logged = np.concatenate([one.observations for one in held_out.episodes])
    # 500 roll-outs of a few hundred independent rows: the median errs by about a tenth of σ.
    late = found[:2, -5:].mean(axis=1)
    expected = np.quantile(logged, (0.05, 0.25, 0.5, 0.75, 0.95), axis=0).T
    np.testing.assert_allclose(late, expected, atol=0.35 * logged.std())
    assert np.abs(found[2]).max() <= 2.0


def test_states_that_are_not_finite_are_left_out():
    log = log_of(episodes=2, steps=12)
    model = model_of(log, [flat(CHANGES)])
    finite = Visited(*(np.ones((3, 4, size)) for size in (2, 2, 1, 3)))
    for part in finite[1], finite[3]:
        part[1:, :, 0] = np.inf
    found = with_epistemic_part(model, finite, np.random.default_rng(0))
    assert found["after steps"].tolist() == [1] * 4
    finite.inputs[0] = np.nan
    with pytest.raises(ValueError, match="no state visited by the policy is finite"):
        with_epistemic_part(model, finite, np.random.default_rng(0))
