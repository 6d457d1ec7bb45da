"""The plant against the benchmark's published trajectories and its original, step by step."""

import functools
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.envs.industrial import dynamics, goldstone
from twofold.envs.industrial.dynamics import PAPER, Params

from .replay import Original, Recorder

PUBLISHED = Path(os.environ.get("TWOFOLD_DATA", "../shared/data"))
TRAJECTORIES = PUBLISHED / "industrial_benchmark" / "markov_states.npz"
COLUMNS = "coc hg hv he domain response angle ge ve MC c p v g h f fb oc reward".split()


def markov_columns(state):
    """The 29 columns of the published files."""
    point = state.point.value
    velocity, gain, shift = state.steering
    position = dynamics.effective_shift(shift, point)
    return jnp.concatenate(
        [
            state.operational,
            jnp.stack(
                [
                    state.operational[-1],
                    state.hidden[0],
                    state.hidden[1],
                    position,
                    state.calibration.domain,
                    state.calibration.response,
                    state.calibration.angle,
                    dynamics.effective_gain(gain, point),
                    dynamics.effective_velocity(velocity, gain, point),
                    -goldstone.penalty(state.calibration.angle, position),
                    state.consumption,
                    point,
                    velocity,
                    gain,
                    shift,
                    state.fatigue,
                    dynamics.basic_fatigue(velocity, gain),
                    dynamics.delayed_cost(state.operational),
                    -dynamics.cost(PAPER, state),
                ]
            ),
        ]
    )


@functools.partial(jax.jit, static_argnums=0)
def run(params, point, first, noise, actions):
    """States after each of the actions, as published columns; the first noise is the reset's."""
    begin, rest = jax.tree.map(lambda leaf: leaf[0], noise), jax.tree.map(lambda x: x[1:], noise)
    state = dynamics.reset(params, point, first, begin)

    def advance(state, inputs):
        state = dynamics.step(params, state, *inputs)
        return state, markov_columns(state)

    return jax.lax.scan(advance, state, (actions, rest))[1]


def replayed(point, seed, published):
    """Actions and noise of a published trajectory."""
    draw = np.random.RandomState(seed)
    draw.randint(1, 100), draw.rand(), draw.rand()
    recorder = Recorder(draw)
    wear = (
        float(dynamics.effective_gain(jnp.asarray(50.0), jnp.asarray(point))),
        float(dynamics.effective_velocity(*map(jnp.asarray, (50.0, 50.0, point)))),
    )
    recorder.step(*wear, saturated=False)
    actions = []
    for row in published:
        named = dict(zip(COLUMNS, row[10:], strict=True))
        actions.append(2 * draw.rand(3) - 1)
        saturated = max(named["hg"], named["hv"]) == 5.0
        recorder.step(named["ge"], named["ve"], saturated)
    return np.array(actions), recorder.noise()


@pytest.mark.skipif(not TRAJECTORIES.exists(), reason="the published trajectories are not here")
def test_published_trajectories():
    with np.load(TRAJECTORIES) as file:
        published = file["states"]
    points = [float(p) for p in _published_points()]
    worst = 0.0
    with jax.enable_x64(True):
        for index, states in enumerate(published):
            actions, noise = replayed(points[index], 1005 + index, states)
            first = jax.tree.map(lambda leaf: leaf[0], noise.drift)
            found = run(PAPER, points[index], first, noise, actions)
            worst = max(worst, float(np.abs(found - states).max()))
    assert worst < 1e-9


def _published_points():
    draw = np.random.RandomState(501)
    return [draw.randint(1, 100) for _ in range(10)]


STEPS = 400
POLICIES = {
    "random": lambda rng, t: rng.uniform(-1, 1, 3),
    "zero": lambda rng, t: np.zeros(3),
    "wild": lambda rng, t: rng.uniform(-3, 3, 3),
    # Gentle steerings wear much: fatigue grows until it is saturated; then hard ones reset it.
    "saturating": lambda rng, t: np.array([-1.0, -1.0, 1.0]) * (1 if t % 200 < 120 else -1),
}


@pytest.mark.parametrize("drifting", [False, True], ids=["fixed", "drifting"])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_original_step_by_step(policy, drifting, monkeypatch):
    pytest.importorskip("industrial_benchmark_python.IDS", reason="the original is not installed")
    rng = np.random.default_rng([list(POLICIES).index(policy), drifting])
    saturated = 0
    for seed in range(3):
        point = float(rng.integers(1, 100))
        with monkeypatch.context() as patch:
            original = Original(patch, point, drifting, seed)
            actions = np.array([POLICIES[policy](rng, t) for t in range(STEPS)])
            expected = np.array([original.step(action) for action in actions])
        with jax.enable_x64(True):
            found = run(Params(drifting=drifting), point, original.first, original.noise(), actions)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-9)
        saturated += int((expected[:, 11:13].max(axis=1) == 5.0).sum())
    assert saturated > 50 or policy != "saturating"


def test_the_steering_update_is_known():
    steering = dynamics.steer(jnp.array([99.5, 50.0, 3.0]), jnp.array([1.0, -0.5, -7.0]))
    rate = np.sin(np.pi / 12) / 0.9 * 100 / 5
    np.testing.assert_allclose(steering, [100.0, 45.0, max(3.0 - rate, 0.0)], rtol=1e-6)
    assert rate == pytest.approx(5.75, abs=0.01)


@pytest.mark.parametrize("index", range(-6, 7))
def test_the_landscape_is_lowest_at_its_optimum(index):
    sine = np.sin(index * np.pi / 12)
    with jax.enable_x64(True):
        positions = jnp.linspace(-1.5, 1.5, 60_001)
        values = jax.vmap(lambda r: goldstone.penalty(jnp.asarray(index), r))(positions)
    values = np.asarray(values)
    lowest = float(positions[np.argmin(values)])
    assert abs(lowest) == pytest.approx(max(abs(sine), np.sin(np.pi / 12)), abs=1e-4)
    if index:
        assert np.sign(lowest) == np.sign(index)
    assert float(values.min()) >= -1 - 1e-5
    if abs(index) == 6:
        assert float(values.min()) == pytest.approx(-1, abs=1e-5)


def test_gradients_are_finite_everywhere():
    noise = dynamics.sample_noise(jax.random.key(0))
    state = dynamics.reset(PAPER, 50.0, noise.drift, noise)

    def total(action):
        return dynamics.cost(PAPER, dynamics.step(PAPER, state, action, noise))

    for action in (np.zeros(3), np.ones(3), np.array([0.1, -0.2, 0.95])):
        assert np.isfinite(jax.grad(total)(jnp.asarray(action))).all()


def test_noise_has_its_distributions():
    noise = jax.vmap(lambda key: dynamics.sample_noise(key, Params(drifting=True)))(
        jax.random.split(jax.random.key(1), 20_000)
    )
    error = 5 / np.sqrt(20_000)
    assert float(noise.exponential.mean()) == pytest.approx(0.1, abs=0.1 * error)
    assert float(noise.uniform.mean()) == pytest.approx(0.5, abs=0.3 * error)
    assert float(noise.threshold.mean()) == pytest.approx(0.5, abs=0.3 * error)
    for part in (noise.amplified, noise.consumption):
        assert float(part.mean()) == pytest.approx(0.0, abs=error)
        assert float(part.std()) == pytest.approx(1.0, abs=error)
    lengths = np.unique(noise.drift.length)
    assert lengths.min() == 1 and lengths.max() == 99 and len(lengths) == 99
