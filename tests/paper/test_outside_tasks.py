"""The outside tasks do what Gymnasium and pc-gym 0.1.8 (casadi's integrator) compute."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paper import outside_plants
from paper.outside_plants import FOUR_TANK, PENDULUM
from paper.outside_tasks import OUTSIDE, make_log, true_cost
from twofold.plant.cost import cost_of

# States after each of three actions, as pc-gym gives them for its steps of 26/60 and 1000/60; its
# integrator has relative errors of some 1e-6.
REACTOR = (
    [302.0, 295.0, 299.0],
    [
        (0.8099111048597598, 329.3467102675775),
        (0.8306799284948296, 323.45052643380603),
        (0.8533648997423422, 322.80199136801235),
    ],
)
TANKS = (
    [(3.0, 9.0), (10.0, 0.5), (0.1, 6.0)],
    [
        (0.10730766446406992, 0.17032488609915042, 0.13806186592957473, 0.34040056426924586),
        (0.1019096076661433, 0.18640934708327075, 0.09431480228671153, 0.34563089726771407),
        (0.07474044692041563, 0.20684126136152106, 0.1217075719243821, 0.2466823855652659),
    ],
)


def test_pendulum_is_gymnasiums():
    env = gymnasium.make("Pendulum-v1").unwrapped
    env.reset(seed=0)
    values = jnp.asarray(env.state, jnp.float32)
    for torque in np.random.default_rng(0).uniform(-2.0, 2.0, 50).astype(np.float32):
        seen = PENDULUM.measure(jax.random.key(0), values)
        row = dict(zip((*PENDULUM.observations, "torque"), (*seen, torque), strict=True))
        expected, reward, *_ = env.step(np.array([torque]))
        assert float(PENDULUM.cost(row)) == pytest.approx(-reward, rel=1e-3, abs=1e-4)
        values = outside_plants.swing(values, jnp.asarray([torque]))
        found = PENDULUM.measure(jax.random.key(0), values)
        np.testing.assert_allclose(found, expected, atol=2e-4)


def test_reactor_is_pc_gyms():
    with jax.enable_x64(True):
        values = jnp.array([0.8, 330.0])
        for coolant, expected in zip(*REACTOR, strict=True):
            values = outside_plants.react(values, coolant, 350.0)
            np.testing.assert_allclose(values, expected, rtol=1e-5)


def test_tanks_are_pc_gyms():
    with jax.enable_x64(True):
        levels = jnp.array([0.141, 0.112, 0.072, 0.42])
        for volts, expected in zip(*TANKS, strict=True):
            levels = outside_plants.drain(levels, jnp.asarray(volts))
            np.testing.assert_allclose(levels, expected, rtol=1e-5)


@pytest.mark.parametrize("task", OUTSIDE)
def test_logs_are_of_the_promised_size_and_cost(task):
    problem, log = OUTSIDE[task], make_log(task, 1)
    assert 5_000 <= log.transitions <= 20_000
    costs = np.concatenate(cost_of(problem.cost, log).of(log))
    paid = np.concatenate([one.costs for one in log.episodes])
    np.testing.assert_allclose(costs, paid, rtol=1e-4, atol=1e-5)
    again = make_log(task, 1)
    assert np.array_equal(log.episodes[-1].actions, again.episodes[-1].actions)


@pytest.mark.parametrize("task", OUTSIDE)
def test_exploration_costs_something(task):
    """The controller alone is not worse than with its noise, and the middle action is worse."""
    plant = {"pendulum": PENDULUM, "reactor": outside_plants.REACTOR}.get(task, FOUR_TANK)
    control = jax.jit(jax.vmap(plant.control))
    logged = np.concatenate([one.costs for one in make_log(task, 0).episodes]).mean()
    alone = true_cost(task, lambda seen: np.clip(control(seen), plant.low, plant.high), 0, 200)
    middle = 0.5 * (np.array(plant.low) + np.array(plant.high))
    idle = true_cost(task, lambda seen: np.tile(middle, (len(seen), 1)), 0, 200)
    error = np.std(alone) / np.sqrt(200)
    assert alone.mean() < logged + 3.0 * error
    assert idle.mean() > alone.mean() + 3.0 * error
