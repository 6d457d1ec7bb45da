"""The table a model is fitted to and the steps of a roll-out are the same computation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.plant.embedding import embed
from twofold.plant.log import Episode, Log, LogError, LogWarning, Window


def counter(now, action):
    """A known part: ``c`` follows from the action and itself."""
    return {"c": jnp.clip(now["c"] + 10.0 * action["v"], 0.0, 100.0)}


def drift(now, action):
    """A rough model of ``a``."""
    return {"a": 0.9 * now["a"] + action["u"]}


@pytest.fixture
def counted(log):
    """The log with a column that does what ``counter`` says."""
    episodes = []
    for one in log.episodes:
        observations = one.observations.copy()
        for t, action in enumerate(one.actions):
            observations[t + 1, 2] = np.clip(observations[t, 2] + 10.0 * action[1], 0.0, 100.0)
        episodes.append(Episode(observations, one.actions))
    return Log(log.observations, log.actions, log.action_low, log.action_high, episodes)


CASES = {
    "plain": {},
    "history": {"history": 4},
    "absolute": {"history": 2, "deltas": False},
    "some deltas": {"history": 2, "deltas": ["b"]},
    "lags of their own": {"window": {"a": 1, "b": 5}, "action_history": {"v": 3}},
    "known": {"history": 3, "known": counter, "action_history": 0},
    "residual": {"history": 2, "known": drift, "targets": ["a", "b", "c"]},
    "transforms": {"history": 2, "transforms": {"a": "log1p_logit", "b": "log1p", "c": "logit"}},
    "transformed residual": {
        "known": lambda now, action: {"a": now["a"] + 0.1}, "targets": ["a", "b", "c"],
        "transforms": {"a": "log1p"}, "deltas": False,
    },
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_rolling_on_with_the_true_outputs_repeats_the_log(counted, case, x64):
    embedding = embed(counted, **CASES[case])
    inputs, outputs = embedding.design(counted)
    steps = embedding.steps(counted)
    assert inputs.shape[1] == len(embedding.input_names)
    assert outputs.shape[1] == len(embedding.target_names)

    @jax.jit
    def roll(window, actions, outputs):
        def step(window, now):
            seen = embedding.input(window, now[0])
            window = embedding.advance(window, *now)
            return window, (seen, window.observations[-1], window)

        return jax.lax.scan(step, window, (actions, outputs))[1]

    first = 0
    for episode in counted.episodes:
        count = len(episode) - embedding.history + 1
        own = slice(first, first + count)
        window = jax.tree.map(lambda leaf, i=first: jnp.asarray(leaf[i]), steps.windows)
        seen, observed, windows = roll(window, steps.actions[own], outputs[own])
        np.testing.assert_allclose(observed, episode.observations[embedding.history :], atol=1e-10)
        np.testing.assert_allclose(seen, inputs[own], atol=1e-10)
        # The window moves on: it is the log's own at the next step.
        for rolled, logged in zip(windows, steps.windows, strict=True):
            np.testing.assert_allclose(
                rolled[:-1], logged[first + 1 : first + count], atol=1e-10
            )  # fmt: skip
        first += count
    assert first == len(inputs)


def test_the_columns_of_the_design_are_what_their_names_say(counted):
    embedding = embed(
        counted, window={"a": 2, "c": 2}, action_history={"u": 1, "v": 2}, known=counter,
        deltas=["a"],
    )  # fmt: skip
    x, y = embedding.design(counted.pick([1]))
    episode = counted.episodes[1]
    (a, b, c), (u, v) = episode.observations.T, episode.actions.T
    # Known columns end one step ahead: what they will be is known when the step is made.
    columns = {
        "a[t-1]": a[:-2], "a[t]": a[1:-1], "c[t]": c[1:-1], "c[t+1]": c[2:],
        "u[t]": u[1:], "v[t-1]": v[:-1], "v[t]": v[1:],
    }  # fmt: skip
    assert embedding.input_names == tuple(columns)
    np.testing.assert_allclose(x, np.stack(list(columns.values()), axis=1), atol=1e-12)
    assert embedding.target_names == ("a[t+1] - a[t]", "b[t+1]")
    np.testing.assert_allclose(y, np.stack([np.diff(a)[1:], b[2:]], axis=1), atol=1e-12)


@pytest.mark.filterwarnings("ignore::twofold.plant.log.LogWarning")
def test_the_industrial_benchmark_has_the_papers_sixty_one_inputs():
    names = ("setpoint", "velocity", "gain", "shift", "cost")
    rng = np.random.default_rng(0)
    observations = np.abs(rng.normal(50, 10, (40, 5)))
    observations[:, 0] = 70
    log = Log(names, ("dv", "dg", "ds"), -np.ones(3), np.ones(3),
              [Episode(observations, rng.uniform(-1, 1, (39, 3)))])  # fmt: skip

    def steer(now, action):
        rates = {"velocity": ("dv", 1.0), "gain": ("dg", 10.0), "shift": ("ds", 5.75)}
        return {n: jnp.clip(now[n] + r * action[a], 0, 100) for n, (a, r) in rates.items()}

    embedding = embed(
        log, window={"setpoint": 1} | dict.fromkeys(names[1:], 15), action_history=0,
        held=["setpoint"], known=steer, transforms={"cost": "log1p_logit"},
    )  # fmt: skip
    assert len(embedding.input_names) == 61
    assert embedding.target_names == ("log1p_logit(cost[t+1]) - log1p_logit(cost[t])",)
    window = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), embedding.steps(log).windows)
    later = embedding.advance(window, jnp.ones(3), jnp.array([0.1]))
    assert later.observations[-1, 0] == 70
    np.testing.assert_allclose(
        later.observations[-1, 2], window.observations[-1, 2] + 10, rtol=1e-6
    )


def test_batches_and_gradients(counted):
    embedding = embed(counted, history=3, transforms={"b": "log1p_logit"})
    steps = embedding.steps(counted)
    windows = jax.tree.map(jnp.asarray, steps.windows)

    def far(actions):
        x = jax.vmap(embedding.input)(windows, actions)
        outputs = jnp.tanh(x[:, :3]) * 0.1 + actions[:, :1]
        later = jax.vmap(embedding.advance)(windows, actions, outputs)
        return jnp.sum(jax.vmap(embedding.features)(later) ** 2)

    gradient = jax.jit(jax.grad(far))(jnp.asarray(steps.actions))
    assert np.isfinite(gradient).all() and (np.abs(gradient[:, 0]) > 0).all()


def test_a_policy_sees_the_window_up_to_now(log):
    embedding = embed(log, window={"a": 2, "b": 1}, action_history={"u": 3}, held=["c"])
    window = Window(jnp.arange(9.0).reshape(3, 3), jnp.array([[10.0, 11.0], [12.0, 13.0]]))
    assert embedding.features(window).tolist() == [3.0, 6.0, 7.0, 10.0, 12.0]


def test_large_values_keep_their_small_changes(log):
    # 101325 Pa with changes of a hundredth: float32 has no digits left for them.
    observations = 101325.0 + 0.01 * np.arange(50.0)[:, None]
    pressures = Log(("p",), ("u",), [0], [1], [Episode(observations, np.full((49, 1), 0.5))])
    _, outputs = embed(pressures).design(pressures)
    np.testing.assert_allclose(outputs, 0.01, rtol=1e-6)


def test_episodes_too_short_for_the_history_give_no_rows(log):
    embedding = embed(log, history=10)
    assert len(embedding.design(log)[0]) == 3 + 21
    with pytest.raises(LogError, match="at least 41 rows, but the longest has 31"):
        embed(log, history=40).design(log)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"history": 0}, "history must be a whole number of at least 1, got 0"),
        ({"history": 2.5}, "history must be a whole number"),
        ({"window": ["x"]}, r"window 'x' is not one of the observations \(a, b, c\)"),
        ({"window": {"a": -1}}, r"window\['a'\] must be a whole number"),
        ({"action_history": {"w": 1}}, "action_history 'w' is not one of the actions"),
        ({"targets": ["a", "b"]}, r"'c' is neither a target, nor known, held.*held=\['c'\]"),
        ({"targets": ["a", "b", "c"], "held": ["c"]}, "'c' is held"),
        ({"held": ["a", "b", "c"]}, "nothing to predict"),
        ({"window": [], "action_history": 0}, "has no inputs"),
        ({"deltas": ["d"]}, "deltas 'd' is not one of the observations"),
        ({"transforms": {"bb": "logit"}}, "transforms 'bb'.*did you mean 'b'"),
        ({"known": lambda now, action: {"q": now["a"]}}, "returned by known 'q'"),
        ({"known": lambda now, action: {"c": now["z"]}}, "asks for 'z', but observations are a, b"),
        ({"known": lambda now, action: {"c": float(now["c"])}}, "written with jax.numpy"),
        ({"known": lambda now, action: {"c": jnp.ones(2)}}, "'c' must be one number"),
    ],
)
def test_wrong_options_are_refused_in_words(log, options, message):
    with pytest.raises(LogError, match=message):
        embed(log, **options)


def test_a_held_out_log_beyond_the_range_of_a_transform_is_counted_or_refused(log):
    embedding = embed(log, transforms={"a": "logit", "b": "log1p"})
    held_out = log.pick([1])
    x = embedding.design(held_out)[0]
    held_out.episodes[0].observations[4:6, 0] = 50.0
    with pytest.warns(LogWarning, match=r"'a' leaves .* in 2 of 13 values \(50 to 50\)"):
        found = embedding.design(held_out)
    assert np.isfinite(found[0]).all() and np.isfinite(found[1]).all()
    np.testing.assert_array_equal(found[0][6:], x[6:])
    with pytest.warns(LogWarning, match="'a' leaves"):
        embedding.steps(held_out)
    held_out.episodes[0].observations[4, 1] = -2.0
    held_out.episodes[0].observations[4:6, 0] = 1.0
    with pytest.raises(LogError, match="'b' must be above -1"):
        embedding.design(held_out)


def test_what_is_not_as_known_is_warned_of(log):
    with pytest.warns(
        LogWarning, match="known gives 'c' with an error of .* add 'c' to the targets"
    ):
        embed(log, known=counter)
