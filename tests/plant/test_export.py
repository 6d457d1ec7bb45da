"""An exported policy acts as the policy does, without anything of twofold."""

import json
import sys
from dataclasses import replace

import jax
import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed (extra onnx)")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra dev)")

from paper.control_problems import industrial  # noqa: E402
from twofold.core.numerics import Standardizer  # noqa: E402
from twofold.model import network  # noqa: E402
from twofold.plant.columns import Transform  # noqa: E402
from twofold.plant.embedding import embed  # noqa: E402
from twofold.plant.log import Episode, Log, Window  # noqa: E402
from twofold.plant.policy import LearnedPolicy, PolicyNetwork  # noqa: E402

# Of the range of an action; the rounding of single precision comes to a tenth of it and more.
TOLERANCE = 1e-5
TRANSFORMS = {
    "leak (g)": "log1p",
    "load": "log1p",
    "share": "logit",
    "cost": "log1p_logit",
}


@pytest.fixture
def log(rng):
    """All kinds of columns; the leak is so small that log(1 + leak) needs all of its digits."""

    def episode(name):
        columns = [
            rng.normal(300.0, 5.0, 40),
            1e-5 * rng.gamma(2.0, 1.0, 40),
            rng.gamma(2.0, 50.0, 40),
            rng.uniform(0.0, 1.0, 40),
            rng.gamma(2.0, 50.0, 40),
        ]
        actions = rng.uniform([-0.1, 10.0], [0.3, 50.0], (39, 2))
        return Episode(np.stack(columns, axis=1), actions, name=name)

    names = ("temperature (K)", *TRANSFORMS)
    episodes = tuple(episode(str(number)) for number in range(4))
    return Log(names, ("valve", "speed (rpm)"), [-0.1, 10.0], [0.3, 50.0], episodes)


def policy_for(log, embedding, hidden=(20, 20), **settings):
    """A policy with random weights, whose features are standardised by the log."""
    windows = embedding.steps(log).windows
    features = np.asarray(jax.jit(jax.vmap(embedding.features))(windows), float)
    low, high = (tuple(bounds.tolist()) for bounds in (log.action_low, log.action_high))
    shape = PolicyNetwork(features.shape[1], hidden, low, high)
    weights = np.random.default_rng(0).normal(0.0, 0.25, network.num_weights(shape.sizes))
    return LearnedPolicy(embedding, shape, Standardizer.fit(features), weights, **settings)


def exported(policy, path):
    policy.export_onnx(path)
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def run(session, windows):
    given = {"observations": windows.observations, "actions": windows.actions}
    wanted = [one.name for one in session.get_inputs()]
    return session.run(["action"], {name: given[name].astype(np.float32) for name in wanted})[0]


def largest_difference(policy, session, windows):
    """Between what the session and the policy do, in parts of the actions' ranges."""
    own = [policy.act(*window) for window in zip(*windows, strict=True)]
    low, high = policy.shape.low, policy.shape.high
    return np.max(np.abs(run(session, windows) - own) / np.subtract(high, low))


def some(windows, rng, num=60):
    chosen = rng.permutation(len(windows.observations))[:num]
    return Window(*(leaf[chosen] for leaf in windows))


def beyond(windows, rng):
    """Up to three times the values of a log, and below zero where there is a logarithm of it."""
    factor = rng.uniform(-0.5, 3.0, windows.observations.shape)
    return Window(np.maximum(windows.observations * factor, -0.9), 2.0 * windows.actions)


EMBEDDINGS = {
    "newest alone": {"history": 1},
    "history": {"history": 4, "action_history": 1},
    "past actions": {"history": 4, "action_history": 3},
    "lags of their own": {
        "window": {"temperature (K)": 2, "leak (g)": 1, "share": 5, "cost": 3},
        "action_history": {"valve": 0, "speed (rpm)": 4},
    },
    "past actions alone": {"window": {}, "action_history": 3},
}


@pytest.mark.parametrize("options", EMBEDDINGS.values(), ids=EMBEDDINGS)
def test_acts_as_the_policy_does(options, log, rng, tmp_path):
    policy = policy_for(log, embed(log, transforms=TRANSFORMS, **options))
    session = exported(policy, tmp_path / "policy.onnx")
    windows = some(policy.embedding.steps(log).windows, rng)
    assert largest_difference(policy, session, windows) < TOLERANCE
    assert largest_difference(policy, session, beyond(windows, rng)) < TOLERANCE
    assert np.ptp(run(session, windows), axis=0).min() > 0.01


@pytest.mark.parametrize("hidden", [(), (30, 20, 10)])
def test_networks_of_any_depth(hidden, log, rng, tmp_path):
    policy = policy_for(log, embed(log), hidden)
    session = exported(policy, tmp_path / "policy.onnx")
    windows = some(policy.embedding.steps(log).windows, rng)
    assert largest_difference(policy, session, windows) < TOLERANCE


