"""The paper's panels show what they are given, with names and units."""

import numpy as np

from paper.figure_3 import draw_maps
from paper.toy_figures import Toy, draw_panels
from twofold.uncertainty.decomposition import Decomposition, Parts


def make_split(size):
    values = np.linspace(0.5, 1.5, size)
    errors = Parts(*[np.full(size, 0.01)] * 3)
    return Decomposition("entropy", 2 * values, values, values, errors)


def test_six_panels(rng, tmp_path):
    grid = np.linspace(-1, 1, 20)
    toy = Toy(
        (rng.normal(size=30), rng.normal(size=30)),
        grid,
        make_split(20),
        rng.normal(size=(5, 20)),
        np.zeros(20),
    )
    figure = draw_panels(toy, "some problem")
    figure.savefig(tmp_path / "figure.png")
    titles = [axes.get_title(loc=loc) for axes in figure.axes for loc in ("left", "center")]
    text = " ".join(titles)
    for letter in "abcdef":
        assert f"({letter})" in text
    shown = figure.axes[5].lines[0]
    np.testing.assert_array_equal(shown.get_ydata(), toy.split.epistemic)
    assert [axes.get_ylabel() for axes in figure.axes[3:]] == ["nats"] * 3


def test_four_maps(rng, tmp_path):
    centres = np.linspace(0.5, 4.5, 5)
    figure = draw_maps(rng.uniform(0, 5, (40, 2)), centres, make_split(25))
    figure.savefig(tmp_path / "figure.png")
    shown = figure.axes[3].collections[0].get_array()
    np.testing.assert_allclose(np.ravel(shown), make_split(25).epistemic)
    assert all("x" in axes.get_xlabel() for axes in figure.axes[:4])
