"""The page of a campaign or of the pool loop, from the first day to the last, read-only."""

import json
import re
import sqlite3

import numpy as np
import pytest
from matplotlib.figure import Figure

from twofold import BNNLVRegressor, Ensemble
from twofold.active import expected_information
from twofold.campaign import Campaign, Categorical, Continuous, Integer
from twofold.campaign.campaign import Proposal
from twofold.campaign.constraints import parse_constraint
from twofold.campaign.definition import PARTS
from twofold.campaign.space import Space
from twofold.report import Course, campaign_page, make_course, write_campaign_page
from twofold.report import campaign_figures as figures
from twofold.report.figures import draw_panel, style
from twofold.report.page import format_number
from twofold.report.svg import to_svg

INPUTS = (
    Continuous("temperature & <T>", 20.0, 100.0),
    Integer("stirring", 100, 1000),
    Categorical("solvent", ("water", "ethanol")),
)
SMALL = {"inference": Ensemble(members=3, updates=20), "latent_dim": 0, "verbose": False}
pytestmark = pytest.mark.filterwarnings("ignore:the energy still fell")


def tell(campaign, proposals):
    for proposal in proposals:
        value = float(proposal.point["stirring"]) / 100.0
        campaign.tell({"yield": value}, proposal=proposal.number)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """One with a model, open proposals, and a measurement that came after."""
    place = tmp_path_factory.mktemp("campaign") / "c.db"
    found = Campaign.create(place, INPUTS, ["yield"], settings=SMALL)
    tell(found, found.ask(14))
    first, *_ = found.ask(3)
    tell(found, [first])
    return found


@pytest.fixture
def read(tmp_path):
    """``read(campaign or course, title)``: the text of its page."""
    return lambda *arguments: write_campaign_page(tmp_path / "page.html", *arguments).read_text()


@pytest.fixture
def axes():
    with style():
        yield Figure(layout="constrained").subplots()


def test_a_campaign_of_the_first_day(tmp_path, read):
    campaign = Campaign.create(tmp_path / "c.db", INPUTS, ["yield"], settings=SMALL)
    text = read(campaign)
    assert "Getting started" in text and "<svg" not in text and "<table" not in text
    assert "12 more complete measurements are needed" in text and "(blue)" not in text
    campaign.ask(2)
    text = read(campaign)
    assert "evenly spread" in text and "shows the points only" in text


def test_measurements_keep_their_numbers_when_one_was_removed(tmp_path):
    campaign = Campaign.create(tmp_path / "c.db", INPUTS, ["yield"])
    tell(campaign, campaign.ask(3))
    campaign.remove(2)
    course = make_course(campaign)
    assert [row[0] for row in campaign_page._list_latest(course)[1]] == ["3", "1"]


def test_an_input_on_a_logarithmic_scale_has_such_an_axis(tmp_path, axes):
    rate = Continuous("rate", 1e-4, 1e-1, log=True)
    campaign = Campaign.create(tmp_path / "c.db", [rate, INPUTS[1]], ["yield"])
    tell(campaign, campaign.ask(3))
    figures.plot_map(axes, make_course(campaign), ("rate", "stirring"), None)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    low, high = axes.get_xlim()
    assert 5e-5 < low < 1e-4 and 1e-1 < high < 2e-1
    axes.figure.draw_without_rendering()
    assert [tick.get_text() for tick in axes.get_xticklabels()][1:3] == ["0.0001", "0.001"]


def test_a_smooth_map_has_each_value_at_its_place(tmp_path, axes):
    inputs = Continuous("rate", 1e-4, 1e-1, log=True), INPUTS[1]
    campaign = Campaign.create(tmp_path / "c.db", inputs, ["yield"])
    campaign.ask(1)
    course = make_course(campaign)
    rates, stirring = np.geomspace(1e-4, 1e-1, 4), np.linspace(100, 1000, 3)
    known = figures.Map(rates, stirring, np.arange(12.0).reshape(3, 4))
    figures.plot_map(axes, course, ("rate", "stirring"), known)
    (image,) = axes.images
    np.testing.assert_array_equal(image.get_array(), known.nats)
    left, right, low, high = image.get_extent()
    x = left + (right - left) * (np.arange(4) + 0.5) / 4
    y = low + (high - low) * (np.arange(3) + 0.5) / 3
    shown = axes.transAxes.transform(np.column_stack([x[:3], y]))
    places = axes.transData.inverted().transform(shown)
    np.testing.assert_allclose(places, np.column_stack([rates[:3], stirring]))


def test_points_have_their_rows_as_tips(campaign, read):
    text, course = read(campaign), make_course(campaign)
    tips = json.loads(re.search(r'id="tips">(.*?)</script>', text)[1])
    assert set(re.findall(r'data-tip="(.*?)"', text)) == set(tips)
    assert len(tips) == len(course.points) + len(course.proposals)
    row = campaign.export()[1]
    first, heat, stirring, solvent, value = tips["m2"].split("\n")
    assert (first, solvent) == ("measurement 2", f"solvent: {row['solvent']}")
    assert heat == f"temperature & <T>: {INPUTS[0].format(row['temperature & <T>'])}"
    assert (stirring, value) == (f"stirring: {row['stirring']}", f"yield: {row['yield']:.4g}")
    one = course.proposals[0]
    assert tips[f"p{one.number}"].startswith(f"proposal {one.number}: {one.reason}\n")


