"""Which policy is recommended, and what is said of it."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from twofold.plant.forecast import Trial
from twofold.plant.project import ProjectError, read_trial, write_json
from twofold.plant.quality import Doubt
from twofold.plant.summary import advice, frontier_csv, recommend, rows


def make(beta, cost, epistemic, beyond=0.01):
    steps = np.ones(4)
    columns = {"level": 0.6, "heat": 0.04}
    return Trial(
        beta, 0.0, cost * steps, epistemic * steps, 2.0 * steps, steps, beyond * steps, 1.0, 2.0,
        columns, {"after steps": np.array([3.0, 1.0]), "level": np.array([7.25, 6.5])},
    )  # fmt: skip


DOUBT = Doubt("coverage", 0.6, 0.7, "level")
TRIALS = [make(0.0, 10.0, 3.0, beyond=0.4), make(1.0, 11.0, 1.0), make(4.0, 14.0, 0.1)]


def test_the_lowest_careful_cost_is_recommended():
    assert [one.careful_cost for one in TRIALS] == pytest.approx([16.0, 13.0, 14.2])
    assert recommend(TRIALS) == 1
    lost = make(2.0, np.nan, 1.0)
    assert recommend([lost, *TRIALS]) == 2


def test_who_is_mostly_beyond_the_data_is_not_recommended():
    away = make(0.5, 1.0, 0.1, beyond=0.6)
    assert recommend([away, *TRIALS]) == 2
    assert "of the 3 of 4 that are mostly where the data are" in advice((), [away, *TRIALS], 15)[0]
    farther = make(0.0, 0.5, 0.1, beyond=0.9)
    assert recommend([farther, away]) == 1
    assert "all are beyond the data" in advice((), [farther, away], 15.0)[0]


def test_the_advice_says_why_and_how_far_to_believe_it():
    first, second, *rest = advice((), TRIALS, 15.0)
    assert "β = 1 and γ = 0: it has the lowest careful cost of 3." in first
    assert "11 + 2 · 1 = 13" in first and "cost 15" in first
    assert "model's opinion" in second and rest == []


@pytest.mark.parametrize(
    ("trials", "doubts", "logged_cost", "expected"),
    [
        (TRIALS, (), 12.0, "nothing here says that any of these policies is better"),
        (TRIALS[:1], (), 20.0, "40% are beyond the data"),
        (TRIALS, [DOUBT], 20.0, "level hold 60% of what was measured: it is overconfident."),
    ],
)
def test_what_speaks_against_it_is_said(trials, doubts, logged_cost, expected):
    (said,) = advice(doubts, trials, logged_cost)[2:]
    assert expected in said


def test_tables_have_a_row_for_each_policy():
    head, *body = rows(TRIALS)
    assert all(len(row) == len(head) for row in body) and len(body) == 3
    assert body[0][-2:] == ["40.0%", "level 60%"]
    table = frontier_csv(TRIALS, ["a.policy", "b.policy", "c.policy"]).splitlines()
    assert table[2] == "1.0,0.0,11.0,1.0,2.0,13.0,0.01,b.policy"


def test_a_trial_survives_its_file(tmp_path):
    bands = np.arange(20.0).reshape(4, 5)
    bands[1, 2] = np.nan
    more = {"rollouts": np.ones((3, 4)), "visited": {"level": bands}, "logged": {"level": bands[0]}}
    lost = replace(make(2.0, np.nan, np.inf), **more)
    write_json(tmp_path / "one.json", asdict(lost))
    found = read_trial(tmp_path / "one.json")
    assert np.isnan(found.expected).all() and np.isnan(found.epistemic).all()
    assert found.columns == lost.columns and found.risk_weights == lost.risk_weights
    np.testing.assert_array_equal(found.beyond, lost.beyond)
    np.testing.assert_equal({name: getattr(found, name) for name in more}, more)
    for text in ("{", '{"far": 1}'):
        (tmp_path / "one.json").write_text(text)
        with pytest.raises(ProjectError, match="is damaged"):
            read_trial(tmp_path / "one.json")
