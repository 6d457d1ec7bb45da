"""Coefficients and loads of the rotor against SciPy, the formulas and what is published."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.interpolate import RegularGridInterpolator

from twofold.envs.wind.dynamics import coefficients, loads, nrel_5mw, tip_speed_ratio
from twofold.envs.wind.params import DEGREE, Rotor

ROTOR = Rotor()


def scipy_interpolation(values, ratio, pitch):
    table = nrel_5mw()
    grid = (table.tip_speed_ratio.astype(float), table.pitch.astype(float))
    inside = [np.clip(v, g[0], g[-1]) for v, g in zip((ratio, pitch), grid, strict=True)]
    return RegularGridInterpolator(grid, values.astype(float))(np.stack(inside, axis=-1))


def test_interpolation_equals_scipys(x64, rng):
    table = nrel_5mw()
    ratio, pitch = rng.uniform(0.0, 22.0, 2000), rng.uniform(-8.0, 40.0, 2000)
    found = jax.vmap(lambda r, p: coefficients(table, r, p))(ratio, pitch)
    expected = [scipy_interpolation(v, ratio, pitch) for v in (table.torque, table.thrust)]
    np.testing.assert_allclose(found, np.stack(expected, axis=-1), atol=1e-12)


def test_loads_are_those_of_the_formulas(x64, rng):
    table = nrel_5mw()
    speed, pitch, wind = (
        rng.uniform(0.6, 1.5, 200),
        rng.uniform(0, 20, 200),
        rng.uniform(4, 25, 200),
    )
    torque, thrust = jax.vmap(lambda *case: loads(ROTOR, table, *case))(speed, pitch * DEGREE, wind)
    force = 0.5 * 1.225 * np.pi * 63.0**2 * wind**2
    ratio = speed * 63.0 / wind
    expected = force * 63.0 * scipy_interpolation(table.torque, ratio, pitch)
    np.testing.assert_allclose(torque, expected, rtol=1e-9, atol=1e-6)
    expected = force * scipy_interpolation(table.thrust, ratio, pitch)
    np.testing.assert_allclose(thrust, expected, rtol=1e-9, atol=1e-6)


def test_the_largest_power_coefficient_is_near_the_published_one():
    # Jonkman et al. 2009, §7.2: 0.482 at a tip-speed ratio of 7.55 and a pitch of 0.
    table = nrel_5mw()
    power = table.torque * table.tip_speed_ratio[:, None]
    row, column = np.unravel_index(power.argmax(), power.shape)
    assert abs(power.max() / 0.482 - 1) < 0.03
    assert abs(table.tip_speed_ratio[row] - 7.55) < 0.5
    assert abs(table.pitch[column]) <= 0.5


def test_no_coefficient_breaks_betzs_limit_or_jumps():
    table = nrel_5mw()
    assert (table.torque * table.tip_speed_ratio[:, None]).max() < 16 / 27
    for values in (table.torque, table.thrust):
        assert np.isfinite(values).all()
    usual = (table.tip_speed_ratio > 3) & (table.tip_speed_ratio < 12)
    assert np.abs(np.diff(table.thrust[usual], axis=0)).max() < 0.1


def test_calm_air_gives_no_load_and_no_infinity():
    torque, thrust = loads(ROTOR, nrel_5mw(), jnp.array(1.0), jnp.array(0.0), jnp.array(-2.0))
    assert float(torque) == 0.0 and float(thrust) == 0.0
    assert np.isfinite(tip_speed_ratio(ROTOR, jnp.array(1.0), jnp.array(0.0)))