def test_a_map_is_blank_where_a_constraint_allows_no_measurement(campaign):
    inputs = campaign.space.inputs
    rule = "stirring <= 500"
    space = Space(inputs, (parse_constraint(rule, inputs),))
    names, at = tuple(space.names[:2]), campaign.pending()[0].point
    (known,) = figures.compute_maps(campaign.model(), space, at, [names])
    np.testing.assert_array_equal(np.isnan(known.nats).all(axis=1), known.second > 500)
    assert np.isfinite(known.nats[known.second <= 500]).all()


def test_each_point_of_a_map_is_split_once(campaign, read, count_calls):
    calls = count_calls("decompose", "conditional_moments")
    read(campaign)
    assert [name for name, *_ in calls] == ["decompose"]


def test_looking_neither_fits_nor_writes(campaign, read, monkeypatch):
    monkeypatch.setattr(BNNLVRegressor, "fit", lambda *_: pytest.fail("a page fits nothing"))
    file = campaign.model_file
    before = [path.read_bytes() for path in (file, file.with_suffix(""))]
    text = read(campaign, "Reactor")
    assert [path.read_bytes() for path in (file, file.with_suffix(""))] == before
    assert "The model was fitted to 14 measurements" in text
    assert "temperature &amp; &lt;T&gt;" in text and "<T>" not in text
    pending = campaign.pending()
    best = max(pending, key=lambda one: one.split.get("information_nats", 0.0))
    assert f"(proposal {best.number}: {best.reason})" in text
    parts = best.split["standard_deviation"]
    epistemic, aleatoric = (format_number(parts[one]["yield"]) for one in PARTS[1:])
    assert re.search(rf"yield[^<]*±{epistemic}[^<]*±{aleatoric}", text)
    for proposal in pending:
        assert f"<td>{format_number(proposal.split['information_nats'])}</td>" in text
        assert f"<td>{proposal.point['stirring']}</td>" in text


@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: file.write_text("?")])
def test_without_the_stored_model_the_page_has_points_alone(campaign, read, tmp_path, damage):
    copy = tmp_path / "copy.db"
    file = campaign.model_file
    with sqlite3.connect(file.with_suffix("")) as old, sqlite3.connect(copy) as new:
        old.backup(new)
    (tmp_path / "copy.db.model").write_bytes(file.read_bytes())
    again = Campaign.open(copy)
    assert again.load_model() is not None
    damage(tmp_path / "copy.db.model")
    assert again.load_model() is None
    assert "shows the points only" in read(again)


def test_the_map_is_the_model_around_the_proposal_that_teaches_most(campaign):
    course = make_course(campaign)
    at = figures.choose_anchor(course)
    assert at == course.next.point
    pairs = [("stirring", "solvent"), ("temperature & <T>", "stirring")]
    first, second = figures.compute_maps(course.model, course.space, at, pairs)
    assert first.nats.shape == (2, 30) and second.nats.shape == (30, 30)
    for one, column, row in ((first, 7, 1), (second, 3, 21)):
        pair = pairs[0] if one is first else pairs[1]
        values = float(one.first[column]), one.second[row]
        point = at | dict(zip(pair, values, strict=True))
        if one is first:
            point["solvent"] = "ethanol"
        expected = expected_information(course.model, course.space.encode([point]))[0]
        assert one.nats[row, column] == pytest.approx(expected, abs=1e-5)


def test_points_lie_where_they_were_measured(campaign, axes):
    course = make_course(campaign)
    at = figures.choose_anchor(course)
    figures.plot_map(axes, course, ("temperature & <T>", "stirring"), None, at)
    full, pale = (line.get_xydata() for line in axes.lines[:2])
    for drawn, same in ((pale, False), (full, True)):
        wanted = [p for p in course.points if (p["solvent"] == at["solvent"]) is same]
        expected = [[p["temperature & <T>"], p["stirring"]] for p in wanted]
        np.testing.assert_allclose(drawn, np.reshape(expected, (-1, 2)))
    numbers = [text.get_text() for text in axes.texts]
    assert numbers == [str(proposal.number) for proposal in campaign.pending()]


def test_words_are_positions_with_names(campaign, axes):
    course = make_course(campaign)
    figures.plot_map(axes, course, ("stirring", "solvent"), None)
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["water", "ethanol"]
    drawn = axes.lines[0].get_ydata()
    words = [point["solvent"] for point in course.points]
    np.testing.assert_array_equal(np.round(drawn), [("water", "ethanol").index(w) for w in words])


