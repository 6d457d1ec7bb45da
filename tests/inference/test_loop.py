"""The loop that runs them all: nothing but keys, data and α may change a result."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.core.numerics import Place, pad, padded_size
from twofold.inference import alpha, loop
from twofold.inference.loop import Schedule, make_batches
from twofold.model.spec import BNNLV

CONFIG = alpha.Alpha(draws=8).config(BNNLV(2, 1, (4,), 1, 1.0, 2.0), 16)
EPOCHS = 10
ROWS, TOTAL = 20, 500  # of a block of a larger table


def problem(size, length=64, power=1.0, seed=0, dtype="float32"):
    """A noisy sine with ``size`` data."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, 2))
    y = np.sin(2 * x[:, :1]) + 0.3 * rng.normal(size=(size, 1))
    return alpha.Problem(jax.device_put(pad(x, y, length, dtype)), jnp.asarray(power, dtype))


def keys_of(*seeds):
    return jax.vmap(jax.random.key)(jnp.array(seeds))


def assert_same(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


def assert_close(one, other, tolerance):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 0, tolerance), one, other)


def take(tree, rows):
    """These rows, or this one row, of every leaf."""
    return jax.tree.map(lambda leaf: leaf[rows], tree)


def noise_algorithm():
    """An algorithm whose state is the sum of one random number an epoch."""

    def init(key, problem):
        return problem

    def step(key, state, problem, schedule, epoch):
        number = jax.random.normal(key)
        return state + number, loop.Info(number, epoch)

    return loop.Algorithm(init, step)


def test_run_reports_every_epoch_once_and_each_with_its_own_key():
    algorithm, keys, last = noise_algorithm(), keys_of(3, 4), 600
    states = loop.init(algorithm, keys, jnp.zeros(2))
    chunks = list(loop.run(algorithm, keys, states, jnp.zeros(2), None, 5, last))
    energies = np.concatenate([chunk.energies for chunk in chunks])
    epochs = np.arange(5, last)
    fold = jax.vmap(jax.vmap(jax.random.fold_in, (0, None)), (None, 0))
    np.testing.assert_array_equal(
        energies, jax.vmap(jax.vmap(jax.random.normal))(fold(keys, epochs))
    )
    skipped = np.concatenate([chunk.skipped for chunk in chunks])
    np.testing.assert_array_equal(skipped, np.stack([epochs, epochs], axis=1))
    ends = [chunk.epoch for chunk in chunks]
    assert ends[-1] == last and np.all(np.diff([5, *ends]) == [len(c.energies) for c in chunks])
    assert max(len(chunk.energies) for chunk in chunks) <= loop.CHUNK_EPOCHS
    np.testing.assert_allclose(chunks[-1].states, energies.sum(axis=0), rtol=1e-4)


def five_members(dtype="float32"):
    """An α-run's algorithm, keys, problems and schedule; NumPy's schedule, as a caller may have."""
    every = [problem(40, seed=s, dtype=dtype) for s in range(5)]
    problems = jax.tree.map(lambda *leaves: jnp.stack(leaves), *every)
    numbers = np.int32(EPOCHS), np.int32(3), np.asarray(1e-2, dtype), np.asarray(1.0, dtype)
    return alpha.build(CONFIG), keys_of(*range(5)), problems, Schedule(*numbers)


def run_to_end(algorithm, keys, problems, schedule, states=None, first=0):
    """The states after the last epoch, and the energies."""
    states = loop.init(algorithm, keys, problems) if states is None else states
    energies = []
    for chunk in loop.run(algorithm, keys, states, problems, schedule, first, EPOCHS):
        energies.append(chunk.energies)
    return chunk.states, np.concatenate(energies)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cores_that_share_the_members_change_nothing(monkeypatch, dtype):
    found = []
    with jax.enable_x64(dtype == "float64"):
        algorithm, keys, problems, schedule = five_members(dtype)
        for count in (1, 2, 3):
            monkeypatch.setattr(loop.cores, "count_cores", lambda count=count: count)
            states = loop.init(algorithm, keys, problems)
            assert loop.compile_run(algorithm, keys, states, problems, schedule)[1] == count
            found.append(run_to_end(algorithm, keys, problems, schedule))
    assert found[0][1].dtype == dtype
    for one in found[1:]:
        assert_close(one, found[0], 1e-5)


def test_a_run_on_several_cores_goes_on_bit_for_bit(monkeypatch):
    monkeypatch.setattr(loop.cores, "count_cores", lambda: 2)
    algorithm, keys, problems, schedule = five_members()
    whole, _ = run_to_end(algorithm, keys, problems, schedule)
    states = loop.init(algorithm, keys, problems)
    begun = next(iter(loop.run(algorithm, keys, states, problems, schedule, 0, EPOCHS)))
    assert begun.epoch < EPOCHS
    rest, _ = run_to_end(algorithm, keys, problems, schedule, begun.states, begun.epoch)
    assert_same(rest, whole)


