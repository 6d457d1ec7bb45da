"""Draw the figures of ``docs/concepts``.

python scripts/concept_figures.py             # a few minutes on two cores
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from scipy.optimize import minimize
from scipy.stats import norm

from paper.fits import found_methods
from paper.markdown import metrics
from twofold import BNNLVRegressor
from twofold.envs.toy import BIMODAL, HETEROSCEDASTIC
from twofold.report.figures import (
    ALEATORIC,
    CHOSEN,
    DATA,
    EPISTEMIC,
    PALETTE,
    POINTS,
    TOTAL,
    TRUTH,
    style,
)
from twofold.uncertainty.predictive import Nested, components

ROOT = Path(__file__).resolve().parents[1]
IMAGES, RESULTS = ROOT / "docs/images", ROOT / "results"
ALPHAS = {
    "α = 1": ("figure_2", PALETTE[0]),
    "α = 0.5": ("appendix_b_bimodal_alpha_0.5", PALETTE[1]),
    "α = 0 (variational Bayes)": ("appendix_b_bimodal_vb", PALETTE[3]),
    "Hamiltonian Monte Carlo": ("appendix_a_bimodal_hmc", TOTAL),
}
POSTERIORS = {
    "langevin": "Langevin chains",
    "ensemble": "ensemble",
    "alpha_1": "α = 1",
    "vb": "variational Bayes",
}


def save(figure: plt.Figure, name: str) -> None:
    """Save as a small PNG."""
    figure.savefig(IMAGES / f"concept_{name}.png", dpi=100, bbox_inches="tight")
    plt.close(figure)


def fit_quickly(x: np.ndarray, y: np.ndarray, **settings: Any) -> BNNLVRegressor:
    """Fit the quick ensemble."""
    return BNNLVRegressor(inference="ensemble", random_state=0, verbose=False, **settings).fit(x, y)


def draw_points(axes: Axes, x: np.ndarray, y: np.ndarray, colour: str = POINTS) -> None:
    """Draw measurements or predictive draws."""
    axes.scatter(x, y, s=4, color=colour, alpha=0.5, linewidths=0, rasterized=True)


def evaluate_network(model: BNNLVRegressor, grid: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """``f(x, z; W)`` of the first network over x, for given values of z in prior deviations."""
    draws = model.posterior_.sample(jax.random.key(0), 1)
    z = jnp.asarray(levels * model.model_.latent_variance**0.5, jnp.float32)[:, None, None]
    x = jnp.asarray(model.x_standardizer_.transform(grid[:, None]), jnp.float32)
    nested = Nested(jnp.asarray(draws.weights), jnp.asarray(draws.log_noise), z)
    outputs = np.asarray(components(model.model_, nested, x).mean)[:, 0, 0]
    return outputs * model.y_standardizer_.scale + model.y_standardizer_.mean


def latent_inputs() -> None:
    """The same data with and without a latent input, and what the latent input does."""
    x, y = BIMODAL.training_data(0)
    grid = np.linspace(BIMODAL.low, BIMODAL.high, 200)
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True, layout="constrained")
    for axis, latents, title in (
        (axes[0], 0, "Without a latent input: one mode"),
        (axes[1], 1, "With a latent input: two modes"),
    ):
        model = fit_quickly(x, y, latent_dim=latents)
        drawn = model.sample(grid[:, None], 12)
        draw_points(axis, x[:, 0], y)
        draw_points(axis, np.broadcast_to(grid, drawn.shape), drawn, CHOSEN)
        axis.set(title=title, xlabel="x", xlim=(grid[0], grid[-1]))
    levels = np.linspace(-2.0, 2.0, 9)
    for level, curve in zip(levels, evaluate_network(model, grid, levels), strict=True):
        colour = plt.get_cmap("cividis")((level + 2.0) / 4.0)
        axes[2].plot(grid, curve, color=colour, linewidth=1.5)
    scale = plt.cm.ScalarMappable(plt.Normalize(-2.0, 2.0), "cividis")
    figure.colorbar(scale, ax=axes[2], label="z (prior deviations)", ticks=[-2, 0, 2])
    axes[2].set(title="One network: a curve for each z", xlabel="x")
    axes[0].set_ylabel("y")
    axes[0].plot([], [], "o", color=POINTS, markersize=3, label="measurements")
    axes[0].plot([], [], "o", color=CHOSEN, markersize=3, label="draws of the model")
    axes[0].legend(loc="lower left", fontsize=8)
    save(figure, "latent_inputs")


def two_kinds() -> None:
    """Both parts over x with few data and with many."""
    grid = np.linspace(-5.0, 5.0, 200)
    figure, axes = plt.subplots(2, 2, figsize=(9.5, 5.4), sharex=True, layout="constrained")
    for (top, bottom), size in zip(axes.T, (300, 3000), strict=True):
        x, y = HETEROSCEDASTIC.training_data(0, size)
        model = fit_quickly(x, y)
        parts = model.decompose(grid[:, None], by="variance").standard_deviations()
        draw_points(top, x[:, 0], y)
        top.plot(grid, model.predict(grid[:, None]), color=TOTAL, linewidth=1.2)
        top.set(title=f"{size:,} measurements", ylim=(-17, 17))
        bottom.plot(grid, parts.epistemic, color=EPISTEMIC, label="epistemic: falls with more data")
        bottom.plot(grid, parts.aleatoric, color=ALEATORIC, label="aleatoric: remains")
        noise = 3.0 * np.abs(np.cos(grid / 2.0))
        bottom.plot(grid, noise, "--", color=TRUTH, label="true noise", linewidth=1.2)
        bottom.set(xlabel="x", ylim=(0, 5), xlim=(-5, 5))
    axes[0, 0].set_ylabel("y")
    axes[1, 0].set_ylabel("standard deviation (units of y)")
    axes[1, 1].legend(loc="upper right")
    save(figure, "two_kinds")


def nearest_normal(alpha: float, grid: np.ndarray, density: np.ndarray) -> np.ndarray:
    """The normal density nearest to another one in α-divergence, starting from its right mode."""
    step = grid[1] - grid[0]

    def divergence(parameters: np.ndarray) -> float:
        own = norm.logpdf(grid, parameters[0], np.exp(parameters[1]))
        ratio = np.log(density) - own
        if alpha < 1e-3:
            return float(-np.sum(np.exp(own) * ratio) * step)
        if alpha > 0.999:
            return float(np.sum(density * ratio) * step)
        kept = np.sum(np.exp(own + alpha * ratio)) * step
        return float((1.0 - kept) / (alpha * (1.0 - alpha)))

    best = minimize(divergence, np.array([1.4, -0.5]), method="Nelder-Mead").x
    return norm.pdf(grid, best[0], np.exp(best[1]))


def alpha() -> None:
    """The effect of α on one weight, and on the epistemic part of the bimodal problem."""
    grid = np.linspace(-6.0, 6.0, 2001)
    density = 0.45 * norm.pdf(grid, -1.6, 0.55) + 0.55 * norm.pdf(grid, 1.6, 0.7)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    left.fill_between(grid, density, color=DATA, alpha=0.4, linewidth=0, label="true posterior")
    for value, (name, (_, colour)) in zip((1.0, 0.5, 0.0), ALPHAS.items(), strict=False):
        left.plot(grid, nearest_normal(value, grid, density), color=colour, label=name)
    left.set(xlabel="a weight", ylabel="density", title="The nearest normal", xlim=(-4.5, 4.5))
    left.set_ylim(0, 0.62)
    left.legend(loc="upper left", fontsize=8)
    for name, (record, colour) in ALPHAS.items():
        curve = np.genfromtxt(RESULTS / f"{record}.csv", delimiter=",", names=True)
        right.plot(curve["x"], curve["epistemic"], color=colour, label=name)
    right.set(xlabel="x (fewer data on the right)", ylabel="epistemic entropy (nats)")
    right.set(title="Bimodal problem", ylim=(0, None))
    right.legend(loc="upper left", fontsize=8)
    save(figure, "alpha")


def trust() -> None:
    """Inside the data, in a gap and beyond the edge; and coverage beyond the edge, as recorded."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-3.0, -0.8, 120), rng.uniform(0.8, 3.0, 120)])
    y = np.sin(2.0 * x) + 0.3 * x + 0.15 * rng.standard_normal(x.size)
    model = fit_quickly(x[:, None], y)
    grid = np.linspace(-6.0, 6.0, 240)
    mean = model.predict(grid[:, None])
    doubt = 2.0 * np.sqrt(model.decompose(grid[:, None], by="variance").epistemic)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    left.fill_between(grid, mean - doubt, mean + doubt, color=EPISTEMIC, alpha=0.3, linewidth=0,
                      label="mean ± 2 epistemic deviations")  # fmt: skip
    draw_points(left, x, y)
    left.plot(grid, mean, color=EPISTEMIC)
    left.plot(grid, np.sin(2.0 * grid) + 0.3 * grid, "--", color=TRUTH, label="true mean")
    left.set(xlabel="x", ylabel="y", ylim=(-6, 6.5), title="A gap, and two edges")
    left.legend(loc="upper left", fontsize=8)
    values = metrics("off_manifold", RESULTS)
    reach = (1.0, 1.25, 1.5, 2.0, 3.0)
    known = found_methods(list(POSTERIORS), values)
    for colour, method in zip(PALETTE, known, strict=False):
        shares = [values[f"beyond/{method}/coverage_90/{far}/mean"] for far in reach]
        right.plot(reach, shares, "o-", color=colour, markersize=4, label=POSTERIORS[method])
    right.axhline(0.9, color=DATA, linestyle=":", linewidth=1.2)
    right.set(xlabel="size of the box (1: the data)", ylim=(0, 1.02))
    right.set(ylabel="truth inside the 90 % interval", title="60 inputs, beyond the data")
    right.legend(loc="lower left", fontsize=8)
    save(figure, "trust")


if __name__ == "__main__":
    with style():
        for draw in (alpha, trust, latent_inputs, two_kinds):
            draw()
            print(f"drew {draw.__name__}")
