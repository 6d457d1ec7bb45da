"""The calibration figure draws what it says."""

import io

import numpy as np
import pytest

from twofold.report import Scores, draw_calibration
from twofold.uncertainty import metrics


def scores(rng, points=300, spread=1.0, unit="m"):
    samples, y = spread * rng.normal(size=(199, points)), rng.normal(size=points)
    return Scores(metrics.pit(samples, y), metrics.crps(samples, y), np.full(points, -1.5), unit)


def test_both_panels_are_labelled_and_rendered(rng):
    figure = draw_calibration({"right": scores(rng), "too sure": scores(rng, spread=0.5)})
    left, right = figure.axes
    assert left.get_xlabel() == "nominal coverage (%)"
    assert left.get_ylabel() == "points inside the interval (%)"
    assert "predictive probability" in right.get_xlabel()
    assert left.get_title(loc="left").startswith("Coverage")
    assert right.get_title(loc="left").startswith("PIT")
    figure.savefig(io.BytesIO(), format="png")


def test_the_legend_holds_each_name_and_its_mean_scores(rng):
    one, other = scores(rng), scores(rng, unit="")
    (legend,) = draw_calibration({"one": one, "other": other}).legends
    band, first, second = (text.get_text() for text in legend.get_texts())
    assert "95 % band" in band
    assert first.startswith(f"one: CRPS {one.crps.mean():.3g} m · log-likelihood -1.50 nats")
    assert second.startswith(f"other: CRPS {other.crps.mean():.3g} · log-likelihood")


def test_the_curve_is_the_coverage(rng):
    score = scores(rng, spread=0.5)
    left = draw_calibration({"narrow": score}).axes[0]
    nominal, observed = left.get_lines()[-1].get_data()
    np.testing.assert_allclose(observed, 100 * metrics.coverage(score.pit, nominal / 100))


def test_the_histogram_is_relative_to_uniform(rng):
    right = draw_calibration({"right": scores(rng)}, bins=10).axes[1]
    heights = right.patches[-1].get_data().values
    assert len(heights) == 10 and heights.mean() == pytest.approx(1.0)


def test_names_with_different_numbers_of_points_are_refused(rng):
    with pytest.raises(ValueError, match=r"same number of points .* \{'a': 300, 'b': 200\}"):
        draw_calibration({"a": scores(rng), "b": scores(rng, points=200)})


def test_nothing_to_draw_and_too_much_are_refused(rng):
    with pytest.raises(ValueError, match=r"1 to 20 \w+, got 0"):
        draw_calibration({})
    with pytest.raises(ValueError, match=r"1 to 20 \w+, got 21"):
        draw_calibration(dict.fromkeys(map(str, range(21)), scores(rng)))
