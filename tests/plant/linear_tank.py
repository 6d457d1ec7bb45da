"""A linear tank, and models of it that are written down instead of fitted."""

import numpy as np

from twofold import BNNLVRegressor
from twofold.core.numerics import Standardizer
from twofold.model.spec import BNNLV, SampledPosterior
from twofold.plant.embedding import embed
from twofold.plant.log import Episode, Log
from twofold.plant.rollout import DynamicsModel

NOISE = 0.3
TRUE = [-0.2, 0.5, 0.1]  # of level and flow, and a bias, in the change of the level


def log_of(episodes, steps, seed=0):
    """A tank whose level follows ``TRUE`` under random flows."""
    rng = np.random.default_rng(seed)
    parts = []
    for number in range(episodes):
        flows, levels = rng.uniform(-1, 3, (steps, 1)), [rng.normal()]
        for (flow,) in flows:
            change = TRUE[0] * levels[-1] + TRUE[1] * flow + TRUE[2]
            levels.append(levels[-1] + change + NOISE * rng.normal())
        parts.append(Episode(np.array(levels)[:, None], flows, name=str(number)))
    return Log(("level",), ("flow",), [-1.0], [3.0], tuple(parts))


def model_of(log, weights, noise=NOISE, history=1, y_scale=1.0, y_ndim=2):
    """A linear model of the change of the level, with these weights and without latent inputs."""
    embedding = embed(log, history=history)
    inputs, weights = len(embedding.input_names), np.atleast_2d(weights) / y_scale
    regressor = BNNLVRegressor((), latent_dim=0, verbose=False, n_latent_draws=1)
    regressor.model_ = BNNLV(inputs, 1, (), 0, 1.0, 1.0)
    log_noise = np.full((len(weights), 1), 2 * np.log(noise / y_scale))
    regressor.posterior_ = SampledPosterior(
        weights.astype(np.float32), log_noise.astype(np.float32)
    )
    regressor.x_standardizer_ = Standardizer(np.zeros(inputs), np.ones(inputs))
    regressor.y_standardizer_ = Standardizer(np.zeros(1), np.full(1, y_scale))
    regressor.seed_, regressor.y_ndim_, regressor.n_features_in_ = 0, y_ndim, inputs
    return DynamicsModel(regressor, embedding, cost, log)


def cost(row):
    return row["level"] + 0.1 * row["flow"]
