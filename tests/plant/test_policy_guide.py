"""What docs/policies.md tells a plant's computer to run."""

import re
from pathlib import Path

import numpy as np
import pytest

from twofold.core.numerics import Standardizer
from twofold.model import network
from twofold.plant.columns import Transform
from twofold.plant.embedding import Embedding
from twofold.plant.policy import LearnedPolicy, PolicyNetwork

GUIDE = Path(__file__).parents[2] / "docs" / "policies.md"


def test_the_snippet_for_onnxruntime_does_what_the_policy_does(tmp_path, monkeypatch, rng):
    pytest.importorskip("onnx", reason="onnx is not installed (extra onnx)")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra dev)")
    names = ("temperature", "heater"), ("power", "valve")
    embedding = Embedding(*names, (6, 6), (6, 6), ("temperature",), (), (Transform(),) * 2)
    shape = PolicyNetwork(22, (5,), (0.0, 0.0), (6.0, 1.0))
    weights = rng.normal(0.0, 0.3, network.num_weights(shape.sizes))
    policy = LearnedPolicy(embedding, shape, Standardizer(np.full(22, 2.0), np.ones(22)), weights)
    monkeypatch.chdir(tmp_path)
    policy.export_onnx("tank.onnx")
    rows = rng.uniform(0.0, 5.0, (9, 4)).round(3)
    lines = ["temperature,heater,power,valve", *(",".join(map(str, row)) for row in rows)]
    lines[-1] = f"{rows[-1, 0]},{rows[-1, 1]},,"
    (tmp_path / "recent.csv").write_text("\n".join(lines))
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (snippet,) = (block for block in blocks if "onnxruntime" in block)
    found: dict = {}
    exec(snippet, found)
    expected = policy.act(rows[:, :2], rows[:-1, 2:])
    np.testing.assert_allclose(found["action"], expected, rtol=1e-4)
