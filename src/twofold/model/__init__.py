"""The model: shapes, priors and densities, and the interface of a posterior."""

from twofold.model.density import log_joint, log_likelihood, log_marginal, log_prior
from twofold.model.spec import BNNLV, Draws, Posterior, SampledPosterior

__all__ = [
    "BNNLV", "Draws", "Posterior", "SampledPosterior", "log_joint", "log_likelihood",
    "log_marginal", "log_prior",
]  # fmt: skip
