"""``twofold example``: files whose next commands run, and that never replace others."""

import json
import re
import runpy
import shlex

import numpy as np
import pytest

from twofold.cli.example import CANDIDATES, EXAMPLES, MEASUREMENTS
from twofold.cli.terminal import MISTAKE
from twofold.tables import read_table

METHOD = "{'method': 'ensemble', 'members': 2, 'updates': 20}"
SMALL = {
    "fit": ["inference=ensemble", "members=2", "updates=20", "hidden_layer_sizes=[5]"],
    "policy": ["epochs=1", "updates=2", "weight_draws=4", "noise_draws=2"],
}
SMALL_MODEL = ["hidden_layer_sizes=[5]", "n_weight_draws=10", "epochs=2", "draws=5"]


def make_small(words):
    """The words with settings that take a second."""
    more = [word for one in SMALL.get(words[0], []) for word in ("--setting", one)]
    if words[0] == "policy":
        more += [word for one in SMALL_MODEL for word in ("--model", one)]
        more += ["--horizon", "3", "--no-tune"]
    return [*words, *more]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_commands_that_are_shown_run(name, command, tmp_path, monkeypatch):
    folder = tmp_path / "a folder"
    monkeypatch.chdir(tmp_path)
    code, shown, _ = command("example", name, "--out", folder)
    assert code == 0
    lines = [shlex.split(line) for line in re.findall(r"^  (\S.*)$", shown, re.M)]
    assert lines[0] == ["cd", str(folder)] and len(lines) > 1
    monkeypatch.chdir(lines[0][1])
    for program, *words in lines[1:]:
        if program == "python":
            (script,) = words
            text = (folder / script).read_text()
            assert 'inference="ensemble"' in text
            (folder / script).write_text(text.replace('"ensemble"', METHOD))
            runpy.run_path(script)
            assert (folder / "toy.png").stat().st_size > 10_000
        else:
            code, _, said = command(*make_small(words))
            assert program == "twofold" and code == 0, said


def test_an_oven_is_noisy_where_it_is_hot_and_was_seldom_measured(command, tmp_path):
    assert command("example", "oven", "--out", tmp_path)[0] == 0
    oven, others = (read_table(tmp_path / name) for name in ("oven.csv", "candidates.csv"))
    assert (len(oven), len(others)) == (MEASUREMENTS, CANDIDATES)
    assert oven.names[:2] == others.names
    values, _ = oven.values(oven.names, False)
    hot = values[:, 0] > 210
    assert 10 < hot.sum() < 0.4 * MEASUREMENTS
    # What a polynomial of the settings leaves is noise.
    heat, minutes = (values[:, :2] - [150, 5]).T / [[100], [35]]
    terms = np.stack([heat**i * minutes**j for i in range(3) for j in range(3)], axis=1)
    left = values[:, 2] - terms @ np.linalg.lstsq(terms, values[:, 2])[0]
    assert left[hot].std() > 2 * left[~hot].std()


def test_files_that_are_there_stay(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command("example", "tank")[0] == 0
    before = (tmp_path / "tank.csv").read_bytes()
    code, shown, _ = command("example", "tank", "--json")
    assert code == 0 and json.loads(shown)["files"] == ["tank.csv", "cost.py"]
    assert (tmp_path / "tank.csv").read_bytes() == before, "always the same numbers"
    (tmp_path / "cost.py").write_text("mine")
    (tmp_path / "tank.csv").unlink()
    code, shown, said = command("example", "tank")
    assert code == MISTAKE and shown == "" and "cost.py exists" in said and "--force" in said
    assert (tmp_path / "cost.py").read_text() == "mine" and not (tmp_path / "tank.csv").exists()
    assert command("example", "tank", "--force")[0] == 0
    assert "def cost" in (tmp_path / "cost.py").read_text()


def test_examples_are_listed_and_wrong_names_are_refused(command, tmp_path):
    code, shown, _ = command("example")
    assert code == 0 and all(name in shown for name in EXAMPLES)
    code, _, said = command("example", "ovn")
    assert code == MISTAKE and "oven, tank, toy" in said and "did you mean 'oven'?" in said
    (tmp_path / "file").touch()
    code, _, said = command("example", "oven", "--out", tmp_path / "file")
    assert code == MISTAKE and "--out must be a folder" in said
