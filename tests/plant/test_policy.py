"""A learned policy refuses what it cannot act on and survives its file."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.core import persistence
from twofold.core.numerics import Standardizer
from twofold.core.persistence import FileFormatError
from twofold.model import network
from twofold.plant.columns import Transform
from twofold.plant.embedding import Embedding
from twofold.plant.log import Window
from twofold.plant.policy import LearnedPolicy, PolicyNetwork, act_on, load_policy

TANK = Embedding(
    observations=("level", "load"),
    actions=("valve", "speed"),
    lags=(3, 2),
    action_lags=(2, 0),
    targets=("level",),
    deltas=(),
    transforms=(Transform(), Transform("log1p_logit", -0.1, 2.0)),
)


def policy_of(embedding, low, high):
    past = sum(max(lags - 1, 0) for lags in embedding.action_lags)
    shape = PolicyNetwork(sum(embedding.lags) + past, (10,), low, high)
    rng = np.random.default_rng(0)
    standardizer = Standardizer(
        rng.normal(size=shape.features).astype(np.float32),
        rng.uniform(0.5, 2.0, shape.features).astype(np.float32),
    )
    weights = rng.normal(0.0, 0.5, network.num_weights(shape.sizes)).astype(np.float32)
    return LearnedPolicy(embedding, shape, standardizer, weights, 2.0, 0.5, 7, {"by": "test"})


@pytest.fixture
def policy():
    return policy_of(TANK, (-0.1, 10.0), (0.3, 50.0))


@pytest.fixture
def window(rng):
    return Window(rng.uniform(0.0, 3.0, (3, 2)), rng.uniform(0.0, 1.0, (2, 2)))


def test_acts_by_features_network_and_bounds(policy, window):
    load = (np.log1p(window.observations[1:, 1]) + 0.1) / 2.1
    features = [*window.observations[:, 0], *np.log(load / (1.0 - load)), window.actions[1, 0]]
    standardised = (np.array(features) - policy.standardizer.mean) / policy.standardizer.scale
    kernel, bias = policy.weights[:60].reshape(10, 6), policy.weights[60:70]
    last, offset = policy.weights[70:90].reshape(2, 10), policy.weights[90:]
    outputs = last @ np.maximum(kernel @ standardised + bias, 0.0) + offset
    expected = np.array([0.1, 30.0]) + np.array([0.2, 20.0]) * np.tanh(outputs)
    np.testing.assert_allclose(policy.act(*window), expected, rtol=1e-5)


def test_of_longer_arrays_it_uses_the_end(policy, window):
    before = Window(np.full((4, 2), np.nan), np.full((4, 2), np.nan))
    longer = [np.concatenate(both) for both in zip(before, window, strict=True)]
    np.testing.assert_array_equal(policy.act(*longer), policy.act(*window))


@pytest.mark.parametrize("large", [-1e6, 1e6])
def test_actions_stay_within_bounds(policy, window, large):
    window.observations[-1, 0] = large
    action = policy.act(*window)
    assert (action >= policy.shape.low).all() and (action <= policy.shape.high).all()


@pytest.mark.parametrize(
    ("observations", "actions", "message"),
    [
        (np.ones((2, 2)), np.ones((1, 2)), r"at least 3 observations.*\(level, load\).*\(2, 2\)"),
        (np.ones((3, 3)), np.ones((2, 2)), r"of 2 columns \(level, load\).*\(3, 3\)"),
        (np.ones(2), np.ones((2, 2)), r"at least 3 observations.*\(2,\)"),
        (np.ones((3, 2)), None, r"the 2 actions .*\(valve, speed\), got none"),
        (np.ones((3, 2)), np.ones((3, 2)), r"the 2 actions between.*\(3, 2\)"),
        (np.ones((3, 2)), np.ones((2, 1)), r"2 columns \(valve, speed\).*\(2, 1\)"),
    ],
)
def test_wrong_shapes_are_refused(policy, observations, actions, message):
    with pytest.raises(ValueError, match=message):
        policy.act(observations, actions)


@pytest.mark.parametrize(
    ("leaf", "place", "value", "message"),
    [
        (0, (0, 0), np.nan, "'level' must be finite.*fill gaps"),
        (0, (2, 1), np.inf, "'load' must be finite"),
        (0, (2, 1), -1.0, r"'load' must be above -1"),
        (1, (1, 0), np.nan, "'valve' must be finite"),
    ],
)
def test_values_that_say_nothing_are_refused(policy, window, leaf, place, value, message):
    window[leaf][place] = value
    with pytest.raises(ValueError, match=message):
        policy.act(*window)


def test_values_that_are_not_seen_do_not_matter(policy, window):
    expected = policy.act(*window)
    window.observations[0, 1] = window.actions[0, 0] = window.actions[1, 1] = np.nan
    np.testing.assert_array_equal(policy.act(*window), expected)


def test_past_actions_may_be_left_out_where_they_are_not_seen(window):
    policy = policy_of(replace(TANK, action_lags=(1, 0)), (-0.1, 10.0), (0.3, 50.0))
    expected = policy.act(*window)
    np.testing.assert_array_equal(policy.act(window.observations), expected)


def test_acts_in_single_precision_whatever_is_enabled_and_given(policy, window):
    expected = policy.act(*(leaf.astype(np.float32) for leaf in window))
    double = Standardizer(*(part.astype(float) for part in policy.standardizer))
    other = replace(policy, weights=policy.weights.astype(float), standardizer=double)
    with jax.enable_x64(True):
        np.testing.assert_array_equal(policy.act(*window), expected)
        np.testing.assert_array_equal(other.act(*window), expected)


def test_a_gpu_is_not_to_round_the_factors_of_products(policy, window):
    traced = jax.make_jaxpr(act_on, static_argnums=(0, 1))(
        policy.embedding, policy.shape, policy.leaves, jax.tree.map(jnp.asarray, window)
    )
    assert str(traced).count("HIGHEST") >= 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": np.zeros(91)}, "weights must be 92 finite numbers"),
        ({"weights": np.full(92, np.nan)}, "weights must be 92 finite numbers"),
        ({"standardizer": Standardizer(np.zeros(5), np.ones(6))}, "mean must be 6 finite"),
        ({"shape": PolicyNetwork(6, (10,), (0.0,), (1.0,))}, r"\(6, 10, 2\), got \(6, 10, 1\)"),
        ({"shape": PolicyNetwork(5, (10,), (0, 0), (1, 1))}, r"\(6, 10, 2\), got \(5, 10, 2\)"),
        ({"embedding": replace(TANK, lags=(0, 0), action_lags=(1, 1))}, "one input and one action"),
        ({"embedding": replace(TANK, lags=(5,))}, "lags and a transform for each of its columns"),
    ],
)
def test_parts_that_do_not_fit_are_refused(policy, change, message):
    with pytest.raises(ValueError, match=message):
        replace(policy, **change)


def test_a_loaded_policy_acts_to_the_last_bit_as_before(policy, tmp_path, rng):
    def known(now, action):
        raise AssertionError("a policy does not need to know what comes next")

    embedding = replace(TANK, known=known, computed=("load",))
    policy = replace(policy, embedding=embedding)
    policy.save(tmp_path / "policy")
    loaded = load_policy(tmp_path / "policy")
    for _ in range(20):
        window = rng.uniform(0.0, 3.0, (3, 2)), rng.uniform(0.0, 1.0, (2, 2))
        np.testing.assert_array_equal(loaded.act(*window), policy.act(*window))
    assert loaded.shape == policy.shape
    assert loaded.weights.dtype == policy.weights.dtype
    for name in ("epistemic_weight", "aleatoric_weight", "seed", "notes"):
        assert getattr(loaded, name) == getattr(policy, name)


def test_other_files_are_refused(policy, tmp_path):
    path = tmp_path / "policy"
    policy.save(path)
    content = path.read_bytes()
    for wrong in (b"", content[:-8], content.replace(b"valve", b"value"), b"a,b\n1,2\n"):
        path.write_bytes(wrong)
        with pytest.raises(FileFormatError):
            load_policy(path)
    persistence.write(path, "model", {}, {})
    with pytest.raises(FileFormatError, match="it is a model"):
        load_policy(path)
    with pytest.raises(FileNotFoundError):
        load_policy(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden", [11]),
        ("low", [0.0]),
        ("lags", [3]),
        ("lags", None),
        ("transforms", [["cubic", 0.0, 1.0]] * 2),
        ("transforms", [["identity", 0.0, 1.0]]),
        ("seed", ...),
        ("seed", "one"),
        ("hidden", "20"),
        ("hidden", [-10]),
        ("lags", [3.0, 2.0]),
        ("lags", [5, -1]),
        ("action_lags", [2]),
        ("low", ["a", "b"]),
        ("transforms", [["identity", "a", "b"]] * 2),
        ("transforms", [[]] * 2),
        ("notes", 3),
        ("weights", np.full(1, np.nan)),
        ("mean", ...),
        ("scale", np.zeros(1)),
        ("scale", np.ones((1, 1), np.int64)),
    ],
)
def test_a_policy_file_whose_parts_do_not_fit_is_refused(policy, tmp_path, name, value):
    policy.save(tmp_path / "policy")
    arrays, metadata = persistence.read(tmp_path / "policy", "policy")
    holder = arrays if name in arrays else metadata
    holder[name] = np.resize(value, len(holder[name])) if name in arrays else value
    if value is ...:
        del holder[name]
    persistence.write(tmp_path / "policy", "policy", arrays, metadata)
    with pytest.raises(FileFormatError, match=f"{tmp_path}.* twofold policy, but"):
        load_policy(tmp_path / "policy")
