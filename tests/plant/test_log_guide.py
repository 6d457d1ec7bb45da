"""The guide's code runs, and so does the example."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from twofold.plant.log_files import SENTENCES

ROOT = Path(__file__).parents[2]


@pytest.fixture
def example():
    spec = importlib.util.spec_from_file_location("own_system", ROOT / "examples/own_system.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore")
def test_the_code_of_the_guide_runs(example, tmp_path, monkeypatch, capsys):
    pytest.importorskip("minari")
    monkeypatch.chdir(tmp_path)
    example.write(Path("tank.csv"), runs=10, minutes=100)
    text = (ROOT / "docs/own_system.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 6
    names = {}
    for block in blocks:
        exec(block.replace("epochs=600", "epochs=2"), names)
    said = capsys.readouterr().out
    # The guide shows the findings of the example's log; only the number of rows differs.
    lines = re.findall(r"^  - (\w+): (.*?)(?:; …)?$", text, re.MULTILINE)
    assert len(lines) == 6
    for severity, sentence in lines:
        assert f"{severity}: tank.csv: {sentence.replace('5,993', '993')}" in said
    assert names["log"].transitions == names["again"].transitions > 800


def test_the_kinds_of_the_guide_are_those_that_are_found():
    text = (ROOT / "docs/own_system.md").read_text()
    table = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| ([^|]*)\|", text, re.MULTILINE))))
    assert table == set(SENTENCES)


def test_the_example_runs_and_draws(tmp_path):
    words = [ROOT / "examples/own_system.py", "--smoke", "--output", tmp_path]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "6 faults found" in done.stdout
    assert "linear regression" in done.stdout
    assert (tmp_path / "own_system.png").stat().st_size > 20_000
