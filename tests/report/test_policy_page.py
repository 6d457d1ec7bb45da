"""The page of policies says of each what its trial says, and scales can be compared."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from twofold.plant.forecast import Trial
from twofold.plant.recommendation import advice, recommend
from twofold.report import plots, write_policy_page, write_policy_report
from twofold.report import policy_figures as figures

STEPS = 6


def make(beta, gamma=0.0, cost=10.0, names=("level", "flow")):
    flat, spread = np.ones(STEPS), np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    return Trial(
        beta, gamma, cost * flat, flat / (1.0 + beta), 0.5 * flat, flat, 0.01 * flat, 1.0, 2.0,
        columns={"level": 0.6}, riskiest={"after steps": flat[:2], "level": np.array([7.25, 6.5])},
        rollouts=cost + np.tile([-1.0, 1.0], (4, STEPS // 2)),
        visited={name: np.tile(spread, (STEPS, 1)) for name in names},
        logged={name: np.arange(-3.0, 4.0) for name in names},
    )  # fmt: skip


def project_of(trials, folder, quality="", doubts=()):
    policy = SimpleNamespace(
        embedding=SimpleNamespace(observations=("level",), actions=("flow",)),
        shape=SimpleNamespace(low=(0.0,), high=(2.0,)),
        history=3,
        sees_actions=True,
    )
    about = {"transitions": 1000, "episodes": 10, "held_out_transitions": 200, "logged_cost": 15.0}
    return SimpleNamespace(
        folder=folder,
        quality=quality,
        model_report=str(quality),
        doubts=doubts,
        trials=trials,
        policies=[policy] * len(trials),
        files=[f"policies/{number}.policy" for number in range(len(trials))],
        about=about,
        logged_cost=15.0,
        recommended=None if recommend(trials, 15.0) is None else policy,
        advice=advice(doubts, trials, 15.0),
    )


def read_page(project):
    return write_policy_page(project.folder / "page.html", project).read_text()


def test_every_policy_has_a_block_a_point_and_a_row(tmp_path):
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies/1.onnx").touch()
    text = read_page(project_of([make(0.0), make(2.0), make(2.0, 1.0)], tmp_path, "<fine>"))
    for choice in ("0|0", "2|0", "2|1"):
        assert text.count(f'data-block="{choice}"') == 1
        assert text.count(f'data-choice="{choice}"') == 3  # wide, narrow, and the table
    assert 'data-first="2|0"' in text and "&lt;fine&gt;" in text
    for number in range(3):
        assert f'load_policy("policies/{number}.policy")' in text
    assert "policies/1.onnx" in text and "policies/0.onnx" not in text
    assert "policy.act(observations, actions)" in text and "at least 3 rows of level" in text
    assert "flow from 0 to 2" in text and ">7.25</td>" in text


def test_what_speaks_against_the_recommended_policy_is_a_warning(tmp_path):
    text = read_page(project_of([make(1.0, cost=20.0)], tmp_path, doubts=["overconfident"]))
    assert "<strong>Warning.</strong> The model is not good enough to plan with" in text
    assert 'class="sentence">Keep the present controller.</p>' in text
    assert "<p>No policy found is expected to be" in text
    assert "best found, not recommended" in text
    assert "Warning." not in read_page(project_of([make(1.0)], tmp_path))


@pytest.mark.parametrize(("count", "controls"), [(8, 0), (9, 1)])
def test_more_than_eight_columns_are_shown_some_at_a_time(tmp_path, count, controls):
    names = [f"${number}" for number in range(count)]
    text = read_page(project_of([make(1.0, names=names)], tmp_path))
    assert text.count(f"<label{'' if controls else ' hidden'}><span>Columns ({count})") == 1
    assert all(f">{name}</text>" in text for name in names)


def test_costs_share_a_scale_unless_one_would_be_too_small():
    near, far = make(0.0, cost=10.0), make(1.0, cost=12.0)
    one, other = figures.choose_limits([near, far])
    assert one == other and one[0] < 10.0 - 2 * np.hypot(1.0, 0.5) and one[1] > 12.0 + 1.0
    wild = make(2.0, cost=1000.0)
    wild = replace(wild, expected=np.linspace(0.0, 1000.0, STEPS))
    small, large = figures.choose_limits([near, wild])
    assert small is None and large is not None
    lost = replace(near, expected=np.full(STEPS, np.nan), rollouts=np.full((4, STEPS), np.nan))
    assert figures.choose_limits([lost]) == [None]
    assert figures.choose_limits([lost, near])[1] is not None


def test_a_page_of_costs_that_are_not_finite_can_be_made(tmp_path):
    lost = replace(
        make(1.0), expected=np.full(STEPS, np.nan), epistemic=np.full(STEPS, np.inf),
        rollouts=np.full((4, STEPS), np.nan),
    )  # fmt: skip
    text = read_page(project_of([lost, make(2.0)], tmp_path))
    assert "forecast not finite" in text and ">nan<" not in text and ">inf<" not in text


def test_a_constant_cost_is_drawn_without_a_warning(tmp_path, recwarn):
    flat = np.zeros(STEPS)
    same = {"expected": flat + 3.0, "epistemic": flat, "aleatoric": flat}
    trials = [replace(make(b), rollouts=np.full((4, STEPS), 3.0), **same) for b in (0.0, 1.0)]
    write_policy_report(project_of(trials, tmp_path))
    assert [str(one.message) for one in recwarn] == []


def test_the_frontier_has_a_marker_for_each_policy():
    trials = [make(0.0), make(1.0, cost=11.0), make(1.0, 2.0, cost=12.0)]
    trials[0] = replace(trials[0], beyond=np.full(STEPS, 0.9))
    axes = Figure().subplots()
    markers = figures.plot_frontier(axes, trials, trials[1], 15.0)
    assert {key: tuple(line.get_xydata()[0]) for key, line in markers.items()} == {
        (0.0, 0.0): (1.0, 10.0), (1.0, 0.0): (0.5, 11.0), (1.0, 2.0): (0.5, 12.0)
    }  # fmt: skip
    assert (
        markers[0.0, 0.0].get_markerfacecolor()
        == "white"
        != markers[1.0, 0.0].get_markerfacecolor()
    )
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts[:3] == ["γ = 0", "γ = 2", "best found"] and "hollow" in texts[3]


def test_the_frontier_of_a_search_is_drawn_for_papers(tmp_path):
    trials = [make(0.0), make(1.0, cost=11.0)]
    axes = Figure().subplots()
    assert plots.plot_frontier(project_of(trials, tmp_path), axes=axes) is axes
    drawn = np.concatenate([line.get_xydata() for line in axes.lines])
    assert {(1.0, 10.0), (0.5, 11.0)} <= set(map(tuple, drawn))
    # In a figure of 4.6 inches shown 300 pixels wide, 9 points are 8 pixels.
    assert len(axes.texts) == 3 and min(text.get_fontsize() for text in axes.texts) >= 9


def test_rollouts_are_one_line_with_gaps():
    axes = Figure().subplots()
    trial = SimpleNamespace(expected=np.zeros(3), rollouts=np.arange(6.0).reshape(2, 3))
    figures.plot_rollouts(axes, trial, 1.0)
    line = axes.lines[0].get_xydata()
    np.testing.assert_array_equal(line[:, 1], [0, 1, 2, np.nan, 3, 4, 5, np.nan])
    np.testing.assert_array_equal(line[:, 0], [1, 2, 3, 3] * 2)


def test_a_folder_gets_the_page_and_its_table(tmp_path):
    project = project_of([make(0.0), make(2.0)], tmp_path, "Fine <b>.")
    text = write_policy_report(project).read_text()
    assert "policies/1.policy" in text and "Fine &lt;b&gt;." in text
    assert "1,000 transitions in 10 episodes" in text and "<td>6.5</td>" in text
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "frontier.csv"}
    assert len((tmp_path / "frontier.csv").read_text().splitlines()) == 3
