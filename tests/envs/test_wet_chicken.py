"""The river against a plain transcription of the paper's cases, and its two kinds of data."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import kstest

from paper.transitions import random_transitions, uniform_transitions
from twofold.envs.wet_chicken import (
    PAPER,
    Params,
    drift,
    reward,
    sample_turbulence,
    step,
    turbulence_magnitude,
)

WIDE = Params(width=7.0, length=4.0, largest_drift=2.0, largest_turbulence=2.5, setback=0.5)
NUM = 2000
TRANSITIONS = pytest.mark.parametrize("transitions", [random_transitions, uniform_transitions])


def naive_step(params, state, action, tau):
    """The appendix, case by case, in Python's numbers."""
    (x, y), (a_x, a_y), width, length = state, action, params.width, params.length
    v = params.largest_drift * x / width
    s = params.largest_turbulence - v
    y_hat = y + (a_y - params.setback) + v + s * tau
    if x + a_x < 0 or y_hat > length:
        new_x = 0.0
    elif x + a_x > width:
        new_x = width
    else:
        new_x = x + a_x
    new_y = 0.0 if y_hat < 0 or y_hat > length else y_hat
    return new_x, new_y


def random_cases(rng, params, num):
    """States, actions and turbulences; a third of all coordinates lie on a boundary."""

    def sample(low, high, shape):
        values = rng.uniform(low, high, shape)
        edges = np.where(rng.uniform(size=shape) < 0.5, low, high)
        return np.where(rng.uniform(size=shape) < 1 / 3, edges, values)

    states = sample(0.0, 1.0, (num, 2)) * [params.width, params.length]
    return states, sample(-1.0, 1.0, (num, 2)), sample(-1.0, 1.0, num)


def paper_step(state, action, turbulence):
    single = jax.jit(step, static_argnums=0)
    return tuple(single(PAPER, jnp.array(state), jnp.array(action), turbulence).tolist())


@pytest.mark.parametrize("params", [PAPER, WIDE], ids=["paper", "wide"])
def test_step_equals_the_cases_of_the_paper(x64, rng, params):
    cases = random_cases(rng, params, 5000)
    found = jax.jit(jax.vmap(partial(step, params)))(*cases)
    expected = np.array([naive_step(params, *case) for case in zip(*cases, strict=True)])
    np.testing.assert_allclose(found, expected, atol=1e-14)
    corner = (params.width, params.length)
    for reached in (expected[:, 0] == 0, expected[:, 0] == corner[0], expected[:, 1] == 0):
        assert reached.sum() > 100


