"""The wet-chicken river from above: drift, turbulence, and canoes on their way."""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from twofold.envs.wet_chicken import Params, drift, turbulence_magnitude
from twofold.report.style import CHOSEN, PALETTE


def river_figure(params: Params, paths: np.ndarray, actions: np.ndarray) -> Figure:
    """``paths [E, T + 1, 2]`` and ``actions [E, T, 2]`` of canoes, over the river's turbulence."""
    figure, axis = plt.subplots(figsize=(6.4, 6.2), layout="constrained")
    _water(axis, params)
    for number, (path, paddled) in enumerate(zip(paths, actions, strict=True)):
        # Who lands at x = 0 without having paddled there has fallen.
        fell = (path[1:, 0] == 0.0) & (path[:-1, 0] + paddled[:, 0] > 0.0)
        _canoe(axis, path, fell, PALETTE[number % len(PALETTE)], f"canoe {number + 1}")
    axis.plot([], [], "x", color=CHOSEN, markersize=8, markeredgewidth=2, label="falls from here")
    axis.axhline(params.length, color="black", linewidth=3)
    axis.text(
        params.width / 2,
        params.length + 0.06,
        "waterfall: back to the origin",
        ha="center",
        va="bottom",
    )
    axis.set(
        xlabel="x (left bank to right bank)",
        ylabel="y (towards the waterfall)",
        xlim=(-0.15, params.width + 0.15),
        ylim=(-0.15, params.length + 0.45),
        aspect="equal",
    )
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def _water(axis: Axes, params: Params) -> None:
    x = np.linspace(0.0, params.width, 101)
    reach = np.asarray(turbulence_magnitude(params, jnp.asarray(x)))
    water = axis.imshow(
        reach[None], extent=(0, params.width, 0, params.length), origin="lower",
        aspect="auto", cmap="Blues", vmin=0, vmax=float(reach.max()), alpha=0.5,
    )  # fmt: skip
    axis.figure.colorbar(water, ax=axis, label="turbulence: farthest throw in one step")
    places = np.linspace(0.5, params.width - 0.5, 5)
    speed = np.asarray(drift(params, jnp.asarray(places)))
    axis.text(places[-1], 0.98, "drift (to ¼ scale)", ha="center", fontsize=9, color="0.25")
    axis.quiver(
        places, np.full(5, 0.12), np.zeros(5), speed, color="0.35", alpha=0.8, width=0.006,
        angles="xy", scale_units="xy", scale=4.0,
    )  # fmt: skip


def _canoe(axis: Axes, path: np.ndarray, fell: np.ndarray, color: str, label: str) -> None:
    """A line for each leg; a fall is marked where it began."""
    legs = np.split(path, np.flatnonzero(fell) + 1)
    for leg in legs:
        axis.plot(*leg.T, "o-", color=color, markersize=3, linewidth=1.2, label=label)
        label = "_again"
    at = path[:-1][fell]
    axis.plot(*at.T, "x", color=CHOSEN, markersize=8, markeredgewidth=2)
