"""Policies at the command line, from a CSV file to actions."""

import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

from twofold.cli import app as cli
from twofold.cli.spelling import as_typed
from twofold.cli.terminal import MISTAKE, build_regressor
from twofold.estimators.training import StoppedFit
from twofold.plant.policy import load_policy
from twofold.plant.project import open_project, planning_regressor

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

FUNCTIONS = """
import jax.numpy as jnp

def cost(row):
    return (row["level"] - 2.0) ** 2

def known(now, action):
    return {"pump": action["flow"]}

def wild(row):
    return jnp.log(row["level"] - 100.0)

def listed(row):
    return jnp.stack([row["level"]])

def nothing(row):
    row["level"] ** 2

def failing(row):
    return row["level"] / 0 * (1 / 0)

def steep(row):
    return jnp.sqrt(jnp.maximum(row["level"] - 1.0, 0.0))

def idle(row):
    return 1.0

constant = 3.0
"""
SMALL = [
    "--no-tune",
    *("--setting", "epochs=1", "--setting", "updates=2", "--setting", "weight_draws=3"),
    *("--setting", "noise_draws=2", "--setting", "hidden=[5]", "--model", "epochs=2"),
    *("--model", "hidden_layer_sizes=[4]", "--model", "draws=4", "--model", "n_weight_draws=8"),
]


