"""Members that stop by rows they hold out, against loops in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.core.numerics import Padded, Place, pad
from twofold.inference import loop, stopped
from twofold.inference.stopped import Network, StoppedEnsemble
from twofold.model.density import log_joint
from twofold.model.spec import BNNLV

MODEL = BNNLV(1, 1, (4,), 0, 1.0, 1.0, varying_noise=True, scaled_prior=True, activation="tanh")
MEMBERS = 4


def make_data(rows=40, room=64):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.5, 1.5, (rows, 1))
    data = pad(x, np.sin(2 * x) + 0.3 * rng.normal(size=x.shape), room, "float32")
    return jax.tree.map(jnp.asarray, data)


@pytest.fixture(scope="module")
def run():
    """Members after all epochs of a short run, and after a run that goes on for longer."""
    method = StoppedEnsemble(members=MEMBERS, updates=1_500)
    data = make_data()
    setup = method.set_up(MODEL, np.array([40]), "float32")
    keys = jax.random.split(jax.random.key(0), MEMBERS)
    problems = jax.tree.map(lambda leaf: jnp.stack([leaf] * MEMBERS), data)
    states = loop.init(setup.algorithm, keys, problems)
    for chunk in loop.run(
        setup.algorithm, keys, states, problems, setup.schedule, 0, setup.epochs, None
    ):
        states = chunk.states
    return method, data, setup, states


@pytest.mark.parametrize("rows", [3, 40, 64])
def test_rows_stop_or_judge_or_are_learnt_from(rows):
    data = make_data(rows)
    view = jax.random.key_data(jax.random.key(3))
    member = stopped.member_rows(0.2, view, data)
    masks = {what: np.asarray(member.mask(what)) for what in ("stopping", "judging", "learning")}
    assert sum(mask.astype(int) for mask in masks.values())[:rows].tolist() == [1] * rows
    assert not any(mask[rows:].any() for mask in masks.values())
    kept_out = max(2, round(0.2 * rows))
    assert masks["stopping"].sum() == (kept_out + 1) // 2
    assert masks["stopping"].sum() + masks["judging"].sum() == kept_out
    other = stopped.member_rows(0.2, jax.random.key_data(jax.random.key(4)), data)
    assert rows < 40 or (np.asarray(other.mask("learning")) != masks["learning"]).any()


def test_a_row_of_a_larger_table_keeps_its_part_in_whatever_block_it_comes():
    x, y = jnp.zeros((2, 8, 1))
    view = jax.random.key_data(jax.random.key(0))

    def learnt_from(rows):
        block = Padded(x, y, jnp.int32(8), Place(jnp.asarray(rows), jnp.int32(100)))
        member = stopped.member_rows(0.3, view, block)
        return dict(zip(rows, np.asarray(member.mask("learning")).tolist(), strict=True))

    first, second = learnt_from(range(8)), learnt_from([4, 5, 6, 7, 90, 91, 92, 93])
    assert {row: first[row] for row in range(4, 8)} == {row: second[row] for row in range(4, 8)}


def test_the_energy_of_a_batch_estimates_that_of_all_rows(x64):
    rng = np.random.default_rng(1)
    network = Network(jnp.asarray(rng.normal(size=MODEL.num_weights)), jnp.asarray([-1.0, -4.0]))
    x, y = (jnp.asarray(rng.normal(size=(12, 1))) for _ in range(2))
    config = stopped.Config(MODEL, 12, 3, 0.2)
    mask = jnp.arange(12) < 5
    found = stopped.mean_energy(config, network, x, y, mask, jnp.asarray(30.0))
    terms = [log_joint(MODEL, *network, x[n : n + 1], y[n : n + 1], power=1.0) for n in range(5)]
    prior = log_joint(MODEL, *network, x[:1], y[:1], power=0.0)
    likelihood = sum(float(term - prior) for term in terms)
    assert found == pytest.approx(-(30.0 / 5.0 * likelihood + float(prior)) / 30.0, rel=1e-9)


def test_the_energy_counts_rows_as_their_weights_say(x64):
    rng = np.random.default_rng(1)
    network = Network(jnp.asarray(rng.normal(size=MODEL.num_weights)), jnp.asarray([-1.0, -4.0]))
    x, y = (jnp.asarray(rng.normal(size=(5, 1))) for _ in range(2))
    config, times = stopped.Config(MODEL, 5, 3, 0.2), np.array([1, 2, 0, 3, 1])
    found = stopped.mean_energy(config, network, x, y, jnp.asarray(times, float), jnp.asarray(4.0))
    rows = np.repeat(np.arange(5), times)
    every = stopped.mean_energy(
        config, network, x[rows], y[rows], jnp.ones(7, bool), jnp.asarray(7.0)
    )
    assert 4.0 * found == pytest.approx(7.0 * float(every), rel=1e-9)


def test_a_member_keeps_its_best_state_and_stops_there(run):
    _, data, setup, states = run
    assert (states.best_score >= states.score - 1e-6).all()
    done = stopped.finished(states, setup.epochs)
    assert done.any()
    view = jax.tree.map(lambda leaf: leaf[np.flatnonzero(done)[0]], states)
    after, _ = setup.algorithm.step(
        jax.random.key(9), view, data, setup.schedule, jnp.int32(setup.epochs)
    )
    np.testing.assert_array_equal(after.best.weights, view.best.weights)
    np.testing.assert_array_equal(after.network.weights, view.network.weights)


@pytest.mark.parametrize("what", ["judging", "held out"])
def test_scores_are_of_the_members_that_kept_a_row_out(run, what):
    method, data, _, states = run
    draws = jax.tree.map(lambda leaf: leaf[:, None], states.best)
    found = np.asarray(
        stopped.scores_of_kept_out(
            MODEL, method.nodes, method.held_out, what, draws, states.view, data
        )
    )
    for row in range(40):
        densities = []
        for k in range(MEMBERS):
            rows = stopped.member_rows(method.held_out, states.view[k], data)
            kept = np.asarray(rows.mask("judging"))[row]
            kept |= what == "held out" and bool(np.asarray(rows.mask("stopping"))[row])
            if kept:
                network = Network(*(jnp.asarray(leaf[k]) for leaf in states.best))
                x, y = data.x[row : row + 1], data.y[row : row + 1]
                densities.append(float(stopped.log_densities(MODEL, 1, network, x, y)[0]))
        if densities:
            assert found[row] == pytest.approx(np.log(np.mean(np.exp(densities))), abs=1e-4)
        else:
            assert np.isnan(found[row])


def test_a_summary_leaves_out_rows_that_nobody_kept_out():
    summary = stopped.summarise(np.array([1.0, np.nan, 3.0]))
    assert summary == (2.0, pytest.approx(1.0), 2)


def test_weighted_scores_have_the_weighted_mean_and_its_error():
    scores, weight = np.array([1.0, np.nan, 3.0, 4.0]), np.array([1.0, 5.0, 2.0, 0.5])
    known = np.isfinite(scores)
    summary = stopped.summarise(stopped.weigh_scores(scores, weight))
    mean = np.average(scores[known], weights=weight[known])
    assert summary.score == pytest.approx(mean) and summary.rows == 3
    relative = weight[known] / weight[known].mean()
    squares = np.sum(np.square(relative * (scores[known] - mean)))
    assert summary.standard_error == pytest.approx(np.sqrt(squares / 2 / 3))
    others = scores + np.array([0.5, 0.0, -0.2, 0.1])
    found = stopped.weigh_scores(others, weight) - stopped.weigh_scores(scores, weight)
    np.testing.assert_allclose(found, stopped.weigh_scores(others - scores, weight))
    assert stopped.weigh_scores(scores, None) is scores


def test_options_are_checked():
    with pytest.raises(ValueError, match=r"held_out must lie in \(0, 0.5\], got 0.7"):
        StoppedEnsemble(held_out=0.7)
