"""Plots of a model show what they are given, and nothing covers it."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.figure import Figure

from twofold.report import figures
from twofold.uncertainty.decomposition import Parts

GRID = np.linspace(-1.0, 1.0, 20)
PARTS = Parts(np.full(20, 4.0), np.full(20, 3.0), np.full(20, 1.0))


@pytest.fixture
def axes():
    with figures.style():
        yield Figure(figsize=(4.6, 3.4), layout="constrained").subplots()


def below(axes):
    """Whether the legend lies under everything that belongs to the axes."""
    axes.figure.draw_without_rendering()
    legend = axes.get_legend().get_window_extent()
    inside = legend.x0 >= 0 and legend.x1 <= axes.figure.bbox.width and legend.y0 >= 0
    return inside and legend.y1 <= axes.xaxis.get_tightbbox().y0


def edges(band):
    """Lowest and highest y of a band."""
    y = np.concatenate([path.vertices[:, 1] for path in band.get_paths()])
    return y.min(), y.max()


def test_bands_are_two_deviations_wide(axes):
    figures.plot_predictive_bands(axes, GRID, np.zeros(20), PARTS, (GRID, GRID))
    total, aleatoric = axes.collections[:2]
    assert edges(total) == pytest.approx((-4.0, 4.0))
    assert edges(aleatoric) == pytest.approx((-2.0, 2.0))
    np.testing.assert_array_equal(axes.collections[2].get_offsets()[:, 0], GRID)
    assert below(axes)


def test_the_gap_between_the_entropies_is_the_epistemic_part(axes):
    figures.plot_entropies(axes, GRID, PARTS, truth=np.full(20, -1e9))
    assert edges(axes.collections[0]) == pytest.approx((1.0, 4.0))
    assert axes.get_ylim()[0] > -10, "a truth without bound must not squeeze the rest"
    assert below(axes)


def test_a_rug_keeps_the_view_and_stays_small(axes, rng):
    axes.set_xlim(-1, 1)
    values = rng.normal(size=10_000)
    figures.plot_rug(axes, values)
    ticks = np.unique(axes.lines[0].get_xdata())
    assert axes.get_xlim() == (-1, 1)
    assert len(ticks) == 100 and np.isin(ticks, values).all()


def test_quantile_bands_hold_half_and_nine_tenths(axes):
    quantiles = np.arange(5.0) + np.zeros((20, 1))
    figures.plot_quantile_bands(axes, GRID, quantiles, (GRID, GRID))
    wide, narrow, _ = axes.collections
    for band, low, high in ((wide, 0, 4), (narrow, 1, 3)):
        heights = band.get_paths()[0].vertices[:, 1]
        assert (heights.min(), heights.max()) == (low, high)
    (median,) = axes.lines
    np.testing.assert_array_equal(median.get_ydata(), 2.0)
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert "90% of the measurements" in labels and "50% of the measurements" in labels


def test_whole_numbers_have_a_bar_each():
    assert figures.count_values(np.array([0.0, 0.0, 1.0, 3.0])).tolist() == [2, 1, 0, 1]


@pytest.mark.parametrize("values", [np.full(5, 2.5), np.array([1e-12, 1.0]), np.arange(300.0)])
def test_odd_columns_have_a_histogram_of_all_their_rows(values):
    counts = figures.count_values(values)
    assert counts.sum() == len(values) and 1 <= len(counts) <= figures.MOST_BARS + 1


def test_intervals_stand_at_what_was_measured(axes):
    y, quantiles = np.array([1.0, 2.0]), np.array([[-2.5, 0, 1.5, 3, 5.5], [-3, -1, 1, 3, 5.0]])
    figures.plot_predicted(axes, y, quantiles)
    wide, narrow = (np.array(lines.get_segments()) for lines in axes.collections)
    np.testing.assert_allclose(wide, [[[1, -2.5], [1, 5.5]], [[2, -3], [2, 5]]])
    np.testing.assert_allclose(narrow[:, :, 1], [[0, 3], [-1, 3]])
    assert below(axes)


def test_bars_are_percent_of_each_part(axes):
    effects = Parts(np.array([0.5, 0.1]), np.array([0.2, 0.3]), np.array([0.0, 1.0]))
    figures.plot_effects(axes, ["a", "b"], effects)
    np.testing.assert_allclose([bar.get_width() for bar in axes.patches], [50, 10, 20, 30, 0, 100])
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["a", "b"]
    assert below(axes)


def test_labels_are_one_short_line_and_no_mathematics(axes):
    name = "costs in $ or \n $$ " + "x" * 99
    assert "\n" not in figures.shorten_label(name)
    assert len(figures.shorten_label(name).replace("\\", "")) <= figures.LONGEST_LABEL
    axes.set_xlabel(figures.shorten_label("50 $^ {"))
    axes.figure.draw_without_rendering()


def plot_wide_numbers(axes):
    """Labels of eight digits, a title, a legend of two rows, and a colour bar."""
    dots = axes.scatter([0.0, 1.0], [1.234567e7, 1.234568e7], c=[0.0, 1.0], label="dots")
    for name in ("one", "two"):
        axes.plot([0.0, 1.0], [1.234567e7, 1.234568e7], label=name)
    axes.figure.colorbar(dots, ax=axes, label="colour")
    axes.ticklabel_format(useOffset=False, style="plain")
    axes.set(xlabel="x", ylabel="y", title="title")
    figures.place_legend_below(axes)


def plot_log(axes):
    axes.plot([1e-4, 1e3], [1e-4, 1e3])
    axes.set(xscale="log", yscale="log", xlabel="x", ylabel="y")


def plot_names(axes):
    figures.plot_effects(axes, ["a name of thirty-three characters"] * 3, Parts(*np.ones((3, 3))))


@pytest.mark.parametrize("plot", [plot_wide_numbers, plot_log, plot_names])
@pytest.mark.parametrize("size", [(10.5, 4.5), (4.6, 4.2)])
def test_the_margins_hold_every_label(plot, size):
    figure = figures.draw_panel(plot, size=size)
    with figures.style():
        figure.draw_without_rendering()
    width, height = figure.bbox.size
    for axes in figure.axes:
        box = axes.get_tightbbox()
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
    assert figure.axes[0].get_position().width > 0.3


def test_labels_cover_neither_each_other_nor_points_and_are_left_out_instead(axes, rng):
    places = rng.uniform(size=(30, 2))
    axes.plot(*places.T, "o")
    figures.place_labels(axes, places, [f"label {i}" for i in range(30)])
    boxes = [text.get_window_extent() for text in axes.texts]
    assert 3 <= len(boxes) < 30
    assert not any(one.overlaps(two) for one, two in combinations(boxes, 2))
    spots = axes.transData.transform(places)
    assert not any(box.contains(*spot) for box in boxes for spot in spots)


@pytest.mark.parametrize("slope", [1.0, -1.0])
def test_labels_keep_off_a_curve(axes, slope):
    places = np.column_stack([np.arange(4.0), slope * np.arange(4.0)])
    (curve,) = axes.plot(*places.T, "o-")
    figures.place_labels(axes, places, list("abcd"))
    path = curve.get_transform().transform_path(curve.get_path())
    boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) == 4
    assert not any(path.intersects_bbox(box, filled=False) for box in boxes)


def test_labels_stay_in_the_figure_and_off_the_ticks(axes):
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    figures.place_labels(axes, [[0.0, 0.0], [1.0, 1.0]], ["lowest label", "highest label"])
    whole, ticks = axes.figure.bbox, [*axes.get_xticklabels(), *axes.get_yticklabels()]
    boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) == 2
    for box in boxes:
        assert whole.x0 < box.x0 < box.x1 < whole.x1 and whole.y0 < box.y0 < box.y1 < whole.y1
        assert not any(box.overlaps(tick.get_window_extent()) for tick in ticks)


def test_a_power_of_ten_is_said_in_the_label_and_not_over_the_title():
    def plot(axes):
        axes.plot(GRID, 1e-7 * GRID)

    figure = figures.draw_panel(plot, ylabel="y", title="Prediction")
    figure.draw_without_rendering()
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert axes.get_ylabel() == "y (× 1e−7)" and not axes.yaxis.offsetText.get_visible()


def test_long_labels_that_begin_alike_stay_different():
    names = [f"temperature of the upper furnace zone {number}" for number in (1, 2)]
    short = figures.shorten_labels([*names, "acid", "acid"], 22)
    assert len(set(short)) == 3 and max(map(len, short)) <= 22
    assert short[0].endswith("zone 1") and short[2:] == ["acid", "acid"]
