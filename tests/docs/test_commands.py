"""Every command on the pages exists; those of the README and the guides run, at a small size."""

import csv
import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from scripts import check_docs
from scripts.check_docs import PAGES, ROOT, shell_lines
from twofold.cli import app as cli

MODEL = ("hidden_layer_sizes=[5]", "n_weight_draws=10", "n_latent_draws=10")
QUICK = ("inference=ensemble", "members=2", "updates=20")
SEARCH = ("epochs=1", "updates=2", "weight_draws=4", "noise_draws=2")


def options(name, values):
    return [word for value in values for word in (f"--{name}", value)]


# What makes a command small, by its first words; examples may replace files of the workplace.
SMALL = {
    ("example",): ["--force"],
    ("fit",): options("setting", [*MODEL, *QUICK]),
    ("campaign", "init"): options("setting", [*MODEL, *QUICK]),
    ("campaign", "refit"): ["--executor", "local"],
    ("policy", "search"): [
        *options("setting", SEARCH), *options("model", [*MODEL, "epochs=2", "draws=5"]),
        "--horizon", "3",
    ],
    ("env", "sample"): ["--transitions", "200"],
}  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_on_pages_exist(page):
    assert check_docs.failed_commands(page) == []


@pytest.mark.parametrize(
    "line",
    [
        "twofold fits oven.csv",
        "twofold fit --targets yield",
        "make demos",
        "make reproduce WHAT=table_9",
        "python -m paper table_9",
        "python -m benchmarks.nothing",
        "python benchmarks/suite.py --nothing",
    ],
)
def test_a_command_that_does_not_exist_is_found(line, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"```sh\n{line}\n```")
    assert len(check_docs.failed_commands(page)) == 1


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder with the files that the pages speak of."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    heat, minutes = rng.uniform(150.0, 250.0, 60), rng.uniform(5.0, 40.0, 60)
    oven = {"heat": heat, "minutes": minutes}
    measured = oven | {"yield": 0.2 * heat + minutes + rng.normal(size=60)}
    write_csv("oven.csv", {name: column[:50] for name, column in measured.items()})
    write_csv("new.csv", {name: column[50:] for name, column in measured.items()})
    write_csv("candidates.csv", {name: column[:8] for name, column in oven.items()})
    plant = pyarrow.table(oven | {"yield": heat})
    for name in ("plant.parquet", "pool.parquet"):
        pyarrow.parquet.write_table(plant, name)
    write_tank(rng)
    return tmp_path


def write_csv(path, columns):
    table = np.column_stack(list(columns.values()))
    np.savetxt(path, table, delimiter=",", header=",".join(columns), comments="", fmt="%.6g")


def write_tank(rng, runs=6, steps=30):
    """A tank that is heated and drawn from, its cost, and its last minutes."""
    heater, temperature = 3.0, 40.0
    rows = []
    for run in range(runs):
        for minute in range(steps):
            power, valve = rng.uniform(0.5, 6.0), rng.uniform(0.2, 0.8)
            rows.append([run, minute, minute, temperature, heater, power, valve])
            heater += np.clip(power - heater, -0.5, 0.5)
            temperature += 0.4 * heater - (0.012 + 0.08 * valve) * (temperature - 15.0)
            temperature += 0.1 * rng.normal()
    names = "run", "minute", "time", "temperature", "heater", "power", "valve"
    columns = dict(zip(names, np.array(rows).T, strict=True))
    write_csv("tank.csv", columns)
    write_csv("recent.csv", {name: column[-10:] for name, column in columns.items()})
    Path("tank.py").write_text(
        "import jax.numpy as jnp\n\n"
        "def cost(row):\n    return jnp.square(row['temperature'] - 55.0) + row['valve']\n\n"
        "def known(now, action):\n"
        "    change = jnp.clip(action['power'] - now['heater'], -0.5, 0.5)\n"
        "    return {'heater': now['heater'] + change}\n"
    )


def fill_in(path):
    """Results for the proposals in a table."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    for index, row in enumerate(rows):
        row["yield"] = str(0.5 + 0.1 * index)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def run_command(words, monkeypatch, capsys):
    """Run ``twofold`` in this process; it must succeed."""
    monkeypatch.setattr("sys.argv", list(words))
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code, f"{shlex.join(words)}\n{capsys.readouterr().err}"


def measure(place, *tools):
    """Small settings, and results enough for a model."""
    run_command(["twofold", "campaign", "configure", place, *MODEL, *QUICK], *tools)
    rows = [f"{20 + 5 * i},{'citric' if i % 2 else 'lactic'},{0.1 * i}" for i in range(12)]
    Path("measured.csv").write_text("\n".join(["heat,acid,yield", *rows]))
    run_command(["twofold", "campaign", "tell", place, "--table", "measured.csv"], *tools)


def run_page(page, *tools, verbs=r"\w+"):
    """Run the commands of a page in order; returns their lines."""
    lines = [line for line in shell_lines(page) if re.match(f"twofold (?:{verbs}) ?", line)]
    # A server would not end.
    lines = [line for line in lines if not line.startswith("twofold campaign serve")]
    for line in lines:
        words = shlex.split(line, comments=True)
        small = next((SMALL[key] for n in (2, 1) if (key := tuple(words[1 : 1 + n])) in SMALL), [])
        if words[1:3] == ["campaign", "refit"]:
            for place in words[3:5]:
                measure(place, *tools)
        if "--quick" in words:  # which sets the method itself
            small = [word for at, word in enumerate(small) if QUICK[0] not in small[at : at + 2]]
        run_command([*words, *small], *tools)
        if words[1:3] == ["campaign", "ask"]:
            fill_in(Path(words[-1]))
    return lines


@pytest.mark.filterwarnings("ignore")
def test_commands_of_the_front_page_run_in_an_empty_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = run_page(ROOT / "README.md", monkeypatch, capsys, verbs="example|fit|suggest|campaign")
    assert len(lines) > 3 and (tmp_path / "oven.twofold").exists()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", ["campaigns", "large_data"])
def test_commands_of_guides_run(page, workplace, monkeypatch, capsys):
    assert len(run_page(ROOT / f"docs/{page}.md", monkeypatch, capsys)) > 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", ["README.md", "docs/quick_start.md"])
def test_commands_to_start_with_run_in_an_empty_folder(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert len(run_page(ROOT / page, monkeypatch, capsys)) > 3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_commands_of_searches_and_reports_run(workplace, monkeypatch, capsys):
    pytest.importorskip("onnx", reason="onnx is not installed (extra onnx)")
    assert len(run_page(ROOT / "docs/policies.md", monkeypatch, capsys)) > 3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_examples_of_the_reference_run(workplace, monkeypatch, capsys):
    pytest.importorskip("onnx", reason="onnx is not installed (extra onnx)")
    tools = monkeypatch, capsys
    inputs = ["--input", "heat=20..80", "--input", "acid=citric|lactic"]
    run_command(["twofold", "campaign", "init", "mill.db", *inputs, "--output", "yield"], *tools)
    lines = run_page(ROOT / "docs/cli.md", *tools)
    assert len({tuple(line.split()[1:3]) for line in lines}) > 15
