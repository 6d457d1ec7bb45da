"""Use BNNLVRegressor as the surrogate model of a BoTorch loop.

    .peers/interop/bin/python examples/interop/botorch_surrogate.py [--smoke] [--output FOLDER]

BoTorch gets posterior samples of the mean outcome, so noise does not count as information. The
samples have no PyTorch gradients, so the acquisition function is maximised over Sobol points.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from botorch.acquisition import qExpectedImprovement
from botorch.models.model import Model
from botorch.optim import optimize_acqf_discrete
from botorch.posteriors.ensemble import EnsemblePosterior
from botorch.utils.sampling import draw_sobol_samples

from twofold import BNNLVRegressor, Ensemble

BOUNDS = torch.tensor([[0.0], [1.0]], dtype=torch.float64)


class TwofoldModel(Model):
    """A fitted regressor as a BoTorch model with one output."""

    num_outputs = 1

    def __init__(self, regressor: BNNLVRegressor):
        super().__init__()
        self.regressor = regressor

    def posterior(self, X: torch.Tensor, **_: object) -> EnsemblePosterior:
        """Samples of ``E[y|x,W]``, one for each weight draw, ``batch × samples × q × 1``."""
        means, _ = self.regressor.conditional_moments(X.reshape(-1, X.shape[-1]).numpy())
        values = torch.as_tensor(means[:, 0]).reshape(len(means), *X.shape[:-1], 1)
        return EnsemblePosterior(values.movedim(0, -3))


def measure(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A function with its maximum, 1, at x = 0.7, and noise that grows with x."""
    return np.exp(-np.square((x[:, 0] - 0.7) / 0.15)) + 0.2 * x[:, 0] * rng.normal(size=len(x))


def main() -> None:
    """Three points per round, chosen as a batch by expected improvement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--smoke", action="store_true", help="a short run of a few seconds")
    smoke = parser.parse_args().smoke

    rng = np.random.default_rng(0)
    method = Ensemble(members=2, updates=20) if smoke else Ensemble()
    x = rng.uniform(size=(12, 1))
    y = measure(x, rng)
    for number in range(1 if smoke else 5):
        model = TwofoldModel(BNNLVRegressor(inference=method, random_state=0).fit(x, y))
        best = model.regressor.predict(x).max()
        acquisition = qExpectedImprovement(model, best_f=best)
        choices = draw_sobol_samples(BOUNDS, n=128, q=1, seed=number)[:, 0]
        points, _ = optimize_acqf_discrete(acquisition, q=3, choices=choices)
        x = np.vstack([x, points.numpy()])
        y = np.append(y, measure(points.numpy(), rng))
        print(f"round {number}: measured at {', '.join(f'{p:.2f}' for p in points[:, 0].tolist())}")
    model = BNNLVRegressor(inference=method, random_state=0).fit(x, y)
    grid = np.linspace(0.0, 1.0, 201)[:, None]
    print(f"best setting {grid[model.predict(grid).argmax(), 0]:.2f} (true optimum 0.70)")


if __name__ == "__main__":
    main()
