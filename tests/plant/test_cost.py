"""A cost is a function of named columns, tried before it is trusted; the criterion against a loop
over its sums, and its risks where they are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.plant.cost import check_gradient, cost_of, criterion, keep_within, risks, with_costs
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
            r"one number per row, got shape \(2,\)",
        ),
        (
            lambda row: print(end=""),
            r"test_cost.py:\d+: cost\(row\) must return one.*got None",
        ),
        (lambda row: "dear", r"test_cost.py:\d+: cost\(row\) must return one number.*got a str"),
        (lambda row: [row["a"]], r"must return one number per row, got a list"),
        (lambda row: 1 / 0, r"test_cost.py:\d+: cost\(row\) failed with ZeroDivisionError"),
        (lambda row: jnp.log(row["u"]), r"must be finite, got nan in episode 'e7', step \d, where"),
    ],
)
def test_what_cannot_be_a_cost_is_refused_in_words(log, function, message):
    with pytest.raises(LogError, match=message):
        cost_of(function, log)


def test_the_line_of_an_error_is_that_of_the_users_file(log, tmp_path):
    path = tmp_path / "own.py"
    lines = (
        "def helper(x):",
        "    return x.nothing",
        "def cost(row):",
        "    return helper(row['a'])",
    )
    path.write_text("\n".join(lines))
    names = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    with pytest.raises(LogError, match=r"own.py:2: cost\(row\) failed with AttributeError"):
        cost_of(names["cost"], log)


@pytest.mark.parametrize(
    "function",
    [
        lambda row: jnp.sqrt(jnp.maximum(row["a"] - 1.0, 0.0)),
        lambda row: jnp.where(row["a"] > 1.0, jnp.sqrt(row["a"] - 1.0), 0.0),
    ],
)
def test_a_cost_without_a_slope_is_refused_before_a_search(log, function):
    message = r"test_cost.py:\d+: the gradient of cost.*where a =.*jnp.sqrt\(jnp.maximum"
    with pytest.raises(LogError, match=message):
        check_gradient(cost_of(function, log), log)


def test_a_cost_without_a_slope_at_single_points_can_be_searched_with(log):
    log.episodes[0].observations[3, 0] = 1.0
    log.episodes[0].actions[2, 0] = -1.0
    function = lambda row: jnp.sqrt((row["a"] - 1.0) ** 2) + jnp.sqrt(row["u"] + 1.0)  # noqa: E731
    check_gradient(cost_of(function, log), log)


def test_criterion_is_the_sum_that_the_paper_writes(rng):
    costs = rng.gamma(2.0, size=(5, 7, 4)) * rng.uniform(0.5, 2.0, (1, 7, 1))
    beta, gamma = 1.5, 0.7
    total = 0.0
    for matrix in costs:
        rows = [np.mean(row) for row in matrix]
        within = sum(np.sum((row - np.mean(row)) ** 2) / 3 for row in matrix) / 7
        between = sum((mean - np.mean(rows)) ** 2 for mean in rows) / 6 - within / 4
        total += np.mean(matrix) + max(beta**2 * between + gamma**2 * within, 0.0) ** 0.5
    assert criterion(jnp.asarray(costs), beta, gamma) == pytest.approx(total, rel=1e-5)


def test_risks_are_unbiased_however_few_the_draws():
    """``c = b_m + e_mn`` with deviations 0.3 and 2: the plain variance of the means would report
    0.09 + 4/2 = 2.09 of epistemic risk."""
    between_key, within_key = jax.random.split(jax.random.key(1))
    steps = 200_000
    costs = 0.3 * jax.random.normal(between_key, (steps, 3, 1))
    costs = costs + 2.0 * jax.random.normal(within_key, (steps, 3, 2))
    found = risks(costs)
    # Standard errors: the variance of two means of variance 2.09 is about 2.09, of A about 3.3.
    for values, expected in ((found.epistemic, 0.09), (found.aleatoric, 4.0)):
        error = float(jnp.std(values)) / steps**0.5
        assert float(values.mean()) == pytest.approx(expected, abs=4 * error)
        assert error < 0.01


def test_without_weights_only_the_mean_is_left_and_its_slope_is_finite(rng):
    costs = jnp.asarray(rng.normal(size=(4, 3, 2)))
    value, slope = jax.value_and_grad(criterion)(costs, 0.0, 0.0)
    assert value == pytest.approx(float(costs.mean(axis=(1, 2)).sum()), rel=1e-5)
    np.testing.assert_allclose(slope, np.full(costs.shape, 1 / 6), rtol=1e-5)
    certain = jnp.ones((4, 3, 2))
    assert bool(jnp.all(jnp.isfinite(jax.grad(criterion)(certain, 2.0, 1.0))))


def test_a_step_beyond_a_limit_costs_more_the_farther_it_is(log):
    own = np.concatenate(cost_of(effort, log).of(log))
    level = np.concatenate([one.observations[1:, 0] for one in log.episodes])
    name, (low, high) = log.observations[0], np.quantile(level, [0.2, 0.7]).tolist()
    found = np.concatenate(cost_of(keep_within(effort, log, {name: (low, high)}), log).of(log))
    beyond = np.array([max(low - each, each - high, 0.0) for each in level])
    assert 0 < np.count_nonzero(beyond) < len(beyond)
    price = 10.0 * own.std() / log.column(name).std()
    np.testing.assert_allclose(found, own + price * beyond, rtol=1e-9)
    assert keep_within(effort, log, {}) is effort
    open_end = np.concatenate(
        cost_of(keep_within(effort, log, {name: (-np.inf, high)}), log).of(log)
    )
    np.testing.assert_allclose(open_end, own + price * np.maximum(level - high, 0.0), rtol=1e-9)
