"""Posterior samples of the Langevin chains as ArviZ InferenceData.

    .peers/interop/bin/python examples/interop/arviz_inference_data.py [--smoke] [--output FOLDER]

Permuting hidden units does not change a network, so chains are compared by their predictions: the
mean and the standard deviation of y at a few inputs.
"""

import argparse
from pathlib import Path

import arviz
import numpy as np

from twofold import BNNLVRegressor, Langevin
from twofold.uncertainty import predictive_trace


def to_inference_data(model: BNNLVRegressor, x: np.ndarray, chains: int) -> arviz.InferenceData:
    """Means and deviations of y at ``x [N, D]`` for each draw, and predictive samples."""
    weights, log_noise = (
        np.reshape(part, (chains, -1, part.shape[-1])) for part in model.posterior_
    )
    scaled = model.x_standardizer_.transform(x).astype(model.dtype)
    trace = np.asarray(predictive_trace(model.model_, weights, log_noise, scaled))
    mean, log_variance = np.split(trace, 2, axis=-1)
    scale, shift = model.y_standardizer_.scale[0], model.y_standardizer_.mean[0]
    posterior = {"mean": shift + scale * mean, "deviation": scale * np.exp(0.5 * log_variance)}
    draws = model.sample(x, trace.shape[0] * trace.shape[1])
    predictive = {"y": draws.reshape(*trace.shape[:2], len(x))}
    return arviz.from_dict(
        posterior=posterior, posterior_predictive=predictive, constant_data={"x": x},
        dims={name: ["point"] for name in ("mean", "deviation", "y")},
    )  # fmt: skip


def main() -> None:
    """Fit, convert, and print ArviZ's summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--smoke", action="store_true", help="a short run of a few seconds")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)

    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (200, 1))
    y = np.sin(2.0 * x[:, 0]) + 0.2 * rng.normal(size=200)
    method = Langevin(chains=2, updates=20, steps=25, samples=6) if arguments.smoke else Langevin()
    model = BNNLVRegressor(inference=method, random_state=0).fit(x, y)
    points = np.array([[-1.5], [0.0], [1.5], [2.5]])  # the last one lies outside the data
    data = to_inference_data(model, points, method.chains)
    print(arviz.summary(data, kind="stats"))
    path = arguments.output / "posterior.nc"
    data.to_netcdf(str(path))
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
