"""The benchmark as the paper uses it: what is seen, how it is driven, what that costs."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paper.markdown import metrics
from paper.systems import episode_costs, known_policies
from twofold.envs.industrial import dynamics, task
from twofold.envs.industrial.task import HISTORY, industrial_benchmark
from twofold.envs.system import episode, episodes

RESULTS = Path(__file__).parents[3] / "results"


@pytest.fixture(scope="module")
def system():
    return industrial_benchmark()


def test_the_observation_is_the_setpoint_and_fifteen_steps_oldest_first(system):
    run = jax.jit(lambda key: episode(key, system, system.behaviour, 40))
    observations, actions, costs = map(np.asarray, run(jax.random.key(0)))
    assert observations.shape == (41, 61) and len(system.observations) == 61
    assert system.observations[:5] == (
        "setpoint", "velocity_14", "gain_14", "shift_14", "cost_14",
    )  # fmt: skip
    assert system.observations[-4:] == ("velocity_0", "gain_0", "shift_0", "cost_0")
    windows = observations[:, 1:].reshape(41, HISTORY, 4)
    np.testing.assert_array_equal(windows[1:, :-1], windows[:-1, 1:])
    np.testing.assert_array_equal(windows[1:, -1, 3], costs)
    steered = jax.vmap(dynamics.steer)(windows[:-1, -1, :3], actions)
    np.testing.assert_allclose(windows[1:, -1, :3], steered, rtol=1e-6)
    assert len(np.unique(observations[:, 0])) == 1


def test_setpoints_and_warm_up(system):
    states = jax.jit(jax.vmap(system.reset))(jax.random.split(jax.random.key(1), 2000))
    points, counts = np.unique(states.plant.point.value, return_counts=True)
    np.testing.assert_array_equal(points, task.SETPOINTS)
    # Two hundred each, within five standard deviations.
    assert np.abs(counts - 200).max() < 5 * np.sqrt(2000 * 0.1 * 0.9)
    # Fifteen random changes at least: the window holds no value twice but by clipping.
    assert (np.diff(np.asarray(states.window[:, :, 0]), axis=1) != 0).mean() > 0.99


@pytest.mark.parametrize(("value", "sign"), [(30.0, 1.0), (70.0, -1.0)])
def test_the_behaviour_pushes_back_to_the_middle(value, sign):
    observation = jnp.zeros(61).at[-4:-1].set(jnp.array([value, 50.0, 50.0]))
    keys = jax.random.split(jax.random.key(2), 20_000)
    actions = np.asarray(jax.vmap(lambda key: task.behave(key, observation))(keys))
    # N(0.5, 1/√3) clipped to [-1, 1] has mean 0.4386 (by quadrature).
    grid = np.linspace(-6, 7, 200_001)
    density = np.exp(-0.5 * ((grid - 0.5) * np.sqrt(3)) ** 2) * np.sqrt(3 / (2 * np.pi))
    expected = np.trapezoid(np.clip(grid, -1, 1) * density, grid)
    error = 5 * actions.std(axis=0) / np.sqrt(len(actions))
    assert abs(actions[:, 0].mean() - sign * expected) < error[0]
    assert abs(actions[:, 1].mean()) < error[1] and abs(actions[:, 2].mean()) < error[2]
    assert abs(actions[:, 1].std() - 1 / np.sqrt(3)) < 0.02
    assert np.abs(actions).max() <= 1


def test_the_behaviour_stays_in_the_middle(system):
    found = episodes(jax.random.key(3), system, system.behaviour, 100, 200)
    velocity, gain = (
        np.asarray(found.observations[:, 50:, -4]),
        np.asarray(found.observations[..., -3]),
    )
    assert np.quantile(velocity, 0.02) > 30 and np.quantile(velocity, 0.98) < 70
    assert np.quantile(gain, 0.05) > 25 and np.quantile(gain, 0.95) < 75


@pytest.mark.parametrize("name", ["zero", "random", "behaviour"])
def test_known_policies_cost_what_they_cost_in_the_original(name, system):
    costs = episode_costs(system, known_policies(system)[name], 1500)
    original = metrics("systems", RESULTS)
    mean, error = (original[f"industrial/original/{name}/cost/{part}"] for part in ("mean", "se"))
    error = np.hypot(error, costs.std(ddof=1) / np.sqrt(len(costs)))
    assert abs(costs.mean() - mean) < 3.5 * error


def test_an_episode_is_as_long_as_asked():
    assert industrial_benchmark(horizon=7).horizon == 7
    with pytest.raises(ValueError, match="horizon must be 1 step or more, got 0"):
        industrial_benchmark(horizon=0)


def test_a_drifting_setpoint_moves():
    drifting = industrial_benchmark(dynamics.Params(drifting=True))
    found = episodes(jax.random.key(4), drifting, drifting.behaviour, 100, 20)
    points = np.asarray(found.observations[..., 0])
    assert (points.std(axis=1) > 0).mean() > 0.8
    assert points.min() >= 0 and points.max() <= 100
    assert np.abs(np.diff(points, axis=1)).max() <= 1 + 1e-4
