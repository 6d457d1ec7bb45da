"""Members that stop by rows they hold out, against loops in NumPy and SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from twofold.core.numerics import pad
from twofold.inference import ensemble, loop
from twofold.inference.ensemble import PADDING, SCORE, STOP, TRAIN, Ensemble, Network, Problem
from twofold.model.density import log_joint
from twofold.model.spec import BNNLV, WIDE

MODEL = BNNLV(1, 1, (4,), 0, 1.0, 1.0, varying_noise=True, scaled_prior=True, activation="tanh")
MEMBERS, ROWS, ROOM = 5, 40, 64


def make_data(rows=ROWS, room=ROOM):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.5, 1.5, (rows, 1))
    data = pad(x, np.sin(2 * x) + 0.3 * rng.normal(size=x.shape), room, "float32")
    return jax.tree.map(jnp.asarray, data)


def make_network(members=None, seed=1):
    rng = np.random.default_rng(seed)
    shape = () if members is None else (members,)
    weights = jnp.asarray(rng.normal(size=(*shape, MODEL.num_weights)))
    return Network(weights, jnp.broadcast_to(jnp.asarray([-1.0, -4.0]), (*shape, 2)))


@pytest.fixture(scope="module")
def run():
    """Members after all epochs of a short run."""
    method, data = Ensemble(members=MEMBERS, updates=1_500), make_data()
    setup = method.set_up(MODEL, np.array([ROWS]), "float32")
    keys = jax.random.split(jax.random.key(0), MEMBERS)
    roles = ensemble.assign_roles(0, MEMBERS, method.folds, ROWS, ROOM)
    order = np.argsort(roles, axis=1, kind="stable").astype(np.int32)
    repeated = jax.tree.map(lambda leaf: jnp.stack([leaf] * MEMBERS), data)
    start = ensemble.draw_starts(MODEL, "float32", keys)
    problem = Problem(repeated, jnp.asarray(roles), jnp.asarray(order), start)
    states = loop.init(setup.algorithm, keys, problem)
    for chunk in loop.run(
        setup.algorithm, keys, states, problem, setup.schedule, 0, setup.epochs, None
    ):
        states = chunk.states
    return roles, problem, setup, states


@pytest.mark.parametrize(("rows", "folds"), [(3, 5), (40, 5), (64, 4)])
def test_every_row_is_held_out_by_one_member_of_each_group(rows, folds):
    roles = ensemble.assign_roles(3, 3 * folds, folds, rows, ROOM)
    assert set(np.unique(roles[:, :rows])) <= {TRAIN, STOP, SCORE}
    assert (roles[:, rows:] == PADDING).all()
    groups = min(folds, max(2, rows // 2))
    held_out = np.isin(roles[:, :rows], (STOP, SCORE))
    for first in range(0, len(roles) - groups + 1, groups):
        assert (held_out[first : first + groups].sum(axis=0) == 1).all()
    # The rows that a member holds out stop it and score it by turns.
    stop, score = ((roles == role).sum(axis=1) for role in (STOP, SCORE))
    assert (stop >= 1).all() and ((stop - score == 0) | (stop - score == 1)).all()
    assert (roles[:, :rows] == TRAIN).any(axis=1).all()


def test_roles_follow_the_seed_and_groups_are_dealt_anew():
    first, again, other = (ensemble.assign_roles(seed, 10, 5, ROWS, ROOM) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any() and (first[:5] != first[5:]).any()


def test_the_energy_of_a_batch_estimates_that_of_all_rows(x64):
    rng = np.random.default_rng(1)
    network = make_network()
    x, y = (jnp.asarray(rng.normal(size=(12, 1))) for _ in range(2))
    config = ensemble.Config(MODEL, 12, 3)
    mask = jnp.arange(12) < 5
    found = ensemble.mean_energy(config, network, x, y, mask, jnp.asarray(30.0))
    terms = [log_joint(MODEL, *network, x[n : n + 1], y[n : n + 1], power=1.0) for n in range(5)]
    prior = log_joint(MODEL, *network, x[:1], y[:1], power=0.0)
    likelihood = sum(float(term - prior) for term in terms)
    assert found == pytest.approx(-(30.0 / 5.0 * likelihood + float(prior)) / 30.0, rel=1e-9)


def test_the_energy_counts_rows_as_their_weights_say(x64):
    rng = np.random.default_rng(1)
    network = make_network()
    x, y = (jnp.asarray(rng.normal(size=(5, 1))) for _ in range(2))
    config, times = ensemble.Config(MODEL, 5, 3), np.array([1, 2, 0, 3, 1])
    found = ensemble.mean_energy(config, network, x, y, jnp.asarray(times, float), jnp.asarray(4.0))
    rows = np.repeat(np.arange(5), times)
    every = ensemble.mean_energy(
        config, network, x[rows], y[rows], jnp.ones(7, bool), jnp.asarray(7.0)
    )
    assert 4.0 * found == pytest.approx(7.0 * float(every), rel=1e-9)


def test_cycles_follow_each_other_and_double():
    found = [ensemble.cycle(jnp.int32(3), jnp.int32(epoch)) for epoch in range(21)]
    number, start, length = np.array(found).T
    np.testing.assert_array_equal(number, [0] * 3 + [1] * 6 + [2] * 12)
    np.testing.assert_array_equal(start, [0] * 3 + [3] * 6 + [9] * 12)
    np.testing.assert_array_equal(length, 3 * 2**number)


@pytest.mark.parametrize("rows", [10, 1_000, 5_000, 10**6])
def test_the_default_length_is_whole_cycles(rows):
    updates = ensemble.default_updates(rows)
    setup = Ensemble().set_up(MODEL, np.array([rows]), "float32")
    assert setup.epochs * ensemble.UPDATES == updates
    _, start, length = ensemble.cycle(setup.schedule.first_cycle, jnp.int32(setup.epochs - 1))
    assert start + length == setup.epochs


def test_a_member_keeps_its_best_state_and_stops_there(run):
    _, problem, setup, states = run
    assert (states.best_score >= states.score - 1e-6).all()
    # One that is finished changes no more.
    lone, own = (jax.tree.map(lambda leaf: leaf[0], tree) for tree in (states, problem))
    lone = lone._replace(done=jnp.asarray(True))
    after, _ = setup.algorithm.step(
        jax.random.key(9), lone, own, setup.schedule, jnp.int32(setup.epochs)
    )
    for new, old in zip(jax.tree.leaves(after), jax.tree.leaves(lone), strict=True):
        np.testing.assert_array_equal(new, old)
    np.testing.assert_array_equal(ensemble.finished(states, 0), states.done)


def test_the_best_state_is_that_of_the_best_epoch(run):
    _, problem, setup, _ = run
    own = jax.tree.map(lambda leaf: leaf[0], problem)
    state, seen = setup.algorithm.init(jax.random.key(0), own), []
    step = jax.jit(setup.algorithm.step)
    for epoch in range(15):
        key = jax.random.fold_in(jax.random.key(1), epoch)
        state, _ = step(key, state, own, setup.schedule, jnp.int32(epoch))
        seen.append((float(state.score), state.network))
    best = int(state.best_epoch)
    assert seen[best][0] == state.best_score == max(score for score, _ in seen[best:])
    np.testing.assert_array_equal(state.best.weights, seen[best][1].weights)


@pytest.mark.parametrize("which", [(SCORE,), (STOP, SCORE)])
def test_scores_are_of_the_members_that_held_a_row_out(run, which):
    roles, _, _, states = run
    data, held_out = make_data(), np.isin(roles, which)
    draws = jax.tree.map(lambda leaf: jnp.stack([leaf, 0.9 * leaf], axis=1), states.best)
    found = np.asarray(ensemble.out_of_bag_scores(MODEL, 1, draws, jnp.asarray(held_out), data))
    for row in range(ROWS):
        x, y = data.x[row : row + 1], data.y[row : row + 1]
        densities = [
            float(ensemble.log_densities(MODEL, 1, Network(*one), x, y)[0])
            for k in np.flatnonzero(held_out[:, row])
            for one in zip(*(leaf[k] for leaf in draws), strict=True)
        ]
        if densities:
            assert found[row] == pytest.approx(np.log(np.mean(np.exp(densities))), abs=1e-4)
        else:
            assert np.isnan(found[row])


def test_ranks_are_those_of_the_mixture_of_narrow_and_wide_noise(x64):
    """Against the distribution functions of SciPy; the noise is the network's second output."""
    rng = np.random.default_rng(0)
    members, held_out = make_network(3), rng.uniform(size=(3, 6)) < 0.6
    held_out[:, 0], held_out[:, 1] = False, True
    x, y = rng.normal(size=(6, 1)), rng.normal(size=(6, 1))
    data = jax.tree.map(jnp.asarray, pad(x, y, 6, "float64"))
    found = np.asarray(ensemble.out_of_bag_ranks(MODEL, members, jnp.asarray(held_out), data))
    wide = 1.0 / (1.0 + np.exp(4.0))
    grid = np.linspace(-60.0, 60.0, 20_001)
    for row in range(6):
        ranks = []
        for k in np.flatnonzero(held_out[:, row]):
            network = Network(*(leaf[k] for leaf in members))
            log_density = ensemble.log_densities(
                MODEL, 1, network, jnp.full((len(grid), 1), x[row]), jnp.asarray(grid[:, None])
            )
            density = np.exp(np.asarray(log_density))
            centre = np.trapezoid(grid * density, grid)
            variance = np.trapezoid((grid - centre) ** 2 * density, grid)
            narrow = np.sqrt(variance / (1.0 - wide + wide * WIDE**2))
            parts = norm.cdf(y[row, 0], centre, [narrow, WIDE * narrow])
            ranks.append((1.0 - wide) * parts[0] + wide * parts[1])
        if ranks:
            assert found[row, 0] == pytest.approx(np.mean(ranks), abs=1e-4)
        else:
            assert np.isnan(found[row]).all()


