"""The page of a fitted model holds what it should, for tame and for odd data."""

import re
import time
from copy import copy
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.stats import norm

from twofold import BNNLVRegressor, Ensemble
from twofold.estimators.comparison import Comparison
from twofold.inference.loop import Convergence
from twofold.report import write_model_page
from twofold.report.calibration import compare_models, compute_log_densities
from twofold.report.figures import LEVELS
from twofold.report.model_data import (
    compute_effects,
    compute_entropies,
    compute_moments,
    compute_slices,
    make_grid,
    make_subject,
    rank_inputs,
)
from twofold.report.model_page import find_doubts
from twofold.report.page import format_change, format_number

SMALL = {
    "inference": Ensemble(members=3, updates=20),
    "n_latent_draws": 8,
    "random_state": 0,
    "verbose": False,
}
pytestmark = pytest.mark.filterwarnings("ignore:the energy still fell", "ignore:the latent input")


class Known:
    """A model whose mean, epistemic and aleatoric deviations are each driven by one input."""

    def conditional_moments(self, x):
        mean, epistemic, aleatoric = x[:, 0], 5.0 + x[:, 1], 5.0 + x[:, 2]
        means = np.stack([mean - epistemic, mean + epistemic])[:, None]
        return means, np.square(np.stack([aleatoric, aleatoric]))[:, None]


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=60), rng.integers(0, 3, 60), np.ones(60)])
    y = x[:, 0] + 0.3 * rng.normal(size=60)
    return BNNLVRegressor(**SMALL).fit(x[:40], y[:40]), x, y


@pytest.fixture
def read(tmp_path):
    """``read(model, X, y, ...)``: the text of its page."""

    def write(*arguments, **settings):
        return write_model_page(tmp_path / "page.html", *arguments, **settings).read_text()

    return write


