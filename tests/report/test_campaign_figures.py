"""The curves of a campaign show what they were given and when to stop."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from twofold.report.campaign_figures import (
    plot_remaining_nats,
    plot_remaining_share,
    plot_results,
)

CURVE = [
    {"measurements": count, "epistemic_share": share, "epistemic_nats": share / 2}
    for count, share in ((10, 0.4), (20, 0.1), (30, 0.04))
]


@pytest.fixture
def axes():
    return Figure(layout="constrained").subplots()


def test_the_curve_and_the_threshold_are_shown(axes):
    plot_remaining_share(axes, CURVE)
    axes.figure.draw_without_rendering()
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[10, 40], [20, 10], [30, 4]])
    np.testing.assert_allclose(axes.lines[1].get_ydata(), 5)
    assert axes.get_xlabel() == "measurements" and "%" in axes.get_ylabel()


def test_the_legend_covers_nothing(axes):
    plot_remaining_share(axes, CURVE)
    axes.figure.draw_without_rendering()
    legend = axes.get_legend().get_window_extent()
    assert legend.y1 <= axes.xaxis.get_tightbbox().y0


def test_a_lone_model_has_whole_ticks(axes):
    plot_remaining_nats(axes, CURVE[:1])
    axes.figure.draw_without_rendering()
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[10, 0.2]])
    ticks = axes.get_xticks()
    assert 10 in ticks and np.all(ticks == np.round(ticks))


def test_results_come_with_the_highest_and_lowest_so_far(axes):
    plot_results(axes, np.array([2.0, np.nan, 3.0, 1.0]), "y")
    measured, highest, lowest = (line.get_ydata() for line in axes.lines)
    np.testing.assert_array_equal(measured, [2, np.nan, 3, 1])
    np.testing.assert_array_equal(highest, [2, 2, 3, 3])
    np.testing.assert_array_equal(lowest, [2, 2, 2, 1])