def test_the_industrial_benchmark(rng, tmp_path):
    problem = industrial()
    log = problem.batch(0, 2000)
    policy = policy_for(log, problem.embed(log))
    session = exported(policy, tmp_path / "policy.onnx")
    assert [one.name for one in session.get_inputs()] == ["observations"]
    windows = some(policy.embedding.steps(log).windows, rng)
    assert largest_difference(policy, session, windows) < TOLERANCE


@pytest.mark.parametrize("end", [0, 1])
def test_near_the_ends_of_a_range(end, log, rng, tmp_path):
    low, high = -3.3123, 7.77
    ends = {"share": Transform("logit", low, high)}
    policy = policy_for(log, embed(log, window=["share"], transforms=ends))
    # Wide enough that tanh is not at its own end there, where nothing could be seen.
    policy = replace(policy, standardizer=Standardizer(np.zeros(1), np.full(1, 5.0)))
    session = exported(policy, tmp_path / "policy.onnx")
    windows = some(policy.embedding.steps(log).windows, rng)
    away = 10.0 ** rng.uniform(-8.0, -1.0, windows.observations.shape)
    windows.observations[:] = low + abs(end - away) * (high - low)
    assert largest_difference(policy, session, windows) < TOLERANCE


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("temperature (K)", np.nan),
        ("temperature (K)", np.inf),
        ("share", np.nan),
        ("share", -np.inf),
        ("load", -1.0),
        ("cost", -1.0),
        ("cost", -2.0),
    ],
)
def test_a_value_that_says_nothing_gives_no_action(column, value, log, rng, tmp_path):
    policy = policy_for(log, embed(log, history=3, transforms=TRANSFORMS))
    session = exported(policy, tmp_path / "policy.onnx")
    windows = some(policy.embedding.steps(log).windows, rng, 5)
    expected = run(session, windows)
    windows.observations[2, 1, log.observations.index(column)] = value
    expected[2] = np.nan
    np.testing.assert_array_equal(run(session, windows), expected)
    with pytest.raises(ValueError, match=column.split()[0]):
        policy.act(windows.observations[2], windows.actions[2])


def test_what_is_not_seen_does_not_matter(log, rng, tmp_path):
    policy = policy_for(log, embed(log, window={"load": 1, "share": 3}, action_history=0))
    session = exported(policy, tmp_path / "policy.onnx")
    windows = some(policy.embedding.steps(log).windows, rng, 5)
    expected = run(session, windows), policy.act(windows.observations[0])
    windows.observations[:, :, 0] = np.nan
    windows.observations[:, :2, log.observations.index("load")] = np.nan
    np.testing.assert_array_equal(run(session, windows), expected[0])
    np.testing.assert_array_equal(policy.act(windows.observations[0]), expected[1])


def test_an_engineer_can_read_what_it_is(log, tmp_path):
    embedding = embed(log, history=4, transforms=TRANSFORMS)
    settings = {"epistemic_weight": 2.5, "aleatoric_weight": 0.5, "seed": 3}
    settings["notes"] = {"plant": "north"}
    session = exported(policy_for(log, embedding, **settings), tmp_path / "policy.onnx")
    about = session.get_modelmeta()
    said = {name: json.loads(value) for name, value in about.custom_metadata_map.items()}
    assert "names state them" in said.pop("units")
    assert said == {
        "observations": list(log.observations),
        "actions": ["valve", "speed (rpm)"],
        "action_low": [-0.1, 10.0],
        "action_high": [0.3, 50.0],
        "history": 4,
        "epistemic_weight": 2.5,
        "aleatoric_weight": 0.5,
        "seed": 3,
        "notes": {"plant": "north"},
    }
    assert about.producer_name == "twofold"
    assert "last 4 raw observations and the actions" in about.description
    model = onnx.load(tmp_path / "policy.onnx")
    seen, past = model.graph.input
    assert "columns: temperature (K), leak (g)" in seen.doc_string
    assert "speed (rpm) from 10 to 50" in past.doc_string
    assert "speed (rpm) from 10 to 50" in model.graph.output[0].doc_string


def test_inputs_and_output_have_names_and_shapes(log, tmp_path):
    embedding = embed(log, history=4, transforms=TRANSFORMS)
    session = exported(policy_for(log, embedding), tmp_path / "policy.onnx")
    found = [(one.name, one.type, one.shape) for one in session.get_inputs()]
    assert found == [
        ("observations", "tensor(float)", ["batch", 4, 5]),
        ("actions", "tensor(float)", ["batch", 3, 2]),
    ]
    (action,) = session.get_outputs()
    assert (action.name, action.shape) == ("action", ["batch", 2])


def test_without_onnx_it_says_what_to_install(log, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'twofold\[onnx\]'"):
        policy_for(log, embed(log)).export_onnx(tmp_path / "policy.onnx")
    assert list(tmp_path.iterdir()) == []