@pytest.fixture
def twofold(monkeypatch, capsys):
    """Run a command; returns exit code, stdout and stderr."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["twofold", "policy", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        shown = capsys.readouterr()
        return stopped.value.code or 0, shown.out, shown.err

    return run


@pytest.fixture
def place(tmp_path, monkeypatch, rng):
    """A folder with a log of six runs and a file of functions, to stand in."""
    lines = ["run,t,level,pump,flow"]
    for run in range(6):
        level, flow = rng.normal(), 0.0
        for step in range(15):
            pump, flow = flow, rng.uniform(0.0, 2.0)
            lines.append(f"{run},{step},{level:.4f},{pump:.4f},{flow:.4f}")
            level = 0.8 * level + 0.5 * flow + 0.1 * rng.normal()
            flow = round(flow, 4)
    (tmp_path / "tank.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "tank.py").write_text(FUNCTIONS)
    (tmp_path / "broken.py").write_text("import nothing_of_this_name\n")
    (tmp_path / "empty.csv").write_text("run,t,level,pump,flow\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def words(*more, log="tank.csv", observations="level,pump", action="flow:0:2", **options):
    given = {"cost": "tank.py:cost", "episode": "run", "time": "t", "out": "tank"} | options
    given |= {"observations": observations, "action": action}
    return ["search", log, *(w for n, v in given.items() for w in (f"--{n}", str(v))), *more]


def test_a_quick_search_is_shorter_unless_it_is_told_otherwise(twofold, place, monkeypatch):
    seen, tuned = [], []

    def find(log, cost, folder, *, regressor, risk_weights, settings, tuning, **_):
        seen.append((regressor.inference, risk_weights, settings))
        tuned.append(tuning)
        raise ValueError("seen")

    monkeypatch.setattr("twofold.plant.project.find_policies", find)
    told = ["--quick", "--no-tune", "--setting", "starts=3", "--model", "epochs=7"]
    for more in ([], ["--quick"], told):
        code, _, said = twofold(*words(*more))
        assert code == MISTAKE and ("one to two minutes" in said) == ("--quick" in more)
    (slow, pairs, long), (quick, few, short), (told, _, own) = seen
    assert len(few) < len(pairs) and few[0] == pairs[0] == (0.0, 0.0) and few[-1] == pairs[-1]
    assert short.epochs < long.epochs and short.weight_draws < long.weight_draws
    updates = quick.epochs * 80 / quick.batch_size
    assert 14_000 < updates < 16_000 and slow.epochs is None and quick.draws < slow.draws
    assert tuned[2] is None and tuned[1].epochs < tuned[0].epochs
    assert told.epochs == 7 and own.starts == 3 and own.epochs == short.epochs


def test_from_a_log_to_an_action(twofold, place):
    options = {"known": "tank.py:known", "history": 2, "horizon": 3, "beta": "0,2"}
    code, shown, said = twofold(*words(*SMALL, "--transform", "level=logit", **options))
    assert code == 0, said
    found = open_project("tank")
    first = shown.splitlines()[0]
    assert ("is recommended" in first) is (found.recommended is not None)
    assert "wrote tank/report.html" in shown
    assert [one.risk_weights for one in found.trials] == [(0.0, 0.0), (2.0, 0.0)]
    assert "level" in (place / "tank/report.html").read_text()

    (place / "tank/report.html").unlink()
    code, shown, _ = twofold("report", "tank")
    assert code == 0 and first in shown and (place / "tank/report.html").exists()
    content = json.loads(twofold("report", "tank", "--json")[1])
    assert content["headline"] == first and (content["recommended"] is None) == ("Keep" in first)

    file = "tank/policies/beta-2_gamma-0.policy"
    policy = load_policy(file)
    rows = np.genfromtxt("tank.csv", delimiter=",", skip_header=1)[:6]
    expected = policy.act(rows[:, 2:4], rows[:-1, 4:])
    recent = (place / "tank.csv").read_text().splitlines()[:7]
    recent[-1] = recent[-1].rpartition(",")[0] + ","  # what is set next is not known yet
    (place / "recent.csv").write_text("\n".join(recent))
    code, shown, _ = twofold("act", file, "recent.csv", "--json")
    assert code == 0 and json.loads(shown) == {"flow": pytest.approx(expected[0])}
    code, shown, _ = twofold("act", file, "recent.csv")
    assert code == 0 and f"{expected[0]:.6g}" in shown and "flow" in shown

    pytest.importorskip("onnx", reason="onnx is not installed (extra onnx)")
    code, shown, _ = twofold("export", file, "tank.onnx")
    assert code == 0 and (place / "tank.onnx").stat().st_size > 100

    before = (place / "tank/project.json").read_bytes()
    code, _, said = twofold(*words(*SMALL, **options | {"horizon": 4}, seed=0))
    assert code == MISTAKE and "belongs to another run" in said and "horizon was 3" in said
    assert (place / "tank/project.json").read_bytes() == before


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (words(log="nowhere.csv"), "nowhere.csv"),
        (words(log="empty.csv"), "has a heading but no rows"),
        (words(observations="levl,pump"), "no column 'levl'"),
        (words(action="valve:0:1"), "no column 'valve'"),
        (words(action="flow:0"), "--action must be NAME:LOW:HIGH, got 'flow:0'"),
        (words(action="flow:2:0"), "low < high"),
        (words(action="flow:0:1"), "--mend clip_actions"),
        (words(cost="tank.py"), "--cost must be FILE.py:FUNCTION"),
        (words(cost="nowhere.py:cost"), "there is no Python file nowhere.py"),
        (words(cost="tank.py:costs"), "has no function 'costs'; did you mean 'cost'?"),
        (words(cost="tank.py:constant"), "has no function 'constant'"),
        (words(cost="broken.py:cost"), "broken.py fails: ModuleNotFoundError"),
        (words(cost="tank.py:wild"), "tank.py:10: cost(row) must be finite, got nan"),
        (words(cost="tank.py:listed"), "tank.py:13: cost(row) must return one number"),
        (
            words(cost="tank.py:nothing"),
            "tank.py:16: cost(row) must return one number per row, got N",
        ),
        (words(cost="tank.py:failing"), "tank.py:20: cost(row) failed with ZeroDivisionError"),
        (words(cost="tank.py:steep"), "tank.py:22: the gradient of cost(row) is not finite near"),
        (words(**{"date-order": "back"}), "'--date-order'"),
        (words(known="tank.py:cost"), "known(observation, action)"),
        (words(history=0), "history must be a whole number"),
        (words(history=40), "a shorter history"),
        (words(horizon=0), "horizon must be an integer of at least 1, got 0"),
        (words(beta="much"), "--beta must be numbers such as 0,1,2, got 'much'"),
        (words(beta="-1"), "must be finite and at least 0"),
        (words(mend="sorted"), "there is no option 'sorted'"),
        (words(transform="level"), "expected NAME=VALUE, got 'level'"),
        (words(transform="level=log"), "a transform is one of"),
        (words(held="valve"), "held 'valve' is not one of the observations (level, pump)"),
        (words("--quick", exogenous="flow"), "'flow' is not one of the observations (level, pump)"),
        (words(exogenous="level,pump"), "all observations are held, exogenous or known"),
        (words("--max-rate", "pump=1"), "'pump' is not one of the actions (flow)"),
        (words(setting="epoch=3"), "got 'epoch'; did you mean 'epochs'?"),
        (words(setting="epochs=many"), "epochs must be an integer of at least 1, got 'many'"),
        (words(setting="hidden=20"), "hidden must be"),
        (words(setting="clip=0"), "clip must be a positive number"),
        (words(setting="noise_draws=1"), "noise_draws must be at least 2"),
        (words(model="epochs=0"), "epochs must be an integer of at least 1, got 0"),
        (words(model="layers=3"), "got 'layers'"),
        (words(seed=-1), "Invalid value for '--seed'"),
        (words(out="tank.csv"), "is not empty and has no project.json"),
        (words(out="."), "is not empty and has no project.json"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_mistakes_are_one_sentence_and_change_nothing(twofold, place, given, message):
    before = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
    code, _, said = twofold(*given)
    assert code == MISTAKE and message in said and "Traceback" not in said
    assert "minutes" not in said  # an estimate of what will not happen
    files = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
    assert files == before and not (place / "tank").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["report", "."], "it has no project.json"),
        (["act", "nowhere.policy", "tank.csv"], "there is no nowhere.policy"),
        (["act", "tank.csv", "tank.csv"], "expected tank.csv to be a twofold policy"),
        (["export", "nowhere.policy", "a.onnx"], "there is no nowhere.policy"),
    ],
)
def test_files_that_are_not_what_they_should_be(twofold, place, given, message):
    code, _, said = twofold(*given)
    assert code == MISTAKE and message in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("level,flow\n1,1\n", "last 2 rows, recent.csv has 1"),
        ("level,flow\n1,1\nbad,1\n", "'level' must be numbers, got 'bad'"),
        ("level,flow\n1,1\n,1\n", "'level' must be finite"),
        ("level\n1\n2\n", "no column 'flow'"),
        ("volume,flow\n1,1\n2,2\n", "no column 'level'"),
    ],
)
def test_recent_rows_that_a_policy_cannot_act_on(twofold, tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    small_policy().save("a.policy")
    (tmp_path / "recent.csv").write_text(text)
    code, _, said = twofold("act", "a.policy", "recent.csv")
    assert code == MISTAKE and message in said and said.count("\n") == 1


def small_policy():
    """It sees two levels and the flow between them, and not the pump."""
    from twofold.core.numerics import Standardizer
    from twofold.plant.columns import Transform
    from twofold.plant.embedding import Embedding
    from twofold.plant.policy import LearnedPolicy, PolicyNetwork

    embedding = Embedding(
        ("level", "pump"), ("flow",), (2, 0), (2,), ("level",), (), (Transform(),) * 2
    )
    shape = PolicyNetwork(3, (), (0.0,), (2.0,))
    return LearnedPolicy(
        embedding, shape, Standardizer(np.zeros(3), np.ones(3)), np.array([0.1, -0.2, 0.3, 0.4])
    )


def test_what_a_policy_does_not_see_may_be_absent(twofold, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_policy().save("a.policy")
    (tmp_path / "recent.csv").write_text("level,flow\n9,9\n1,0.5\n2,\n")
    code, shown, _ = twofold("act", "a.policy", "recent.csv", "--json")
    expected = 1.0 + np.tanh(0.1 * 1 - 0.2 * 2 + 0.3 * 0.5 + 0.4)
    assert code == 0 and json.loads(shown)["flow"] == pytest.approx(expected, rel=1e-5)


def test_one_run_and_a_constant_cost_give_an_answer_without_a_note_of_matplotlib(twofold, place):
    lines = (place / "tank.csv").read_text().splitlines()[:16]
    (place / "one.csv").write_text("\n".join(lines))
    options = {"log": "one.csv", "cost": "tank.py:idle", "horizon": 3, "beta": "0,2"}
    code, shown, said = twofold(*words(*SMALL, **options))
    assert code == 0, said
    assert "ylim" not in said
    assert shown.startswith("Keep the present controller: no policy found is expected to be better")
    content = json.loads(twofold("report", "tank", "--json")[1])
    assert content["recommended"] is None and content["headline"] in shown
    sentence, _, reason = content["headline"].partition(": ")
    page = (place / "tank/report.html").read_text()
    assert f"{sentence}.</p>" in page and f"<p>{reason[0].upper()}{reason[1:]}</p>" in page


FAULTS = {
    "text": ({4: ("level", "n.a. 5"), 5: ("level", "it's")}, 2),
    "missing": ({4: ("level", "")}, 1),
    "sentinel": ({4: ("level", "1e30")}, 2),
    "far": ({4: ("level", "-5e20")}, 2),
    "unsorted": ({4: ("t", "4.5"), 5: ("t", "4.2")}, 1),
    "duplicate": ({4: ("t", "3")}, 2),
    "gap": ({14: ("t", "30")}, 1),
    "out_of_bounds": ({4: ("flow", "7")}, 1),
    "dates": ({row: ("t", f"01/{row % 15 + 2:02d}/2025") for row in range(10)}, 1),
}


def test_exogenous_columns_rates_and_limits_reach_the_search(twofold, place):
    options = [*SMALL, "--exogenous", "pump", "--max-rate", "flow=0.25", "--limit", "level:0:2.5"]
    code, _, err = twofold(*words(*options, out="found", horizon=3))
    assert code == 0, err
    assert "pump" not in "".join(json.loads(Path("found/quality.json").read_text())["targets"])
    policy = load_policy(next(Path("found/policies").glob("*.policy")))
    assert policy.shape.rates == (0.25,) and policy.sees_actions
    seen = np.array([[1.0, 1.0], [3.0, 2.0]])
    assert abs(policy.act(seen, np.array([[1.0]])) - 1.0) <= 0.25 + 1e-6
    for option, text, message in (
        ("--max-rate", "flow=fast", "--max-rate takes NAME=VALUE"),
        ("--limit", "level:2", "--limit must be NAME:LOW:HIGH"),
        ("--limit", "level:2:1", "need low < high"),
        ("--limit", "lvel:0:1", "'lvel' is not one of the observations"),
        ("--exogenous", "lvel", "lvel"),
    ):
        code, _, err = twofold(*words(*SMALL, option, text, out="other", horizon=3))
        assert code == MISTAKE and message in err and not Path("other").exists()


@pytest.mark.parametrize("fault", FAULTS)
def test_pasting_the_options_of_a_message_mends_the_log(twofold, place, monkeypatch, fault):
    """Options are added until nothing is left to add: the search would then begin."""
    begun = []
    monkeypatch.setattr(
        "twofold.plant.project.find_policies", lambda *_, **__: begun.append(1) or 1 / 0
    )
    cells, most = FAULTS[fault]
    head, *lines = (place / "tank.csv").read_text().splitlines()[: 11 if fault == "dates" else None]
    rows = [line.split(",") for line in lines]
    for row, (name, cell) in cells.items():
        rows[row][head.split(",").index(name)] = cell
    (place / "tank.csv").write_text("\n".join([head, *map(",".join, rows)]))
    added = []
    for _ in range(most + 1):
        code, _, said = twofold(*words(*added))
        if begun:
            break
        assert code == MISTAKE and "=True" not in said and "=[" not in said
        options = re.findall(r"--[a-z-]+(?:=(?:'[^']*'|\"'\"|[^\s;,'])+| \w+)", said)
        added += [word for option in options[: most + 1] for word in shlex.split(option)]
    assert begun and added


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("use nodes=363", ["--model", "nodes=363"]),
        ("or use dtype='float64'", ["--model", "dtype=float64"]),
        (
            "the run (1,020 epochs); increase epochs (try twice as many)",
            ["--model", "epochs=2040"],
        ),
        ("as transforms={'a b': 'logit'}, or", ["--transform=a b=logit"]),
        ("its last value with held=['a', \"b's\"]", ["--held=a", "--held=b's"]),
        ("pass missing=['x]', -999.0]", ["--missing=x]", "--missing=-999.0"]),
        ("if 'at' is one, pass time='at'", ["--time=at"]),
    ],
)
def test_options_of_a_message_are_read_by_the_real_parser(message, expected):
    typed = shlex.split(re.search(r"--.*?(?=, or|$)", as_typed(message, "policy"))[0])
    assert typed == expected
    search = get_command(cli.app).commands["policy"].commands["search"]
    given = [word for word in words()[1:] if word not in ("--time", "t")]
    with search.make_context("search", [*given, *typed]) as context:
        models = context.params["model"] or []
    build_regressor(models, "model", planning_regressor(100))


def test_a_log_that_would_take_days_is_refused(twofold, place, monkeypatch):
    from twofold.cli import policy

    monkeypatch.setattr("twofold.plant.project.find_policies", lambda *_, **__: 1 / 0)
    assert "division by zero" in twofold(*words())[2]
    monkeypatch.setattr(policy, "MOST_ROWS", 10)
    code, _, said = twofold(*words())
    assert code == MISTAKE and re.search(r"--model epochs=\d+, or write every \d+th row", said)
    assert "division" in twofold(*words("--model", "epochs=10"))[2]


def test_ctrl_c_is_a_sentence_too(twofold, place, monkeypatch):
    def stopped(*_, **__):
        raise StoppedFit("stopped by Ctrl-C; tank keeps what there is")

    monkeypatch.setattr("twofold.plant.project.find_policies", stopped)
    code, _, said = twofold(*words())
    assert code == 130 and said == "twofold: stopped by Ctrl-C; tank keeps what there is\n"
