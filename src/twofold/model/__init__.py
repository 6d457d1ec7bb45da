"""The model: its shapes and priors, its densities, and what a posterior of it looks like."""

from twofold.model.density import log_joint, log_likelihood, log_marginal, log_prior
from twofold.model.spec import BNNLV, Draws, Posterior, SampledPosterior

__all__ = [
    "BNNLV",
    "Draws",
    "Posterior",
    "SampledPosterior",
    "log_joint",
    "log_likelihood",
    "log_marginal",
    "log_prior",
]
