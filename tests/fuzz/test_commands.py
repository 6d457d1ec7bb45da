"""Any words after ``twofold``: done, or one sentence and exit code 2; never a fault of its own."""

import shutil

import numpy as np
import pytest
import typer
from hypothesis import strategies as st

from twofold.campaign import Campaign, Continuous
from twofold.cli import app as cli
from twofold.cli import models
from twofold.cli.models import About
from twofold.cli.run import hash_files
from twofold.core.numerics import Standardizer
from twofold.model import network
from twofold.plant.columns import Transform
from twofold.plant.embedding import Embedding
from twofold.plant.policy import LearnedPolicy, PolicyNetwork
from twofold.tables.coding import Column

# What a word of the user's would start in earnest: a browser, or hours of work.
LEFT_OUT = ("--open", "--install-completion", "--show-completion", "--minari")
FILES = (
    "table.csv", "model", "campaign.db", "rule.policy", "empty", "folder", "no/such", "ünï ☃.csv",
    "out.csv", "out.parquet", "out.html", "out.onnx", "cost.py", "broken.csv", "config.toml",
    "record.json",
)  # fmt: skip
VALUES = (
    "", " ", "0", "1", "-1", "2", "3.5", "nan", "inf", "1e999", "a", "a,b", "y", "a,y", ",", "=",
    "a=", "=1", "a=1", "y=nan", "y=0.5", "a=0..1", "a=1..0", "a=x|y", "a=0..1:int", "a:0:1",
    "a:1:0",
    "chains=2", "chains=-1", "chains=x", "draws=99999999999999", "hidden_layer_sizes=[[]]", "☃",
    "\ud800", "-n", "--", "99999999999999999999", "cost.py:cost", "cost.py:nothing", "x" * 5000,
    "sqlite://", "postgresql://nobody@nowhere:1/x", "nonsense://", "list", "wet_chicken", "tank",
    "entropy", "variance", "proposal=1", "measurement=x", "beta=1", "uniform", "[", "{", "a=[1",
)  # fmt: skip
# Always said too, so that what is right is soon done.
SHORT = {
    "fit": ["--setting", "inference=ensemble", "--setting", "updates=20",
            "--setting", "members=2", "--setting", "nodes=2",
            "--setting", "hidden_layer_sizes=[3]", "--setting", "n_latent_draws=3"],
    "env sample": ["--transitions", "1"],
}  # fmt: skip


def commands():
    """Every command with its options; those that start hours of work are tried with ``--help``."""
    found = {}

    def walk(command, words):
        if hasattr(command, "commands"):
            for name, one in command.commands.items():
                walk(one, [*words, name])
        else:
            options = [one for param in command.params for one in param.opts]
            found[" ".join(words)] = [one for one in options if one not in LEFT_OUT]

    walk(typer.main.get_command(cli.app), [])
    return found


COMMANDS = commands()
EARNEST = ("doctor", "reproduce")


@pytest.fixture(scope="module")
def home(tmp_path_factory, tiny, data, fitted):
    """A folder with a file of every kind."""
    folder = tmp_path_factory.mktemp("home")
    rows = np.column_stack([*data])
    text = "a,b,y\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    for name in ("table.csv", "ünï ☃.csv"):
        (folder / name).write_text(text)
    (folder / "broken.csv").write_bytes(b"a,b\n1,2,3\n\xff")
    (folder / "empty").touch()
    (folder / "folder").mkdir()
    (folder / "cost.py").write_text("def cost(row):\n    return row['a']\n")
    (folder / "config.toml").write_text("[fit]\ntarget = 'y'\n")
    (folder / "record.json").write_text("{}")
    low, high = data[0].min(axis=0).tolist(), data[0].max(axis=0).tolist()
    digest = hash_files(folder / "table.csv")
    columns = [Column(name, low=a, high=b) for name, a, b in zip("ab", low, high, strict=True)]
    about = About(columns, ["y"], [("table.csv", digest)], 0.0, 0, False)
    models.save_model(folder / "model", fitted, about)
    small = tiny | {"hidden_layer_sizes": [3]}
    campaign = Campaign.create(
        folder / "campaign.db", [Continuous("a", 0, 1)], ["y"], settings=small
    )
    for number in range(8):
        campaign.tell({"y": float(number)}, point={"a": number / 8})
    campaign.ask(1)
    embedding = Embedding(("a",), ("b",), (2,), (0,), ("a",), (), (Transform(),))
    shape = PolicyNetwork(2, (3,), (0.0,), (1.0,))
    weights = np.ones(network.num_weights(shape.sizes), np.float32)
    scale = Standardizer(np.zeros(2, np.float32), np.ones(2, np.float32))
    LearnedPolicy(embedding, shape, scale, weights, 1.0, 0.0, 0, {}).save(folder / "rule.policy")
    return folder


@st.composite
def lines(draw):
    """A command line: a command, files where files go, real options, odd values."""
    name = draw(st.sampled_from(sorted(COMMANDS)))
    value = st.one_of(st.sampled_from(FILES), st.sampled_from(VALUES), st.text(max_size=4))
    words = draw(st.lists(value, max_size=3))
    for option in draw(st.lists(st.sampled_from(COMMANDS[name] or ["--help"]), max_size=4)):
        words += [option, draw(value)] if draw(st.integers(0, 4)) else [option]
    if name in EARNEST:
        words = [word for word in words if word not in ("", *VALUES)] + ["--no-such-option"]
    likely = {
        "fit": ["table.csv", "--target", "y", "--out", "new"],
        "decompose": ["model", "table.csv"],
        "suggest": ["model", "table.csv"],
        "report": ["model"],
        "policy act": ["rule.policy", "table.csv"],
    }.get(name, ["campaign.db"] if name.startswith("campaign") else [])
    words = [*likely, *words] if draw(st.booleans()) else words
    return [*name.split(), *words, *SHORT.get(name, [])]


@pytest.mark.examples(40, 800)
def test_any_words(fuzz, home, tmp_path, monkeypatch, run_command):
    work = tmp_path / "work"

    @fuzz.given(lines())
    def check(line):
        words = line
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(home, work)
        monkeypatch.chdir(work)
        before = {path: path.read_bytes() for path in work.rglob("*") if path.is_file()}
        with fuzz.case():
            code, out, err = run_command(words)
            if code not in (0, 2, 3):
                raise RuntimeError(f"exit code {code} of {words}: {err[-2000:]}")
        fuzz.counts["refused"] += code != 0
        assert "Traceback" not in err, err
        if code:
            assert not out, f"stdout of {words} that failed: {out}"
            assert err.strip(), f"nothing was said of {words}"
            if any(path.read_bytes() != content for path, content in before.items()):
                fuzz.lost(f"{words} failed and has changed a file")
