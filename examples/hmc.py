"""How close is the epistemic part of a quick posterior to that of Hamiltonian Monte Carlo?

    python examples/hmc.py [--smoke] [--output FOLDER]

A problem with two branches, measured often on the left and seldom on the right. The paper's mean
field (α = 1), variational Bayes, the default (Langevin chains) and the ensemble that these start
from are compared with short chains of the no-U-turn sampler on a small network. The chains are
checked as well: one half against the other.
"""

import argparse
import copy
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import spearmanr

from twofold import NUTS, Alpha, BNNLVRegressor, Decomposition, Ensemble, Langevin
from twofold.core.sharding import enable_compile_cache
from twofold.envs.toy import BIMODAL
from twofold.report import figures

SHARED: dict[str, Any] = {"hidden_layer_sizes": (10, 10), "random_state": 0}
CHAINS = NUTS(chains=4, warmup=400, annealing=200, samples=100, max_doublings=6)
METHODS: dict[str, Any] = {
    "HMC (NUTS)": CHAINS,
    "Langevin": Langevin(),
    "ensemble": Ensemble(),
    "α = 1": Alpha(alpha=1.0, epochs=2000),
    "VB": Alpha(alpha=1e-6, epochs=2000),
}
SMOKE = {"n_weight_draws": 8, "n_latent_draws": 20}
SMOKE_METHODS: dict[str, Any] = {
    "HMC (NUTS)": replace(CHAINS, warmup=4, annealing=2, samples=4, max_doublings=2),
    "Langevin": Langevin(chains=2, updates=20, steps=25, samples=2),
    "ensemble": Ensemble(members=2, updates=20),
    "α = 1": Alpha(alpha=1.0, epochs=2),
    "VB": Alpha(alpha=1e-6, epochs=2),
}
SIZE, SMOKE_SIZE = 300, 40
REFERENCE = "HMC (NUTS)"


def fit(size: int, smoke: bool) -> dict[str, tuple[BNNLVRegressor, float]]:
    """Each method's model of the same data, and its CPU seconds."""
    x, y = BIMODAL.training_data(0, size)
    found = {}
    for name, method in (SMOKE_METHODS if smoke else METHODS).items():
        start = time.process_time()
        model = BNNLVRegressor(inference=method, **SHARED | (SMOKE if smoke else {}))
        found[name] = model.fit(x, y), time.process_time() - start
    return found


def halves(model: BNNLVRegressor) -> list[BNNLVRegressor]:
    """The first and the second half of the chains, as separate models."""
    draws, parts = len(model.posterior_.weights), []
    for chosen in (slice(draws // 2), slice(draws // 2, None)):
        part = copy.copy(model)
        part.posterior_ = type(model.posterior_)(*(leaf[chosen] for leaf in model.posterior_))
        parts.append(part)
    return parts


def agreement(one: Decomposition, other: Decomposition) -> str:
    """Rank correlation and mean difference of two epistemic curves."""
    rank = spearmanr(one.epistemic, other.epistemic).statistic
    apart = np.abs(one.epistemic - other.epistemic).mean()
    return f"{rank:11.2f}{apart:14.3f}"


def table(models: dict[str, Any], splits: dict[str, Decomposition], grid: np.ndarray) -> None:
    """Agreement with the reference, fit to new data, and time."""
    x, y = BIMODAL.test_data(0)
    one, other = (half.decompose(grid) for half in halves(models[REFERENCE][0]))
    print("                 rank corr.  difference   test log-lik. CPU seconds")
    for name, (model, seconds) in models.items():
        pair = (one, other) if name == REFERENCE else (splits[name], splits[REFERENCE])
        print(
            f"{name:<16}{agreement(*pair)}{model.log_likelihood(x, y).mean():16.3f}{seconds:12.0f}"
        )
    report = models[REFERENCE][0].diagnostics_
    print(
        "Rank correlation of the epistemic entropy with HMC's, and mean difference (nats); for\n"
        "HMC those of two of its chains and the other two. Chains can be trusted if R-hat is\n"
        "below 1.05 and the effective sample size above 100; here the worst are "
        f"{report.r_hat_max:.2f} and {report.ess_min:.0f}."
    )


def draw(path: Path, splits: dict[str, Decomposition], grid: np.ndarray, data: Any) -> None:
    """Epistemic and aleatoric entropy of every method, over the density of the data."""
    looks = {REFERENCE: (figures.TOTAL, "-"), "ensemble": (figures.PALETTE[0], "--")}
    looks["Langevin"] = figures.PALETTE[1], "-"
    looks |= {"α = 1": (figures.PALETTE[3], "-."), "VB": (figures.PALETTE[4], ":")}
    with figures.style():
        figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
        axes[0].scatter(*data, s=8, color=figures.POINTS, alpha=0.6, linewidths=0)
        axes[0].set(title=f"{len(data[1])} measurements", xlabel="x", ylabel="y")
        axes[0].set_xlim(grid[0, 0], grid[-1, 0])
        for axis, part in zip(axes[1:], ("epistemic", "aleatoric"), strict=True):
            for name, split in splits.items():
                colour, line = looks[name]
                axis.plot(grid, getattr(split, part), line, color=colour, label=name)
            axis.set(title=f"{part.capitalize()} entropy", xlabel="x", ylabel="nats")
        axes[1].set_ylim(bottom=0)
        axes[2].plot(grid, BIMODAL.entropy(grid[:, 0]), color=figures.TRUTH, label="true process")
        axes[1].legend()
        axes[2].legend()
        figure.savefig(path, dpi=100)
    plt.close(figure)


def main() -> None:
    """Fit all methods, split over a grid, compare, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--smoke", action="store_true", help="a short run of a few seconds")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")  # short fits warn; the table shows the same
    enable_compile_cache()
    size = SMOKE_SIZE if arguments.smoke else SIZE
    models = fit(size, arguments.smoke)
    grid = np.linspace(BIMODAL.low, BIMODAL.high, 60)[:, None]
    splits = {name: model.decompose(grid) for name, (model, _) in models.items()}
    table(models, splits, grid)
    draw(arguments.output / "hmc.png", splits, grid, BIMODAL.training_data(0, size))
    print(f"wrote {arguments.output / 'hmc.png'}")


if __name__ == "__main__":
    main()