class Balance(HTMLParser):
    """Every element that needs an end has one."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br", "hr", "img", "input", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def check(text):
    """Whole, self-contained HTML."""
    balance = Balance()
    balance.feed(text)
    assert not balance.open
    assert not re.search(r"(src|href)=[\"'](https?:)?//", text)
    assert ">nan<" not in text


def test_what_is_found_is_the_law_of_total_variance():
    here = compute_moments(Known(), np.array([[7.0, 1.0, -2.0]]))
    assert here.mean == pytest.approx(7.0)
    assert [float(part[0, 0]) for part in here.variances] == pytest.approx([45.0, 36.0, 9.0])


def test_each_part_is_driven_by_its_own_input(rng):
    x = rng.uniform(-1, 1, size=(400, 4))
    about = make_subject(Known(), x, x[:, 0], list("abcd"), ["y"], None)
    effects = compute_effects(about, compute_moments(Known(), x))
    for column, part in enumerate(effects):
        # Four rounds of 400 swaps: a standard error of about sqrt(0.8 / 400) / 2 = 0.02, and as
        # much again for the variance of the rows.
        np.testing.assert_allclose(part[:, 0], np.eye(4)[column], atol=0.12)
    assert sorted(rank_inputs(effects)[:3]) == [0, 1, 2] and rank_inputs(effects)[3] == 3


def test_scores_are_those_of_plain_models_computed_otherwise(fitted):
    model, x, y = fitted
    about = make_subject(model, x[:40], y[:40], list("abc"), ["y"], (x[40:], y[40:]))
    every = compare_models(about, compute_moments(model, x[40:]).mean, compute_log_densities(about))
    design = np.column_stack([x[:, :2], np.ones(60)])
    weights, residual, *_ = np.linalg.lstsq(design[:40], y[:40], rcond=None)
    errors = y[40:] - design[40:] @ weights
    linear = every["linear regression"]
    assert linear.rmse[0] == pytest.approx(np.sqrt(np.mean(errors**2)))
    noise = np.sqrt(residual[0] / (40 - 3))  # the third input is constant
    # A millionth of the variance of y is added to that of the noise.
    least = {"abs": 1e-4}
    assert linear.log_likelihood == pytest.approx(norm.logpdf(errors, scale=noise).mean(), **least)
    deviations = y[40:] - y[:40].mean()
    noise = y[:40].std(ddof=1)
    constant = every["constant"].log_likelihood
    assert constant == pytest.approx(norm.logpdf(deviations, scale=noise).mean(), **least)
    own = every["this model"]
    assert own.log_likelihood == pytest.approx(model.log_likelihood(x[40:], y[40:]).mean())
    assert own.rmse[0] == pytest.approx(np.sqrt(np.mean((model.predict(x[40:]) - y[40:]) ** 2)))


def test_slices_are_the_model_along_a_line(fitted):
    model, x, y = fitted
    about = make_subject(model, x, y, list("abc"), ["y"], None)
    for (column, row), one in compute_slices(about, [0], [4, 9]).items():
        assert column == one.column == 0
        places = np.repeat(x[[row]], len(one.grid), axis=0)
        places[:, 0] = one.grid
        quantiles = model.predict(places, quantiles=LEVELS)
        np.testing.assert_allclose(one.quantiles[:, 0], quantiles, rtol=1e-4, atol=1e-5)
        split = model.decompose(places)
        np.testing.assert_allclose(one.entropies.epistemic[:, 0], split.epistemic, atol=1e-4)
        assert one.grid[np.argmax(split.epistemic)] == one.most_epistemic[0]


def test_grids_go_a_little_beyond_the_data_but_whole_numbers_stay():
    grid = make_grid(np.array([0.5, 2.0, 10.5]))
    assert (grid[0], grid[-1]) == pytest.approx((-0.5, 11.5))
    np.testing.assert_array_equal(make_grid(np.array([3.0, 1.0, 1.0])), [1, 2, 3])


def test_unknown_entropies_are_those_of_gaussians(fitted):
    model, x, _ = fitted

    class Narrow:
        def decompose(self, rows):
            split = model.decompose(rows)
            split.total[0] = np.nan
            return split

    here = compute_moments(model, x)
    variances, parts = here.variances, compute_entropies(Narrow(), x, here)
    np.testing.assert_allclose(parts.total, norm.entropy(scale=np.sqrt(variances.total)))
    np.testing.assert_allclose(parts.epistemic, parts.total - parts.aleatoric)


def test_the_page_of_a_model_with_held_out_rows(fitted, read):
    model, x, y = fitted
    model = copy(model)
    model.out_of_bag_, model.convergence_ = None, Convergence(0.0, 9.0, 0.1, 5, 50)
    held_out = x[40:], y[40:]
    text = read(model, x[:40], y[:40], inputs=list("abc"), outputs=["y"], held_out=held_out)
    check(text)
    for heading in ("Key figures", "Predictions", "drive", "Calibration", "Data"):
        assert heading in text
    assert "all scores are of training rows" not in text and find_doubts(model)[1:] in unescape(
        text
    )
    assert f"{model.log_likelihood(*held_out).mean():.3f} nats" in text
    assert "1 are constant in the data" in text
    assert text.count("the row with the largest epistemic share") > 1


@pytest.mark.parametrize("gain", [0.5, 0.001, -0.5])
def test_the_headline_says_how_good_the_model_is_and_where_to_measure_next(fitted, read, gain):
    model, x, y = fitted
    model = copy(model)
    model.comparison_ = Comparison(gain, 0.02, gain, 0.02)
    text = read(model, x[:40], y[:40], inputs=list("abc"), outputs=["y"])
    headline, _, rest = text.partition("<section")
    assert f"<strong>{format_change(-gain)}</strong>" in headline
    assert ('class="headline doubtful"' in headline) == (gain < 0.1)
    suggested = rest.partition('id="where-to-measure-next"')[2].partition("</tr>")[2]
    a, b, c, nats, _, epistemic, aleatoric, *_ = re.findall(r"<td[^>]*>([^<]*)", suggested)
    words = " ".join(re.sub("<[^>]*>", "", headline).split())
    assert (
        f"Measure next: a = {a}, b = {b}, c = {c} (expected information gain {nats} nats)" in words
    )
    assert re.search(rf"y is uncertain by ±{epistemic}\b.*±{aleatoric}\b", words)


def test_a_page_of_500_rows_and_10_inputs_is_small_and_soon_made(read, rng):
    """In at most 3 seconds of processor time, when its programs are compiled."""
    x = rng.uniform(-1, 1, size=(500, 10))
    y = np.sin(4 * x[:, 0]) + x.sum(axis=1) + 0.2 * rng.normal(size=500)
    model = BNNLVRegressor(**SMALL).fit(x, y)
    settings = {"inputs": [f"input {i}" for i in range(10)], "outputs": ["y"]}
    read(model, x, y, **settings)
    begun = time.process_time()
    text = read(model, x, y, **settings)
    assert time.process_time() - begun < 3.0 and len(text.encode()) < 400_000


def test_nothing_is_computed_twice(fitted, read, count_calls):
    model, x, y = fitted
    calls = count_calls("decompose", "conditional_moments", "log_likelihood", "sample", "predict")
    read(model, x[:40], y[:40], inputs=list("abc"), outputs=["y"], held_out=(x[40:], y[40:]))
    assert len(calls) == len(set(calls))
    # The rows of the data, the slices, and where to measure next.
    assert [name for name, _ in calls].count("decompose") == 3


def test_one_input_shows_the_measurements_and_nothing_to_compare(fitted, read):
    _, x, y = fitted
    model = BNNLVRegressor(**SMALL).fit(x[:, :1], y)
    text = read(model, x[:, :1], y, inputs=["only"], outputs=["y"])
    check(text)
    assert "all other numbers" in text
    assert "all scores are of training rows" not in text and "Importance of the inputs" not in text
    assert "measurements</text>" in text and text.count(">measure here next</text>") == 2
    assert '<section id="predictions"' in text


def test_few_rows_odd_names_and_constants(rng, read):
    x = np.column_stack([rng.integers(0, 2, 5), np.ones(5), rng.normal(size=5)])
    y = np.column_stack([rng.normal(size=5), np.full(5, 3.0)])
    model = BNNLVRegressor(**SMALL).fit(x, y)
    names = ["a <b> & $x_1$", "µ", "long " * 20]
    text = read(model, x, y, inputs=names, outputs=["_y <&>", "$"], title="<i>")
    check(text)
    assert "<i>" not in text and "<b>" not in text and "a &lt;b&gt; &amp; $x_1$" in text
    text = read(model, np.ones((5, 3)), y, inputs=names, outputs=["a", "b"])
    check(text)
    assert "nothing to draw" in text


def test_doubts_of_the_fit_are_told(fitted):
    model = copy(fitted[0])
    model.integration_error_ = 0.0
    assert find_doubts(model) is None
    model.out_of_bag_ = None
    model.convergence_ = Convergence(0.0, 0.0, 0.1, 5, 5)
    assert find_doubts(model) is None
    model.convergence_ = model.convergence_._replace(planned_epochs=50, late_drop=9.0)
    assert find_doubts(model).startswith(
        "the fit was stopped after 5 of 50 epochs; the energy still"
    )
    model.convergence_, model.integration_error_ = None, 0.5
    assert "integrated out with an error of 0.50" in find_doubts(model)


def test_columns_without_names_and_bad_values_are_refused(fitted, read):
    model, x, y = fitted
    with pytest.raises(ValueError, match=r"2 inputs and 1 outputs .* got X \(60, 3\)"):
        read(model, x, y, inputs=list("ab"), outputs=["y"])
    with pytest.raises(ValueError, match="different names"):
        read(model, x, y, inputs=list("aba"), outputs=["y"])
    with pytest.raises(ValueError, match="got 1 NaN"):
        read(model, np.where(x == x[3, 0], np.nan, x), y, inputs=list("abc"), outputs=["y"])


@pytest.mark.parametrize(
    ("value", "text"), [(3.0, "3"), (0.123456, "0.1235"), (123456.0, "123456"), (np.nan, "—")]
)
def test_numbers_are_shown_with_four_digits(value, text):
    assert format_number(value) == text


def test_every_method_has_a_name_for_people():
    from twofold.inference.method import METHODS
    from twofold.report import model_page

    assert set(model_page.METHODS) == set(METHODS)