def test_chunks_grow_at_most_fourfold_and_shrink_to_one_epoch():
    assert loop._next_count(8, seconds=1e-6) == 32
    assert loop._next_count(8, seconds=loop.CHUNK_SECONDS) == 8
    assert loop._next_count(8, seconds=1e3) == 1


def test_a_result_does_not_depend_on_the_chunks_bit_for_bit(members):
    setup = members(CONFIG, [problem(50)], keys_of(0), EPOCHS, decay=1.0)
    outcomes = []
    for chunks in ([EPOCHS], [2, 5, 3]):
        states, first, energies = setup.start(), 0, []
        for count in chunks:
            states, new, _ = loop.advance(
                *setup[:2], states, *setup[2:], jnp.int32(first), jnp.int32(count)
            )
            energies.append(new[:count])
            first += count
        outcomes.append((states, np.concatenate(energies)))
    assert_same(*outcomes)
    assert_same(setup.fit()[:2], outcomes[0])


def test_the_amount_of_padding_does_not_change_a_result_bit_for_bit(members):
    short, long = (
        members(CONFIG, [problem(50, length)], keys_of(0), EPOCHS).fit() for length in (64, 128)
    )
    assert_same(short[0].shared, long[0].shared)
    assert_same(short[1], long[1])
    assert_same(*(jax.tree.map(lambda leaf: leaf[:, :50], fit[0].latents) for fit in (short, long)))


def test_members_fitted_together_equal_members_fitted_alone(members, x64):
    # Sizes, data, keys and α all differ. In float64, since Adam turns the rounding of a gradient
    # near zero into a step of up to the learning rate; 1e-9 leaves it 1e-7 of that.
    problems = [
        problem(50, power=1.0, seed=0, dtype="float64"),
        problem(37, power=0.5, seed=1, dtype="float64"),
        problem(64, power=1e-6, seed=2, dtype="float64"),
    ]
    keys = keys_of(0, 1, 2)
    together, energies, _ = members(CONFIG, problems, keys, EPOCHS).fit()
    for index, one in enumerate(problems):
        alone, own, _ = members(CONFIG, [one], keys[index : index + 1], EPOCHS).fit()
        assert_close(take(together, index), take(alone, 0), 1e-9)
        assert_close(energies[:, index], own[:, 0], 1e-9)


def test_alpha_is_a_batch_axis_that_matters(members, x64):
    problems = [problem(50, power=power, dtype="float64") for power in (1.0, 0.5, 1.0)]
    states, energies, _ = members(CONFIG, problems, keys_of(0, 0, 0), EPOCHS).fit()
    assert_same(take(states, 0), take(states, 2))
    # A power mean grows with its power, so on the same draws the energy falls with α.
    assert energies[0, 0] < energies[0, 1]
    assert np.abs(states.shared.weights.mean[0] - states.shared.weights.mean[1]).max() > 1e-3


