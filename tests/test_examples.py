"""The examples run at smoke size, and their pages show what they print at full size.

``own_system`` runs in ``logs/test_guide.py``, beside its guide.
"""

import re
import runpy
import warnings
from pathlib import Path

import pytest

from twofold.campaign import Campaign
from twofold.plant.project import open_project

ROOT = Path(__file__).parents[1]
NAMES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))


@pytest.fixture
def run(monkeypatch, capsys):
    """``run(name, folder)``: what an example prints."""

    # The settings of this process's compile cache stay as they are.
    monkeypatch.setattr("twofold.core.sharding.enable_compile_cache", lambda: None)

    def call(name, folder):
        monkeypatch.setattr("sys.argv", [f"{name}.py", "--smoke", "--output", str(folder)])
        with warnings.catch_warnings():
            runpy.run_path(str(ROOT / f"examples/{name}.py"))["main"]()
        return capsys.readouterr().out

    return call


def assert_drawn(figure):
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert figure.stat().st_size > 20_000


@pytest.mark.slow
def test_regression_is_scored_beside_others_and_split(run, tmp_path):
    said = run("regression", tmp_path)
    scores = {
        name.strip(): (float(density), float(error))
        for name, density, error in re.findall(
            r"^(.{20}) *(-?[\d.]+) ± [\d.]+ +([\d.]+)(?: +\d+%)? *$", said, re.MULTILINE
        )
    }
    twofold = "twofold, default", "twofold, α = 1"
    assert set(scores) == {*twofold, "linear regression", "Gaussian process"}
    # The patients and the split are always the same, so these two do not change.
    assert scores["linear regression"] == pytest.approx((-5.436, 55.5), abs=0.01)
    assert scores["Gaussian process"] == pytest.approx((-5.449, 55.9), abs=0.1)
    assert len(re.findall(r"^twofold, .* \d+%$", said, re.MULTILINE)) == 2
    assert re.search(r"[\d.]+ nats on average, more data could remove [\d.]+", said)
    assert len(re.findall(r"epistemic ± \d+, aleatoric ± \d+; measured \d+", said)) == 6
    assert_drawn(tmp_path / "regression.png")


@pytest.mark.slow
def test_hmc_is_compared_with_three_others(run, tmp_path):
    said = run("hmc", tmp_path)
    rows = re.findall(r"^(\S.{15}) *(-?[\d.]+) +([\d.]+) +(-?[\d.]+) +(\d+)$", said, re.MULTILINE)
    assert [row[0].strip() for row in rows] == ["HMC (NUTS)", "Langevin", "ensemble", "α = 1", "VB"]
    assert all(-1.0 <= float(rank) <= 1.0 and float(apart) > 0.0 for _, rank, apart, *_ in rows)
    assert "effective sample size" in said
    assert_drawn(tmp_path / "hmc.png")


def test_a_sampler_of_ones_own_is_split_for_three_data_sets_at_once(run, tmp_path):
    said = run("bring_your_own", tmp_path)
    rows = re.findall(r"^ +(\d+) +([\d.]+) +([\d.]+)$", said, re.MULTILINE)
    assert [int(size) for size, *_ in rows] == [15, 60, 240]
    assert all(float(aleatoric) > 0.0 for *_, aleatoric in rows)
    # Of 10 sin x or 10 cos x, seen through noise of deviation 1.
    assert re.search(r"^true process +0.00 +4.12$", said, re.MULTILINE)
    assert_drawn(tmp_path / "bring_your_own.png")


def test_the_campaign_runs_goes_on_and_draws(run, tmp_path):
    for line in ("24 measurements", "resuming"):
        said = run("campaign", tmp_path)
        assert line in said
        assert re.search(r"noise, root mean square: [\d.]+ % points; estimated", said)
    assert Campaign.open(tmp_path / "smoke.db").status().measurements == 24
    assert_drawn(tmp_path / "smoke.png")


@pytest.mark.slow
def test_policies_are_found_and_tried(run, tmp_path):
    said = run("policy", tmp_path)
    assert "is recommended: it has" in said and "the operators" in said
    assert len(re.findall(r"^  β = .* ± .*the model expected", said, re.MULTILINE)) == 4
    assert open_project(tmp_path / "tank_smoke_policies").trials[-1].risk_weights == (10.0, 0.0)
    assert_drawn(tmp_path / "tank_smoke_policies.png")


def test_the_examples_are_those_that_are_rendered():
    assert NAMES == ["bring_your_own", "campaign", "hmc", "own_system", "policy", "regression"]
    index = (ROOT / "docs/examples/index.md").read_text()
    assert sorted(re.findall(r"\((\w+)\.md\) \| `python examples/\1\.py`", index)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_page_shows_its_script_output_and_figure(name):
    page = (ROOT / f"docs/examples/{name}.md").read_text()
    assert f"```sh\npython examples/{name}.py\n```" in page
    assert f'--8<-- "examples/{name}.py"' in page
    shown = re.search(
        rf"<!-- output: {name} -->\n```text\n(.+?)```\n<!-- end output -->", page, re.S
    )
    assert shown and "wrote demo-output/" in shown[1]
    assert f"](../images/example_{name}.png)" in page
    assert 20_000 < (ROOT / f"docs/images/example_{name}.png").stat().st_size < 200_000


def test_a_shared_model_predicts_the_same(run, tmp_path):
    said = run("interop/share_model", tmp_path)
    here, there = re.search(r"median here (\S+), from the file (\S+)", said).groups()
    assert here == there and (tmp_path / "shared.twofold").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("scikit_learn", r"best settings: .*hidden_layer_sizes[^$]*held out: CRPS [\d.]+"),
        ("gymnasium_loop", r"mean reward per step: random -[\d.]+, policy -[\d.]+"),
        ("minari_d3rlpy", r"twofold/wet-chicken-v0: 200 transitions in 4 episodes"),
    ],
)
def test_other_libraries(name, words, run, tmp_path):
    pytest.importorskip("minari", reason="minari is not installed (extra rl)")
    assert re.search(words, run(f"interop/{name}", tmp_path))


@pytest.mark.parametrize("name", NAMES)
def test_a_script_says_what_it_answers_and_how_it_is_called(name):
    text = (ROOT / f"examples/{name}.py").read_text()
    first, _, command = text.splitlines()[:3]
    assert first.startswith('"""') and first.endswith("?")
    assert command == f"    python examples/{name}.py [--smoke] [--output FOLDER]"
    assert text.endswith('\n\nif __name__ == "__main__":\n    main()\n')
