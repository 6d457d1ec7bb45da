"""Rates of a log, actions at their rate and switches: by hand, in a file, and exported."""

from dataclasses import replace

import numpy as np
import pytest

from twofold.core.numerics import Standardizer
from twofold.model import network
from twofold.plant.embedding import embed
from twofold.plant.log import Episode, Log, LogError
from twofold.plant.moves import find_switches, logged_rates, rates_of
from twofold.plant.policy import LearnedPolicy, PolicyNetwork, load_policy


def make_log():
    """A valve that creeps, a heater that jumps and a pump that is on or off."""
    rng = np.random.default_rng(0)
    episodes = []
    for _ in range(3):
        valve = np.clip(np.cumsum(rng.uniform(-0.1, 0.1, 60)), -1, 1)
        heater, pump = rng.uniform(0, 5, 60), rng.integers(0, 2, 60)
        actions = np.stack([valve, heater, pump], axis=1)
        episodes.append(Episode(rng.normal(size=(61, 2)), actions))
    names = ("level", "wind"), ("valve", "heater", "pump")
    return Log(*names, [-1.0, 0.0, 0.0], [1.0, 5.0, 1.0], tuple(episodes))


def test_the_rate_of_a_log_is_what_most_of_its_changes_keep_to():
    log = make_log()
    changes = np.concatenate([np.abs(np.diff(one.actions[:, 0])) for one in log.episodes])
    found = logged_rates(log)
    assert found == {"valve": pytest.approx(np.quantile(changes[changes > 0], 0.95))}
    assert rates_of(log, found) == (found["valve"], 5.0, 1.0)
    assert rates_of(log, {}) == ()
    assert find_switches(log) == (2,)


def test_rates_of_unknown_actions_and_of_nothing_are_refused():
    with pytest.raises(LogError, match="'valv' is not one of the actions"):
        rates_of(make_log(), {"valv": 1.0})
    with pytest.raises(LogError, match="must be above 0, got 0"):
        rates_of(make_log(), {"valve": 0.0})


def make_policy(rates=(0.1, 5.0, 1.0)):
    seen = replace(embed(make_log(), action_history=1), limited=bool(rates))
    shape = PolicyNetwork(2, (4,), (-1.0, 0.0, 0.0), (1.0, 5.0, 1.0), rates, (2,))
    weights = np.random.default_rng(1).normal(size=network.num_weights(shape.sizes))
    units = Standardizer(np.zeros(2), np.ones(2))
    return LearnedPolicy(seen, shape, units, weights.astype(np.float32))


def test_actions_move_at_their_rate_and_switches_are_on_or_off(tmp_path):
    limited, free = make_policy(), make_policy(())
    make_policy().save(tmp_path / "one.policy")
    loaded = load_policy(tmp_path / "one.policy")
    rng, switched = np.random.default_rng(2), set()
    for _ in range(50):
        seen = 3 * rng.normal(size=(2, 2))
        before = rng.uniform([[-1, 0, 0]], [[1, 5, 1]])
        wanted, found = free.act(seen[-1:]), limited.act(seen, before)
        change = np.clip(wanted - before[0], [-0.1, -5, -1], [0.1, 5, 1])
        np.testing.assert_allclose(found, before[0] + change, atol=1e-5)
        np.testing.assert_array_equal(loaded.act(seen, before), found)
        assert wanted[2] in (0.0, 1.0)
        switched.add(float(wanted[2]))
    assert switched == {0.0, 1.0}
    with pytest.raises(ValueError, match="1 actions between"):
        limited.act(seen)
    with pytest.raises(ValueError, match="'valve' must be finite"):
        limited.act(seen, [[np.nan, 0.0, 0.0]])


def test_the_exported_policy_keeps_to_rates_and_switches(tmp_path):
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    policy = make_policy()
    policy.export_onnx(tmp_path / "one.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "one.onnx")
    rng = np.random.default_rng(3)
    seen = 3 * rng.normal(size=(40, 2, 2)).astype(np.float32)
    before = rng.uniform([[-1, 0, 0]], [[1, 5, 1]], (40, 1, 3)).astype(np.float32)
    (found,) = session.run(["action"], {"observations": seen, "actions": before})
    expected = [policy.act(*pair) for pair in zip(seen, before, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    before[0, 0, 1] = np.nan
    (found,) = session.run(["action"], {"observations": seen, "actions": before})
    assert np.isnan(found[0]).all() and np.isfinite(found[1:]).all()


def test_starts_have_what_comes_in_the_log():
    log = make_log()
    embedding = embed(log, history=2, exogenous=["wind"])
    assert "wind[t+1]" in embedding.input_names and "wind[t-1]" not in embedding.input_names
    assert embedding.targets == ("level",)
    found = embedding.starts(log, 5)
    row = 0
    for one in log.episodes:
        for step in range(1, len(one) - 5 + 1):
            np.testing.assert_array_equal(
                found.observations[row], one.observations[step - 1 : step + 1]
            )
            expected = one.observations[step + 1 : step + 6, 1:]
            np.testing.assert_array_equal(found.coming[row], expected)
            row += 1
    assert row == len(found.coming) == len(found.observations) == len(found.actions)
    with pytest.raises(LogError, match="use a horizon of at most 59"):
        embedding.starts(log, 60)
    with pytest.raises(LogError, match="'wind' is exogenous and cannot be predicted"):
        embed(log, exogenous=["wind"], targets=["level", "wind"])
