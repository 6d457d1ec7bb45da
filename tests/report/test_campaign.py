"""The curve of a campaign shows what it was given and when to stop."""

import matplotlib.pyplot as plt
import numpy as np

from twofold.report.campaign import remaining_share


def test_the_curve_and_the_threshold_are_shown(tmp_path):
    figure, axes = plt.subplots()
    curve = [
        {"measurements": count, "epistemic_share": share, "epistemic_nats": 0.1}
        for count, share in ((10, 0.4), (20, 0.1), (30, 0.04))
    ]
    remaining_share(axes, curve)
    figure.savefig(tmp_path / "figure.png")
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[10, 40], [20, 10], [30, 4]])
    np.testing.assert_allclose(axes.lines[1].get_ydata(), 5)
    assert axes.get_xlabel() == "measurements" and "%" in axes.get_ylabel()
    plt.close(figure)
