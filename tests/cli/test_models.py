"""How ``twofold fit`` scores a fit: out of bag, or by rows held out, beside a linear model."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold

from twofold.active.choice import split_by_entropy
from twofold.cli import fitting, models
from twofold.cli.rows import read_all, split_rows
from twofold.cli.terminal import MISTAKE, CommandError, add_quick
from twofold.estimators.linear import LinearGaussian, cross_validate_linear
from twofold.tables import read_table
from twofold.tables.coding import Column

TINY = ["--setting", "updates=20", "--setting", "hidden_layer_sizes=[5]"]
HELD_OUT, LINEAR = "held-out log-likelihood (nats)", "linear, cross-validated log-likelihood (nats)"
OUT_OF_BAG = "out-of-bag log-likelihood (nats)"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """60 rows of an oven."""
    rng = np.random.default_rng(0)
    heat, time = rng.uniform(20, 80, 60), rng.uniform(1, 5, 60)
    values = zip(heat.tolist(), time.tolist(), (heat + rng.normal(size=60)).tolist(), strict=True)
    path = tmp_path_factory.mktemp("oven") / "oven.csv"
    path.write_text("heat,time,yield\n" + "".join(f"{h!r},{t!r},{y!r}\n" for h, t, y in values))
    return path


@pytest.fixture
def fit(command, table, tmp_path):
    """``fit(*words)``: exit code, metrics, what was said, and the model with its table."""

    def run(*words, settings=TINY):
        out = tmp_path / "oven.twofold"
        code, shown, said = command(
            "fit", table, "--target", "yield", "--out", out, "--json", *settings, *words
        )
        found = json.loads(shown)["metrics"] if code == 0 else {}
        return code, found, said, models.load_model(out) if code == 0 else None

    return run


def test_rows_without_a_group_stay_apart_in_several_tables(tmp_path):
    tables = []
    for name in ("old.csv", "new.csv"):
        (tmp_path / name).write_text("x,y,day\n1,2,\n3,4,monday\n")
        tables.append(read_table(tmp_path / name))
    about = models.About([Column("x")], ["y"], [], None, 0, False, group="day")
    rows = read_all(tables, about)
    assert rows.places.tolist() == [0, 1, 2, 3]
    assert rows.groups[1] == rows.groups[3] and len(set(rows.groups)) == 3


def test_a_quick_fit_scores_itself_on_all_rows(fit, table):
    code, found, said, (model, about) = fit("--quick", "--setting", "members=5")
    assert code == 0, said
    assert model.inference.name == "ensemble" and about.held_out == 0
    assert found["rows fitted"] == 60 and HELD_OUT not in found and "rows held out" not in found
    assert found[OUT_OF_BAG] == pytest.approx(model.out_of_bag_.score)
    assert found["its standard error"] == pytest.approx(model.out_of_bag_.standard_error)
    train, _ = split_rows([read_table(table)], about)
    assert found[LINEAR] == pytest.approx(found[OUT_OF_BAG] - model.comparison_.gain)
    assert about.verdict == model.comparison_.sentence
    share = -np.expm1(-2 * split_by_entropy(model, train.x).epistemic).mean()
    assert found["epistemic share of the variance"] == pytest.approx(max(share, 0.0))


def test_rows_are_held_out_on_request_beside_the_score_of_the_fit(fit):
    _, found, _, (_, about) = fit("--quick", "--setting", "members=5", "--held-out", 0.2)
    assert about.held_out == 0.2 and found["rows held out"] == 12 and found["rows fitted"] == 48
    assert {OUT_OF_BAG, HELD_OUT, f"linear, {HELD_OUT}", "held-out RMSE of yield"} <= set(found)
    assert LINEAR not in found


def test_a_method_that_does_not_score_itself_has_rows_held_out(fit):
    words = ["inference=alpha", "epochs=2", "draws=2", "hidden_layer_sizes=[5]"]
    words = [part for word in words for part in ("--setting", word)]
    _, found, _, (_, about) = fit(settings=words)
    assert about.held_out == fitting.HELD_OUT and found["rows held out"] == 6
    assert HELD_OUT in found and not {OUT_OF_BAG, LINEAR} & set(found)


def test_quick_and_another_method_contradict_each_other(fit):
    code, _, said, _ = fit("--quick", "--setting", "inference=langevin")
    assert code == MISTAKE and "--quick means --setting inference=ensemble" in said


def test_quick_is_a_setting():
    assert add_quick(["members=3"], True) == ["members=3", "inference=ensemble"]
    assert add_quick(["inference=alpha"], False) == ["inference=alpha"]
    with pytest.raises(CommandError, match="give only one of the two"):
        add_quick(["inference=alpha"], True)


def test_a_quick_campaign_stores_its_method(command, tmp_path):
    place = tmp_path / "oven.db"
    words = ["--input", "heat=20..80", "--output", "yield", "--quick", "--json"]
    code, shown, said = command("campaign", "init", place, *words)
    assert code == 0, said
    assert json.loads(shown)["settings"] == {"inference": "ensemble"}


def test_the_linear_model_is_scored_by_rows_that_it_has_not_seen(rng):
    x = rng.normal(size=(43, 2))
    y = np.column_stack([x @ [1.0, 2.0], x @ [0.0, 1.0]]) + rng.normal(size=(43, 2))
    scores = []
    for a, b in KFold(5, shuffle=True, random_state=0).split(x):
        residuals = y[b] - LinearRegression().fit(x[a], y[a]).predict(x[b])
        covariance = LinearGaussian.fit(x[a], y[a]).covariance
        squares = np.einsum("no,op,np->n", residuals, np.linalg.inv(covariance), residuals)
        scores.extend(-0.5 * (squares + np.linalg.slogdet(2 * np.pi * covariance)[1]))
    assert cross_validate_linear(x, y)[0].mean() == pytest.approx(np.mean(scores))
    assert cross_validate_linear(x[:3], y[:3]) is None