def test_vmap_equals_a_loop(x64, rng):
    cases = random_cases(rng, PAPER, 50)
    together = jax.vmap(step, (None, 0, 0, 0))(PAPER, *cases)
    single = jax.jit(partial(step, PAPER))
    one_by_one = [single(*case) for case in zip(*cases, strict=True)]
    np.testing.assert_allclose(together, jnp.stack(one_by_one), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(
    ("state", "action", "turbulence", "expected"),
    [
        ((0.0, 0.0), (0.0, 1.0), 0.0, (0.0, 0.0)),
        ((0.0, 2.0), (0.0, 0.0), 0.5, (0.0, 2.75)),
        ((0.0, 2.0), (0.0, 0.0), -0.25, (0.0, 0.125)),
        ((5.0, 1.0), (0.0, 0.0), 1.0, (5.0, 3.5)),
        ((5.0, 1.0), (0.0, 0.0), -1.0, (5.0, 2.5)),
        ((2.5, 2.0), (0.5, -1.0), 0.0, (3.0, 1.5)),
    ],
)
def test_known_steps(state, action, turbulence, expected):
    assert paper_step(state, action, turbulence) == expected


@pytest.mark.parametrize(
    ("state", "action", "turbulence", "expected"),
    [
        ((0.5, 2.0), (-1.0, 1.0), 0.0, (0.0, 2.3)),
        ((4.5, 1.0), (1.0, 1.0), 0.0, (5.0, 3.7)),
        ((2.0, 0.5), (0.5, -1.0), -1.0, (2.5, 0.0)),
        ((4.5, 4.0), (1.0, 1.0), 0.0, (0.0, 0.0)),
        ((2.0, 4.9), (-1.0, 1.0), 0.0, (0.0, 0.0)),
        ((0.5, 4.9), (-1.0, 1.0), 1.0, (0.0, 0.0)),
    ],
    ids=["left bank", "right bank", "upper end", "fall at the bank", "fall", "fall at the left"],
)
def test_steps_at_the_boundaries(state, action, turbulence, expected):
    np.testing.assert_allclose(paper_step(state, action, turbulence), expected, rtol=1e-6)


def test_the_edge_itself_is_no_fall():
    assert paper_step((0.0, 5.0), (1.0, 1.0), 0.0) == (1.0, 5.0)
    assert paper_step((0.0, 5.0), (1.0, 1.0), 1e-3) == (0.0, 0.0)


@pytest.mark.parametrize(("x", "speed"), [(0.0, 0.0), (2.5, 1.5), (5.0, 3.0)])
def test_drift_and_turbulence(x, speed):
    assert float(drift(PAPER, jnp.asarray(x))) == speed
    assert float(turbulence_magnitude(PAPER, jnp.asarray(x))) == 3.5 - speed


def test_reward_is_the_negative_distance_to_the_waterfall():
    states = jnp.array([[0.0, 0.0], [3.0, 5.0], [5.0, 1.5]])
    np.testing.assert_array_equal(reward(PAPER, states), [-5.0, 0.0, -3.5])
    assert float(reward(WIDE, states[0])) == -4.0


def test_resting_at_the_left_bank_spreads_y_evenly_by_the_turbulence(x64):
    # From y = 4.5 a rest at x = 0 leads to 3.5 + 3.5 τ: a fall for 3.5 τ > 1.5, else uniform.
    turbulences = sample_turbulence(jax.random.key(0), (20_000,))
    rest = partial(step, PAPER, jnp.array([0.0, 4.5]), jnp.zeros(2))
    y = np.asarray(jax.vmap(rest)(turbulences))[:, 1]
    assert -1 <= turbulences.min() < -0.999 and 0.999 < turbulences.max() <= 1
    fell = y == 0.0
    falls = (1 - 1.5 / 3.5) / 2
    # Four standard errors of a share; a right sampler fails the other once in ten thousand seeds.
    assert abs(fell.mean() - falls) < 4 * np.sqrt(falls * (1 - falls) / len(y))
    assert kstest(y[~fell] / 5.0, "uniform").pvalue > 1e-4


@TRANSITIONS
@pytest.mark.parametrize("params", [PAPER, WIDE], ids=["paper", "wide"])
def test_states_stay_in_the_river_and_actions_in_their_range(transitions, params):
    inputs, targets = transitions(jax.random.key(0), NUM, params)
    assert isinstance(inputs, np.ndarray) and isinstance(targets, np.ndarray)
    assert inputs.shape == (NUM, 4) and targets.shape == (NUM, 2)
    for states in (inputs[:, :2], targets):
        assert (states >= 0).all() and (states <= [params.width, params.length]).all()
    assert (np.abs(inputs[:, 2:]) <= 1).all()


@TRANSITIONS
def test_targets_are_in_reach_of_the_river(transitions):
    inputs, targets = transitions(jax.random.key(1), NUM)
    extremes = [
        np.array([naive_step(PAPER, row[:2], row[2:], tau) for row in inputs.astype(float)])
        for tau in (-1.0, 1.0)
    ]
    fell = (targets == 0).all(axis=1)
    np.testing.assert_allclose(targets[~fell, 0], extremes[0][~fell, 0], atol=1e-6)
    assert (targets[:, 1] >= np.where(fell, 0, extremes[0][:, 1]) - 1e-5).all()
    can_fall = (extremes[1] == 0).all(axis=1)
    assert (targets[:, 1] <= np.where(can_fall, 5.0, extremes[1][:, 1]) + 1e-5).all()


def test_exploration_is_one_trajectory_from_the_origin():
    inputs, targets = random_transitions(jax.random.key(2), NUM)
    np.testing.assert_array_equal(inputs[0, :2], 0.0)
    np.testing.assert_array_equal(inputs[1:, :2], targets[:-1])


@TRANSITIONS
def test_actions_are_uniform(transitions):
    inputs, _ = transitions(jax.random.key(3), NUM)
    # A right sampler fails once in ten thousand seeds.
    for column in (2, 3):
        assert kstest((inputs[:, column] + 1) / 2, "uniform").pvalue > 1e-4


def test_test_states_are_uniform_over_the_river():
    inputs, _ = uniform_transitions(jax.random.key(4), NUM, WIDE)
    for column, extent in enumerate((7.0, 4.0)):
        assert kstest(inputs[:, column] / extent, "uniform").pvalue > 1e-4


@TRANSITIONS
def test_a_key_fixes_the_data(transitions):
    first, again, other = (transitions(jax.random.key(seed), NUM) for seed in (5, 5, 6))
    for one, same, different in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(one, same)
        assert not np.array_equal(one, different)


@pytest.mark.parametrize("size", [0.0, -1.0, float("nan")])
@pytest.mark.parametrize("name", ["width", "length"])
def test_a_river_without_extent_is_refused(name, size):
    with pytest.raises(ValueError, match=f"{name} must be positive, got"):
        Params(**{name: size})
