"""The plant against the benchmark's published trajectories and its original, step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paper.industrial_checks import max_abs_error, published_trajectories, run_plant
from twofold.envs.industrial import dynamics, goldstone
from twofold.envs.industrial.dynamics import PAPER, Params

from .replay import Original


@pytest.mark.skipif(
    not published_trajectories().exists(), reason="the published trajectories are not here"
)
def test_published_trajectories():
    assert max_abs_error(published_trajectories()) < 1e-9


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
            found = run_plant(
                Params(drifting=drifting), point, original.first, original.noise(), actions
            )
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
    noise = dynamics.sample_noises(jax.random.key(1), 20_000, Params(drifting=True))
    error = 5 / np.sqrt(20_000)
    assert float(noise.exponential.mean()) == pytest.approx(0.1, abs=0.1 * error)
    assert float(noise.uniform.mean()) == pytest.approx(0.5, abs=0.3 * error)
    assert float(noise.threshold.mean()) == pytest.approx(0.5, abs=0.3 * error)
    for part in (noise.amplified, noise.consumption):
        assert float(part.mean()) == pytest.approx(0.0, abs=error)
        assert float(part.std()) == pytest.approx(1.0, abs=error)
    lengths = np.unique(noise.drift.length)
    assert lengths.min() == 1 and lengths.max() == 99 and len(lengths) == 99
