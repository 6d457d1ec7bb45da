"""A second opinion on policies: a linear regression in place of the model.

Where a linear regression predicts the next step better than the model, a policy may exploit errors
that only the model makes. It is then recommended only if it also saves on the regression.
"""

import copy

import jax.numpy as jnp
import numpy as np

from twofold.estimators.linear import LinearGaussian
from twofold.model.spec import BNNLV, SampledPosterior
from twofold.plant.policy import DTYPE
from twofold.plant.rollout import DynamicsModel

DRAWS = 2  # equal ones: roll-outs average over at least two


def linear_model(model: DynamicsModel) -> DynamicsModel:
    """A linear regression with independent Gaussian residuals, fitted to the model's log."""
    regressor, (x, y) = copy.copy(model.regressor), model.embedding.design(model.log)
    x, y = regressor.x_standardizer_.transform(x), regressor.y_standardizer_.transform(y)
    found = LinearGaussian.fit(x, y.reshape(len(y), -1))
    slopes = found.coefficients[1:].T / found.inputs.scale
    bias = found.coefficients[0] - slopes @ found.inputs.mean
    network = np.concatenate([slopes.ravel(), bias]), np.log(np.diag(found.covariance))
    weights, log_noise = (jnp.tile(jnp.asarray(part, DTYPE), (DRAWS, 1)) for part in network)
    regressor.model_ = BNNLV(x.shape[1], len(bias), (), 0, 1.0, 1.0)
    regressor.posterior_ = SampledPosterior(weights, log_noise)
    return model.with_regressor(regressor)