def test_a_summary_leaves_out_rows_that_nobody_held_out():
    summary = ensemble.summarise(np.array([1.0, np.nan, 3.0]))
    assert summary == (2.0, pytest.approx(1.0), 2)


def test_weighted_scores_have_the_weighted_mean_and_its_error():
    scores, weight = np.array([1.0, np.nan, 3.0, 4.0]), np.array([1.0, 5.0, 2.0, 0.5])
    known = np.isfinite(scores)
    summary = ensemble.summarise(ensemble.weigh_scores(scores, weight))
    mean = np.average(scores[known], weights=weight[known])
    assert summary.score == pytest.approx(mean) and summary.rows == 3
    relative = weight[known] / weight[known].mean()
    squares = np.sum(np.square(relative * (scores[known] - mean)))
    assert summary.standard_error == pytest.approx(np.sqrt(squares / 2 / 3))
    others = scores + np.array([0.5, 0.0, -0.2, 0.1])
    found = ensemble.weigh_scores(others, weight) - ensemble.weigh_scores(scores, weight)
    np.testing.assert_allclose(found, ensemble.weigh_scores(others - scores, weight))
    assert ensemble.weigh_scores(scores, None) is scores


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"members": 1}, "members must be an integer of at least 2, got 1"),
        ({"folds": 1}, "folds must be an integer of at least 2, got 1"),
        ({"nodes": None}, "nodes must be an integer of at least 1, got None"),
        ({"learning_rate": 0}, "learning_rate must be a positive number, got 0"),
    ],
)
def test_options_are_checked(setting, message):
    with pytest.raises(ValueError, match=message):
        Ensemble(**setting)


