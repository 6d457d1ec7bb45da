"""Figures for papers: they draw where they are told to, and change nothing else."""

import subprocess
import sys
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from twofold.report import figures, plots

pd = pytest.importorskip("pandas")


class Known:
    """Stands for a model of y = 10 x₀ + 2 u, u being uniform over ±1."""

    y_ndim_ = 1

    def predict(self, X, quantiles=None):
        levels = np.array(quantiles)
        return 10.0 * np.asarray(X)[:, :1] + 2.0 * (2.0 * levels - 1.0)

    def decompose(self, X):
        self.rows = X
        x = np.asarray(X)
        parts = figures.Parts(3.0 + x[:, 0], 1.0 + x[:, 0], np.full(len(x), 2.0))
        return SimpleNamespace(parts=parts)

    def sample(self, X, n_samples):
        spread = np.linspace(-2.0, 2.0, n_samples)[:, None]
        return 10.0 * np.asarray(X)[:, 0] + spread

    def log_likelihood(self, X, y):
        return np.full(len(y), -np.log(4.0))


def settings():
    """All but the backend, which matplotlib chooses when it is looked at."""
    return {name: mpl.rcParams[name] for name in mpl.rcParams if name != "backend"}


@pytest.fixture
def rows(rng):
    x = pd.DataFrame({"heat": rng.uniform(size=50), "acid": np.linspace(0.0, 4.0, 50)})
    return x, 10.0 * x["heat"].to_numpy() + rng.uniform(-2.0, 2.0, 50)


def test_each_draws_on_the_axes_given_or_on_its_own(rows):
    model, (x, y) = Known(), rows
    before = settings()
    for draw in (
        lambda axes: plots.plot_prediction(model, x, axes=axes),
        lambda axes: plots.plot_split(model, x, feature="acid", axes=axes),
        lambda axes: plots.plot_measured(model, x, y, axes=axes),
        lambda axes: plots.plot_calibration(model, x, y, axes=axes),
    ):
        own = Figure().subplots()
        assert draw(own) is own and own.has_data()
        new = draw(None)
        assert new is not own and new.has_data() and new.get_xlabel() and new.get_ylabel()
    assert settings() == before


def test_no_window_is_opened_and_no_backend_chosen():
    script = (
        "import sys, numpy as np; from twofold.report import plots, figures; "
        "figures.plot_rug(figures.Figure().subplots(), np.arange(3.0)); "
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_line_moves_one_feature_and_holds_the_others_at_their_medians(rows):
    model, (x, _) = Known(), rows
    axes = plots.plot_split(model, x, feature="heat")
    assert axes.get_xlabel() == "heat"
    assert list(model.rows.columns) == ["heat", "acid"]
    assert set(model.rows["acid"]) == {2.0}
    assert model.rows["heat"].min() < x["heat"].min() and model.rows["heat"].max() > x["heat"].max()
    total = axes.lines[0].get_ydata()
    np.testing.assert_allclose(total, 3.0 + model.rows["heat"])
    with pytest.raises(ValueError, match="feature must be one of heat, acid, got 'flow'"):
        plots.plot_split(model, x, feature="flow")


def test_calibration_counts_what_intervals_hold(rows):
    model, (x, y) = Known(), rows
    axes = plots.plot_calibration(model, x, y)
    nominal, observed = axes.lines[-1].get_data()
    inside = np.abs(y - 10.0 * x["heat"].to_numpy()) <= 2.0 * 0.5
    assert observed[nominal == 50.0] == pytest.approx(100.0 * inside.mean(), abs=2.1)


def test_measurements_lie_on_a_line_only_of_a_single_feature(rows):
    x, y = rows
    axes = plots.plot_prediction(Known(), x[["heat"]], y)
    drawn = axes.collections[2].get_offsets()
    np.testing.assert_allclose(drawn, np.column_stack([x["heat"], y]))
    with pytest.raises(ValueError, match="plot_measured"):
        plots.plot_prediction(Known(), x, y)


def test_figures_of_300_pixels_have_words_of_8(rows):
    """As tall as those of a newspaper's small print on a screen."""
    model, (x, y) = Known(), rows
    drawn = [
        plots.plot_prediction(model, x), plots.plot_split(model, x),
        plots.plot_measured(model, x, y), plots.plot_calibration(model, x, y),
    ]  # fmt: skip
    for axes in drawn:
        figure = axes.figure
        figure.draw_without_rendering()
        scale = 300 / (72 * figure.get_size_inches()[0])
        words = [one for one in figure.findobj(Text) if one.get_text() and one.get_visible()]
        assert len(words) > 8 and min(one.get_fontsize() for one in words) * scale >= 8
        box, (width, height) = axes.get_tightbbox(), figure.bbox.size
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height


def test_legends_of_panels_side_by_side_do_not_overlap(rows):
    model, (x, _) = Known(), rows
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    plots.plot_prediction(model, x, axes=left)
    plots.plot_split(model, x, axes=right)
    figure.draw_without_rendering()
    one, two = (axes.get_legend().get_window_extent() for axes in (left, right))
    assert one.x0 >= 0 and one.x1 <= two.x0 and two.x1 <= figure.bbox.width