@pytest.mark.parametrize("size", [1, 15, 16, 17, 50, 64])
def test_an_epoch_visits_each_datum_exactly_once_and_no_padding(members, size):
    states, _, _ = members(CONFIG, [problem(size)], keys_of(0), EPOCHS).fit()
    expected = np.where(np.arange(64) < size, EPOCHS, 0)
    np.testing.assert_array_equal(states.latent_moments.count[0], expected)
    np.testing.assert_array_equal(states.latents.mean[0, size:], 0.0)
    np.testing.assert_array_equal(states.latents.rho[0, size:], 5.0)
    assert np.all(states.latents.mean[0, :size] != 0.0)
    assert states.shared_moments.count[0] == EPOCHS * -(-size // CONFIG.batch_size)


def test_every_epoch_has_draws_of_its_own(members, x64):
    # With one datum and no learning nothing but the draws can change the energy.
    problems = [problem(1, dtype="float64")] * 3
    setup = members(CONFIG, problems, keys_of(0, 1, 2), EPOCHS, learning_rate=0.0)
    _, energies, _ = setup.fit()
    assert len(np.unique(energies)) == 3 * EPOCHS


def put(tree, rows, new):
    return jax.tree.map(lambda leaf, part: leaf.at[rows].set(part), tree, new)


def loop_epoch(key, state, problem, schedule, epoch):
    """``alpha.step`` with lists of rows instead of slices, and without empty slots."""
    data, size = problem.data, int(problem.data.size)
    shuffle_key, batch_key = jax.random.split(key)
    order = np.asarray(loop.shuffle(shuffle_key, data))[:size]
    groups = np.array_split(order, -(-size // CONFIG.batch_size))
    for index, rows in enumerate(groups):
        noise = alpha.draw_noise(CONFIG, jax.random.fold_in(batch_key, index), data.x.dtype)
        progress = (epoch + jnp.int32(index) / jnp.int32(len(groups))) / schedule.epochs
        local, _, _ = jax.jit(alpha.update, static_argnums=0)(
            replace(CONFIG, batch_size=len(rows)),
            alpha.State(*state[:2], *take(state[2:], rows)),
            alpha.Batch(
                *(data.x[rows], data.y[rows], jnp.ones(len(rows))),
                jnp.asarray(float(size)),
            ),
            problem.alpha,
            noise[:, : CONFIG.model.num_weights + len(rows)],
            loop.learning_rate(schedule, progress),
            jnp.asarray(True),
        )
        state = alpha.State(*local[:2], *put(state[2:], rows, local[2:]))
    return state


def test_epochs_equal_a_plain_loop_over_shuffled_batches(members, x64):
    one, key = problem(26, dtype="float64"), keys_of(0)
    setup = members(CONFIG, [one], key, 2, decay=1.0)
    expected = take(setup.start(), 0)
    for epoch in range(2):
        expected = loop_epoch(
            jax.random.fold_in(key[0], epoch), expected, one, setup.schedule, epoch
        )
    assert_close(take(setup.fit()[0], 0), expected, 1e-10)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
def test_a_non_finite_energy_is_counted_and_leaves_the_parameters_finite(members, bad):
    # 64 data make four full batches, so exactly one update an epoch meets the bad datum.
    row = 11
    good = problem(64)
    broken = good._replace(data=good.data._replace(y=good.data.y.at[row, 0].set(bad)))
    states, energies, skipped = members(CONFIG, [broken], keys_of(0), EPOCHS).fit()
    np.testing.assert_array_equal(skipped[:, 0], 1)
    assert np.all(np.isfinite(energies))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(states))
    assert states.shared_moments.count[0] == 3 * EPOCHS
    assert states.latent_moments.count[0, row] == 0


def test_twenty_sizes_of_a_growing_data_set_compile_twice(members, monkeypatch):
    # 750, 755, ..., 845 rows are padded to 768 or 896; the energy is called while tracing only,
    # and a program may be traced once more to settle its types: at most 2 times 2 calls.
    calls = []
    original = alpha.alpha_energy

    def counted(*arguments):
        calls.append(size)
        return original(*arguments)

    monkeypatch.setattr(alpha, "alpha_energy", counted)
    config = alpha.Alpha(draws=2).config(BNNLV(2, 1, (3,), 1, 1.0, 2.0), 75)
    for size in range(750, 850, 5):
        members(config, [problem(size, padded_size(size))], keys_of(0), 1).fit()
    assert set(calls) == {750, 770} and len(calls) <= 4


@pytest.fixture
def block(rng):
    x, y = rng.normal(size=(ROWS, 2)), rng.normal(size=(ROWS, 1))
    place = Place(jnp.arange(64, dtype=jnp.int32), jnp.asarray(TOTAL, jnp.int32))
    return jax.device_put(pad(x, y, 64, "float32"))._replace(place=place)


def test_batches_of_a_block_know_all_rows(block):
    batches, batch = make_batches(jax.random.key(0), block, 8)
    assert int(batches) == 3
    assert [float(batch(jnp.int32(i)).num_data) for i in range(3)] == [TOTAL] * 3
    _, lone = make_batches(jax.random.key(0), block._replace(place=None), 8)
    assert float(lone(jnp.int32(0)).num_data) == ROWS


def test_the_energy_of_a_block_is_that_of_its_rows_among_all(block):
    config = alpha.Alpha(draws=6, nodes=5).config(BNNLV(2, 1, (4,), 1, 1.0, 2.0), ROWS)
    problem = alpha.Problem(block, jnp.float32(1.0))
    key = jax.random.key(3)
    state = alpha.init(config, key, problem)
    schedule = Schedule(jnp.int32(1), jnp.int32(1), jnp.float32(0.0), jnp.float32(0.0))
    _, info = alpha.step(config, key, state, problem, schedule, jnp.int32(0))
    noise = alpha.draw_noise(config, jax.random.fold_in(jax.random.split(key)[1], 0), jnp.float32)
    batch = alpha.Batch(block.x[:ROWS], block.y[:ROWS], jnp.ones(ROWS), jnp.float32(TOTAL))
    expected = alpha.batch_energy(config, state.shared, state.latents, batch, 1.0, noise) / TOTAL
    np.testing.assert_allclose(float(info.energy), float(expected), rtol=1e-5)
    alone = alpha.batch_energy(
        config, state.shared, state.latents, batch._replace(num_data=jnp.float32(ROWS)), 1.0, noise
    )
    assert abs(float(info.energy) - float(alone) / ROWS) > 0.1