def test_without_proposals_a_map_is_held_at_medians(campaign, read):
    course = make_course(campaign)._replace(proposals=[])
    at = figures.choose_anchor(course)
    speeds = sorted(point["stirring"] for point in course.points)
    assert at["stirring"] == speeds[len(speeds) // 2] and isinstance(at["stirring"], int)
    assert at["solvent"] in ("water", "ethanol")
    assert "typical values" in read(course)


@pytest.mark.parametrize("one", [Continuous("x", 0.0, 2.0), Categorical("x", ("a", "b", "c"))])
def test_one_input_has_a_line(axes, one):
    spots = [0.5, 1.0] if isinstance(one, Continuous) else ["b", "c"]
    points = [{"x": spot} for spot in spots]
    proposals = [Proposal(7, points[-1], {}, "")]
    course = Course("", Space((one,)), ["y"], points, np.zeros((2, 1)), proposals, [], "", False)
    known = figures.Map(np.arange(3.0), np.arange(3.0), np.array([[0.0, 0.2, 0.6]]))
    figures.plot_line(axes, course, known)
    line, proposed, rug = (drawn.get_xydata() for drawn in axes.lines[:3])
    np.testing.assert_allclose(line[:, 1], [0.0, 0.2, 0.6])
    at = figures.find_positions(course.space, points)[:, 0]
    np.testing.assert_allclose(proposed, [[at[1], np.interp(at[1], [0, 1, 2], [0, 0.2, 0.6])]])
    np.testing.assert_allclose(np.unique(rug[:, 0]), at)
    assert [text.get_text() for text in axes.texts] == ["7"]


def test_outputs_that_have_not_come_are_left_open(tmp_path, read):
    campaign = Campaign.create(tmp_path / "c.db", INPUTS[:1], ["a", "b"])
    campaign.tell({"a": 2.0}, point={"temperature & <T>": 30.0})
    course = make_course(campaign)
    assert (len(course.points), course.complete) == (1, 0)
    np.testing.assert_array_equal(course.values, [[2.0, np.nan]])
    text = read(campaign)
    assert "<td>2</td><td>—</td>" in text and "1 measurement, 0 complete" in text
    assert "Values of a over" in text and "Values of b over" not in text


def test_slices_are_the_model_along_each_input(campaign):
    course, levels = make_course(campaign), [0.05, 0.25, 0.5, 0.75, 0.95]
    at = figures.choose_anchor(course)
    found = figures.compute_slices(course.model, course.space, at)
    assert {name: len(one) for name, one in found.items()} == {
        "temperature & <T>": 60, "stirring": 60, "solvent": 2
    }  # fmt: skip
    points = [at | {"solvent": word} for word in INPUTS[2].choices]
    expected = course.model.predict(course.space.encode(points), quantiles=levels)
    np.testing.assert_allclose(found["solvent"][:, 0], expected, rtol=1e-4)


def test_slices_are_blank_where_a_constraint_allows_no_measurement(campaign):
    inputs = campaign.space.inputs
    space = Space(inputs, (parse_constraint("stirring <= 500", inputs),))
    found = figures.compute_slices(
        campaign.model(), space, campaign.pending()[0].point | {"stirring": 300}
    )
    known = np.isfinite(found["stirring"]).all(axis=(1, 2))
    np.testing.assert_array_equal(known, np.unique(np.round(np.linspace(100, 1000, 60))) <= 500)
    assert np.isfinite(found["solvent"]).all()


@pytest.mark.parametrize("name", ["rate", "stirring", "solvent"])
def test_a_slice_that_no_constraint_allows_is_drawn_empty(name, recwarn):
    space = Space((Continuous("rate", 1e-4, 1e-1, log=True), *INPUTS[1:]))
    points = [{"rate": 1e-3, "stirring": 300, "solvent": "water"}]
    course = Course("", space, ["yield"], points, np.ones((1, 1)), [], [], "", False)
    nothing = np.full((2 if name == "solvent" else 60, 5), np.nan)
    figure = draw_panel(figures.plot_slice, course, name, nothing, 0)
    assert f">{name}</text>" in to_svg(figure, "a", "") and not recwarn.list


def test_a_slice_has_the_measurements_where_there_is_no_other_input(axes):
    one, points = Continuous("x", 0.0, 2.0), [{"x": 0.5}, {"x": 1.0}]
    values = np.array([[3.0], [4.0]])
    course = Course("", Space((one,)), ["y"], points, values, [], [], "", False)
    figures.plot_slice(axes, course, "x", np.tile(np.arange(5.0), (60, 1)), 0)
    median, measured = (line.get_xydata() for line in axes.lines)
    np.testing.assert_array_equal(median[:, 1], 2.0)
    np.testing.assert_array_equal(measured, [[0.5, 3.0], [1.0, 4.0]])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x", "y")


def test_the_page_goes_from_the_advice_to_the_details(campaign, read):
    text = read(campaign)
    assert "Learning curve" not in text and ", 15 complete" not in text
    course = make_course(campaign)
    text = read(course._replace(curve=[course.curve[0] | {"measurements": 12}, *course.curve]))
    order = ["Measure next", "Where to measure</h2>", "Predictions", "Learning curve"]
    order += ["Open proposals", "Results so far"]
    places = [text.index(one) for one in order]
    assert places == sorted(places)
