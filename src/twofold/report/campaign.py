"""How a campaign went: what was left to learn after so many measurements."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from twofold.campaign.choice import SMALL_SHARE
from twofold.report import style


def remaining_share(axes: Axes, curve: Sequence[Mapping[str, float]]) -> Axes:
    """The curve of ``Campaign.status()``: the part of the variance that more data could remove."""
    counts = [row["measurements"] for row in curve]
    shares = [100.0 * row["epistemic_share"] for row in curve]
    threshold = 100.0 * SMALL_SHARE
    axes.fill_between(counts, shares, 100.0, color=style.ALEATORIC, alpha=0.35, linewidth=0)
    axes.fill_between(counts, shares, 0.0, color=style.EPISTEMIC, alpha=0.35, linewidth=0)
    axes.plot(counts, shares, "o-", color=style.EPISTEMIC, label="more data could remove")
    axes.axhline(threshold, color=style.CHOSEN, linestyle="--", label=f"stop below {threshold:g} %")
    axes.text(
        0.97, 0.6, "noise: stays, however\noften one measures",
        transform=axes.transAxes, ha="right", va="center",
    )  # fmt: skip
    axes.set(
        xlabel="measurements",
        ylabel="share of the predictive variance (%)",
        title="What is left to learn",
        ylim=(0, 100),
    )
    axes.legend(loc="upper right", frameon=True, framealpha=0.9)
    return axes
