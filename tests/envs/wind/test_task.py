"""The task as a system: what is seen, what it costs, and that it is pure."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paper.wind.plain_wind import hub_wind
from twofold.envs.system import constant, episodes
from twofold.envs.wind import task
from twofold.envs.wind.task import PARAMS, SIGNALS, Params, State, offsets, wind_turbine

SHORT = replace(PARAMS, warm_up=6, history=3, horizon=10)
SYSTEM = wind_turbine(SHORT)
STEP = jax.jit(lambda state, action, noise: task.step(SHORT, state, action, noise))
RESET = jax.jit(SYSTEM.reset)


@pytest.fixture(scope="module")
def state():
    return RESET(jax.random.key(0))


@pytest.fixture(scope="module")
def log():
    """About as many transitions as the paper has, by the behaviour policy."""
    system = wind_turbine()
    return episodes(jax.random.key(1), system, system.behaviour, system.horizon, 50)


def test_the_observation_is_much_wider_than_the_action():
    system = wind_turbine()
    width = len(system.observations)
    assert width == PARAMS.history * len(SIGNALS) == 45 and len(system.actions) == 2
    assert len(set(system.observations)) == width
    assert system.observation_low.shape == system.observation_high.shape == (width,)
    np.testing.assert_array_equal([system.action_low, system.action_high], [[-1, -1], [1, 1]])


def test_a_log_has_five_thousand_transitions_within_the_bounds(log):
    system = wind_turbine()
    assert log.actions.shape == (50, 100, 2) and log.costs.size == 5000
    for seen in (log.observations, log.actions, log.costs):
        assert np.isfinite(seen).all()
    assert (log.observations >= system.observation_low).all()
    assert (log.observations <= system.observation_high).all()


def test_the_behaviour_explores_a_little_around_zero(log):
    actions = np.array(log.actions)
    # Means of 50 episodes of correlated actions: the standard error is that over episodes.
    errors = 4 * actions.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(50)
    assert (np.abs(actions.mean(axis=(0, 1))) < errors).all()
    np.testing.assert_allclose(actions.std(axis=(0, 1)), 0.15, rtol=0.15)
    before, after = actions[:, :-1].ravel(), actions[:, 1:].ravel()
    assert np.corrcoef(before, after)[0, 1] == pytest.approx(0.9, abs=0.03)


def test_the_cost_is_negative_power_and_a_load_penalty(log):
    power, span = log.observations[:, 1:, 1], log.observations[:, 1:, 6]
    np.testing.assert_allclose(log.costs, -power / 5.0 + 0.1 * span / 10.0, atol=1e-5)


def test_power_is_what_torque_and_speed_make_of_it(log):
    power, rpm, torque = (log.observations[..., place] for place in (1, 2, 3))
    # Means of products are not products of means, and the shaft twists: a few kilowatts.
    np.testing.assert_allclose(power, 0.944 * torque * 97 * rpm * np.pi / 30 / 1e3, atol=0.05)


def test_the_history_moves_by_one_second_a_step(state):
    after = STEP(state, jnp.array([0.5, -0.2]), jnp.array(0.0))
    np.testing.assert_array_equal(after.seconds[1:], state.seconds[:-1])
    np.testing.assert_allclose(after.seconds[0, 7:], [1.5, -4.0], rtol=1e-5)
    np.testing.assert_array_equal(SYSTEM.observe(after), after.seconds.reshape(-1))
    assert float(after.time) == pytest.approx(float(state.time) + 1.0)


def test_noise_is_the_anemometers_alone(state):
    calm, noisy = (STEP(state, jnp.zeros(2), jnp.array(noise)) for noise in (0.0, 2.0))
    assert float(noisy.seconds[0, 0] - calm.seconds[0, 0]) == pytest.approx(0.4, abs=1e-4)
    np.testing.assert_array_equal(noisy.seconds[0, 1:], calm.seconds[0, 1:])
    for one, other in zip(
        jax.tree.leaves(noisy.machine), jax.tree.leaves(calm.machine), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_measured_wind_is_the_hubs_average(state):
    after = STEP(state, jnp.zeros(2), jnp.array(0.0))
    times = state.time + 0.05 * (jnp.arange(20) + 0.5)
    assert float(after.seconds[0, 0]) == pytest.approx(
        float(hub_wind(state.wind, times).mean()), abs=1e-4
    )


def test_actions_beyond_the_bounds_are_the_bounds(state):
    far, edge = (
        STEP(state, jnp.array(action), jnp.array(0.0)) for action in ([9.0, -2.0], [1.0, -1.0])
    )
    np.testing.assert_array_equal(far.seconds, edge.seconds)
    pitch, torque = offsets(PARAMS, jnp.array([9.0, -2.0]))
    np.testing.assert_allclose([pitch, torque], [np.radians(3.0), -0.2], rtol=1e-6)


def test_an_offset_of_the_pitch_is_followed():
    # In 8 m/s the pitch control is idle; above rated wind it would answer the offset.
    state = settled = jax.jit(wind_turbine(replace(SHORT, mean_wind=(8.0, 8.0))).reset)(
        jax.random.key(0)
    )
    for _ in range(3):
        settled = STEP(settled, jnp.array([-2 / 3, 0.0]), jnp.array(0.0))
    neutral = state
    for _ in range(3):
        neutral = STEP(neutral, jnp.zeros(2), jnp.array(0.0))
    assert float(settled.seconds[0, 4] - neutral.seconds[0, 4]) == pytest.approx(-2.0, abs=0.3)


def test_many_at_once_do_what_one_does():
    keys = jax.random.split(jax.random.key(3), 4)
    together = jax.jit(jax.vmap(SYSTEM.reset))(keys)
    one_by_one = [RESET(key) for key in keys]
    for place, alone in enumerate(one_by_one):
        np.testing.assert_allclose(together.seconds[place], alone.seconds, rtol=1e-3, atol=1e-3)
    step = jax.jit(jax.vmap(SYSTEM.step, (0, 0, None)))
    after = step(keys, together, jnp.ones(2))
    assert after.seconds.shape == (4, 3, len(SIGNALS)) and isinstance(after, State)


def test_a_key_fixes_the_wind_and_means_differ():
    first, again, other = (RESET(jax.random.key(seed)) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.seconds, again.seconds)
    assert float(first.wind.mean) != float(other.wind.mean)
    assert 7 <= float(first.wind.mean) <= 13


def test_without_a_penalty_the_cost_is_the_power(state):
    cost = float(task.cost(replace(SHORT, load_weight=0.0), state))
    assert cost == pytest.approx(-float(state.seconds[0, 1]) / 5.0)


def test_double_precision_agrees_with_single(state):
    with jax.enable_x64(True):
        doubled = jax.tree.map(lambda leaf: jnp.asarray(np.array(leaf), float), state)
        step = jax.jit(lambda s: task.step(SHORT, s, jnp.array([0.3, 0.2]), jnp.array(0.3)))
        expected = np.array(step(doubled).seconds)
    found = STEP(state, jnp.array([0.3, 0.2]), jnp.array(0.3)).seconds
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=2e-3)


def test_gymnasium_accepts_it():
    pytest.importorskip("gymnasium", reason="Gymnasium is not installed (extra rl)")
    from gymnasium.utils.env_checker import check_env

    from twofold.envs.gym import SystemEnv

    check_env(SystemEnv(SYSTEM), skip_render_check=True)


def test_neutral_is_the_baseline(state):
    policy = constant(jnp.zeros(2))
    _, action = policy.act(jax.random.key(0), (), SYSTEM.observe(state))
    after = STEP(state, action, jnp.array(0.0))
    np.testing.assert_array_equal(after.seconds[0, 7:], 0.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mean_wind": (12.0, 8.0)}, "mean_wind must satisfy 0 < low <= high"),
        ({"intensity": (0.0, 0.1)}, "intensity must satisfy 0 < low <= high"),
        ({"history": 0}, "history must be 1 decision or more, got 0"),
        ({"load_weight": -1.0}, "load_weight must be 0 or more"),
        ({"persistence": 1.0}, r"persistence must lie in \[0, 1\)"),
    ],
)
def test_impossible_rules_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Params(**settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [("decision", 0.07), ("decision", 0.01), ("horizon", 0), ("warm_up", -5), ("pitch_bound", -3)],
)
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be"):
        Params(**{name: value})