def test_many_rows_that_stop_a_member_are_looked_at_from_all_over_the_table(monkeypatch):
    """A table in the order of x, of whose rows only few are looked at."""
    monkeypatch.setattr(ensemble, "STOPPING_ROWS", 4)
    x = np.linspace(-1.0, 1.0, ROOM)[:, None]
    data = jax.tree.map(jnp.asarray, pad(x, x, ROOM, "float32"))
    role = np.where(np.arange(ROOM) % 2, STOP, TRAIN).astype(np.int8)
    order = jnp.asarray(np.argsort(role, kind="stable").astype(np.int32))
    start = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), make_network())
    problem = Problem(data, jnp.asarray(role), order, start)
    config = ensemble.Config(MODEL, ROOM, 1)
    schedule = ensemble.Schedule(jnp.int32(5), jnp.float32(0.0))
    state = ensemble.init(config, jax.random.key(0), problem)
    found, _ = ensemble.step(config, jax.random.key(0), state, problem, schedule, jnp.int32(0))
    looked_at = np.flatnonzero(role == STOP)[[0, 8, 16, 24]]
    expected = ensemble.log_densities(MODEL, 1, start, data.x[looked_at], data.y[looked_at])
    assert found.score == pytest.approx(float(expected.mean()), rel=1e-5)


@pytest.mark.parametrize("batch_size", [8, ROOM])
def test_rows_that_are_held_out_train_nobody(batch_size):
    """Other outputs in held-out rows change what stops a member, and nothing that it learns."""
    data = make_data()
    role = jnp.asarray(ensemble.assign_roles(0, 1, 3, ROWS, ROOM)[0])
    order = jnp.argsort(role, stable=True).astype(jnp.int32)
    start = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), make_network())
    config = ensemble.Config(MODEL, batch_size, 1)
    schedule = ensemble.Schedule(jnp.int32(5), jnp.float32(0.01))

    def run(changed):
        y = jnp.where(jnp.isin(role, jnp.asarray(changed))[:, None], data.y + 5.0, data.y)
        problem = Problem(data._replace(y=y), role, order, start)
        state = ensemble.init(config, jax.random.key(0), problem)
        return ensemble.step(config, jax.random.key(1), state, problem, schedule, jnp.int32(0))[0]

    same, stop, score, train = (run(rows) for rows in ([PADDING], [STOP], [SCORE], [TRAIN]))
    for other in (stop, score):
        np.testing.assert_array_equal(other.network.weights, same.network.weights)
    assert stop.score < same.score and score.score == same.score
    assert (train.network.weights != same.network.weights).any()
