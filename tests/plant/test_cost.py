"""A cost is a function of named columns, tried before it is trusted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.plant.cost import cost_of, with_costs
from twofold.plant.log import LogError


def effort(row):
    return jnp.square(row["a"] - 1.0) + 0.1 * jnp.abs(row["u"])


def test_costs_are_of_the_row_reached_and_of_the_action_that_led_there(log):
    found = with_costs(log, effort)
    for old, new in zip(log.episodes, found.episodes, strict=True):
        expected = (old.observations[1:, 0] - 1.0) ** 2 + 0.1 * np.abs(old.actions[:, 0])
        np.testing.assert_allclose(new.costs, expected, rtol=1e-12)
        assert new.name == old.name


def test_a_cost_runs_in_a_roll_out_and_has_a_gradient(log):
    cost = cost_of(effort, log)
    gradient = jax.jit(jax.vmap(jax.grad(cost)))(jnp.ones((4, 3)) * 3.0, jnp.ones((4, 2)))
    np.testing.assert_allclose(gradient, np.tile([4.0, 0.0, 0.0], (4, 1)), rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda row: row["aa"], "asks for 'aa', but the log has a, b, c, u, v; did you mean 'a'"),
        (lambda row: max(row["a"], 0.0), "use jnp.where and jnp.maximum"),
        (lambda row: np.maximum(row["a"], 0.0), "written with jax.numpy"),
        (
            lambda row: jnp.stack([row["a"], row["b"]]),
            r"one number for a row, got the shape \(2,\)",
        ),
        (lambda row: jnp.log(row["u"]), r"must be finite, got nan in episode 'e7', step \d, where"),
    ],
)
def test_what_cannot_be_a_cost_is_refused_in_words(log, function, message):
    with pytest.raises(LogError, match=message):
        cost_of(function, log)
