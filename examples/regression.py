"""For which patients is a model uncertain for lack of data, and for which is the outcome noisy?

    python examples/regression.py [--smoke] [--output FOLDER]

The diabetes data set of scikit-learn: age, sex, BMI and blood values of 442 patients, and the
progression of the disease after a year. 142 are held out; a linear regression and a Gaussian
process are compared with two posteriors of the network.
"""

import argparse
import warnings
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm, spearmanr
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from twofold import Alpha, BNNLVRegressor, Decomposition, Langevin
from twofold.core.sharding import enable_compile_cache
from twofold.report import figures, plot_predictive_bands

KERNEL = ConstantKernel() * RBF(np.full(10, 3.0), (0.1, 1e3)) + WhiteKernel()
BASELINES = {
    "linear regression": BayesianRidge(),
    "Gaussian process": GaussianProcessRegressor(KERNEL, normalize_y=True),
}
SMOKE = {"n_weight_draws": 10, "n_latent_draws": 20}


def score(name: str, densities: np.ndarray, mean: np.ndarray, y: np.ndarray, share: str) -> None:
    """A line of the table."""
    error, root = densities.std(ddof=1) / np.sqrt(len(y)), np.sqrt(np.mean((y - mean) ** 2))
    print(f"{name:<20}{densities.mean():8.3f} ± {error:.3f}{root:8.1f}{share:>19}")


def compare(models: dict[str, BNNLVRegressor], train: Any, x: np.ndarray, y: np.ndarray) -> None:
    """Scores of all models on held-out patients, and the epistemic share of the variance."""
    print(f"{f'{len(y)} held out':<20}  log-likelihood    RMSE  epistemic variance")
    for name, model in models.items():
        split = model.decompose(x, by="variance")
        share = f"{split.epistemic.sum() / split.total.sum():.0%}"
        score(name, model.log_likelihood(x, y), model.predict(x), y, share)
    scaler = StandardScaler().fit(train[0])
    for name, rival in BASELINES.items():
        rival.fit(scaler.transform(train[0]), train[1])
        mean, deviation = rival.predict(scaler.transform(x), return_std=True)
        score(name, norm.logpdf(y, mean, deviation), mean, y, "")


def distances(train: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Mean distance to the five nearest training patients, in deviations."""
    scaler = StandardScaler().fit(train)
    near = NearestNeighbors(n_neighbors=5).fit(scaler.transform(train))
    return near.kneighbors(scaler.transform(x))[0].mean(axis=1)


def explain(x: Any, y: Any, mean: Any, parts: Decomposition, far: Any) -> None:
    """Correlations of each part, and the patients for whom it is largest."""
    for name, part in (("lack of data", parts.epistemic), ("noise", parts.aleatoric)):
        apart, error = (spearmanr(part, other).statistic for other in (far, np.abs(y - mean)))
        print(f"uncertain for {name}: rank correlation with the distance to the nearest training")
        print(f"patients {apart:.2f}, with the size of the error {error:.2f}; largest for")
        for i in np.argsort(part)[:-4:-1]:
            print(
                f"  age {x[i, 0]:.0f}, BMI {x[i, 2]:.0f}: {mean[i]:.0f}, epistemic ± "
                f"{parts.epistemic[i]:.0f}, aleatoric ± {parts.aleatoric[i]:.0f}; "
                f"measured {y[i]:.0f}"
            )


def draw(path: Path, mean: Any, y: Any, variances: Decomposition, far: Any) -> None:
    """Predictions in order, and both parts for every patient."""
    numbers, parts = np.arange(1, len(y) + 1), variances.standard_deviations()
    with figures.style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
        plot_predictive_bands(left, numbers, mean, variances, (numbers, y))
        left.set(title="Held-out patients", xlabel="patients, by prediction")
        left.set(ylabel="disease a year later (score)")
        dots = right.scatter(parts.aleatoric, parts.epistemic, c=far, s=30, cmap="viridis")
        figure.colorbar(dots, ax=right, label="distance to the nearest known patients (deviations)")
        right.set(title="Reasons for the uncertainty", ylim=(0, None))
        right.set(xlabel="noise: aleatoric deviation (score)")
        right.set(ylabel="lack of data: epistemic deviation (score)")
        figure.savefig(path, dpi=100)
    plt.close(figure)


def main() -> None:
    """Fit, score, split, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--smoke", action="store_true", help="a short run of a few seconds")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore", ConvergenceWarning)  # short fits warn that they are short
    enable_compile_cache()
    patients = load_diabetes(scaled=False)
    parts = train_test_split(patients.data, patients.target, test_size=142, random_state=0)
    train, x, y = (parts[0], parts[2]), parts[1], parts[3]
    settings: dict[str, Any] = {"default": Langevin(), "α = 1": Alpha(epochs=4000)}
    if arguments.smoke:
        short = Langevin(chains=2, updates=20, steps=25, samples=2)
        settings = {"default": short, "α = 1": Alpha(epochs=5)}
    models = {
        f"twofold, {name}": BNNLVRegressor(
            inference=own, random_state=0, **(SMOKE if arguments.smoke else {})
        ).fit(*train)
        for name, own in settings.items()
    }
    compare(models, train, x, y)
    model = models["twofold, default"]
    order = np.argsort(model.predict(x))
    x, y = x[order], y[order]
    mean, variances, entropies = (
        model.predict(x),
        model.decompose(x, "variance"),
        model.decompose(x),
    )
    print(
        f"of the default's entropy, {entropies.total.mean():.2f} nats on average, more data could "
        f"remove {entropies.epistemic.mean():.2f}"
    )
    far = distances(train[0], x)
    explain(x, y, mean, variances.standard_deviations(), far)
    draw(arguments.output / "regression.png", mean, y, variances, far)
    print(f"wrote {arguments.output / 'regression.png'}")


if __name__ == "__main__":
    main()
