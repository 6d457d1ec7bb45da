"""The code of the guides runs, at a small size."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from twofold import Ensemble
from twofold.cli.example import write_example

ROOT = Path(__file__).parents[2]
METHOD = "{'method': 'ensemble', 'updates': 20, 'members': 2}"
SMALL = f"random_state=0, inference={METHOD}, n_latent_draws=10"


def blocks(page: str) -> list[str]:
    """The Python code of a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)


def run(page: str, changes: dict[str, str], names: dict | None = None) -> dict:
    """All code of a page, one block after another; every change must be made somewhere."""
    code = "\n".join(blocks(page))
    for old, new in changes.items():
        assert old in code, f"{page} has no {old!r} to make small"
        code = code.replace(old, new)
    names = {} if names is None else names
    exec(compile(code, page, "exec"), names)
    return names


@pytest.mark.filterwarnings("ignore")
def test_quick_start(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_example("oven", tmp_path)
    names = run("quick_start.md", {"random_state=0": SMALL})
    parts, deviation = names["parts"], names["deviation"]
    total = np.hypot(parts.epistemic, parts.aleatoric)
    np.testing.assert_allclose(total, deviation, rtol=1e-4)
    again = names["again"].predict(names["candidates"])
    np.testing.assert_allclose(again, names["mean"], rtol=1e-5)
    assert len(set(names["choose_best"](names["scores"], 5))) == 5


@pytest.mark.filterwarnings("ignore")
def test_measure_next(capsys):
    names = run("guide_measure.md", {"random_state=0": SMALL})
    assert len(set(names["one_by_one"])) == len(set(names["together"])) == 5
    assert names["one_by_one"][0] == names["together"][0]
    assert "of the variance" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_policy_from_a_log(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("policy", ROOT / "examples/policy.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    monkeypatch.chdir(tmp_path)
    example.write(Path("tank.csv"), runs=8, minutes=40)
    small = "settings=small, regressor=fit, verbose=False"
    names = run(
        "guide_policy.md",
        {"settings=SearchSettings(horizon=30)": small},
        {"small": example.SMOKE_SEARCH, "fit": example.SMOKE_MODEL},
    )
    action = names["policy"].act(names["episode"].observations[-6:], names["episode"].actions[-5:])
    assert 0.0 <= action[0] <= 6.0 and 0.0 <= action[1] <= 1.0
    assert (tmp_path / "tank_policies/report.html").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_reproduce_and_extend():
    small = {'inference="alpha", random': 'inference={"method": "alpha", "epochs": 2}, random'}
    names = run("guide_research.md", small)
    split = names["split"]
    np.testing.assert_allclose(split.total, split.epistemic + split.aleatoric, rtol=1e-4)
    # Half of the draws come from each fit.
    key = names["jax"].random.key(1)
    drawn = names["posterior"].sample(key, 10).weights
    first = names["fits"][0].posterior_.sample(names["jax"].random.split(key, 2)[0], 5).weights
    np.testing.assert_allclose(drawn[:5], first)
    assert names["by_gaussian"].total.shape == (5,)
    assert names["log"].transitions == 1000


def test_the_estimator_of_the_guide_knows_a_gaussian(rng):
    code = next(block for block in blocks("guide_research.md") if "def gaussian" in block)
    names = {"jnp": np}
    exec(code.partition("by_gaussian")[0], names)
    samples = rng.normal(0.0, 3.0, (200_000, 1))
    entropy = 0.5 * np.log(2.0 * np.pi * np.e * 9.0)
    # The standard error is √½ / √200,000, below 0.002.
    assert names["gaussian"](samples).mean() == pytest.approx(entropy, abs=0.008)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_entropy_estimators(rng):
    from twofold import BNNLVRegressor

    X = rng.uniform(-1.0, 1.0, (40, 1))
    model = BNNLVRegressor((5,), inference=Ensemble(members=2, updates=20), random_state=0)
    run("entropy_estimators.md", {}, {"model": model.fit(X, X[:, 0]), "X": X[:3]})


@pytest.mark.filterwarnings("ignore")
def test_large_data(tmp_path, monkeypatch, rng):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    for name in ("plant", "pool"):
        columns = {"a": rng.normal(size=60), "yield": rng.normal(size=60)}
        parquet.write_table(pyarrow.table(columns), f"{name}.parquet")
    changes = {
        "Alpha(nodes=24, batch_size=1000)": "Alpha(nodes=2, draws=2, epochs=2)",
        "Alpha(encoder=[20], ": "Alpha(encoder=[3], epochs=2, ",
        "random_state=0": "random_state=0, n_latent_draws=10",
    }
    names = run("large_data.md", changes)
    found = parquet.read_table("split.parquet")
    assert found.num_rows == 60 and "y_epistemic_sd" in found.column_names
    assert names["model"].inference.encoder == (3,)
