"""Tests on held-out rows of whether the noise needs a latent input."""

import numpy as np
from scipy.special import eval_legendre
from scipy.stats import chi2

from twofold.core.numerics import Padded
from twofold.estimators.members import Members
from twofold.inference import ensemble
from twofold.inference.ensemble import SCORE, STOP, Network, summarise

SIGNIFICANT = 0.01  # p-value
SIGNIFICANT_ERRORS = 2.0  # standard errors
NEGLIGIBLE = 1e-6
ORDERS = (3, 4, 5, 6)  # the first two are fitted by the network's mean and noise


def latent_evidence(members: Members, networks: Network, data: Padded) -> float:
    """p-value of the hypothesis that the noise is Gaussian, given x and a network (each member, or
    the current state of its chain).

    Neyman's smooth test: under the hypothesis, the predictive distribution function at a held-out y
    is uniform. The third to sixth Legendre polynomials, which respond to skewness, tails and
    multiple modes, and their products with linear functions of the inputs, which respond to
    variation over x, are then uncorrelated with mean 0.
    """
    rows = int(data.size)
    held_out = members.held_out(STOP, SCORE)
    ranks = ensemble.out_of_bag_ranks(members.model, networks, held_out, data)
    ranks = np.asarray(ranks, np.float64)[:rows]
    known = np.isfinite(ranks).all(axis=1)
    u, x = 2.0 * ranks[known] - 1.0, np.asarray(data.x, np.float64)[:rows][known]
    if len(x) < 2:
        return 1.0
    shapes = [(2 * k + 1) ** 0.5 * eval_legendre(k, u) for k in ORDERS]
    basis, sizes, _ = np.linalg.svd(np.column_stack([np.ones(len(x)), x]), full_matrices=False)
    weights = len(x) ** 0.5 * basis[:, sizes > NEGLIGIBLE * sizes[0]]
    products = np.concatenate([weights[:, :, None] * shape[:, None] for shape in shapes], axis=1)
    statistic = float(np.sum(np.square(products.sum(axis=0)) / len(x)))
    return float(chi2.sf(statistic, products[0].size))


def needs_latent(scores: np.ndarray, latent: Members) -> bool:
    """Whether z improves the prediction of held-out rows significantly."""
    gain = summarise(latent.scores - scores)
    return gain.score > SIGNIFICANT_ERRORS * gain.standard_error
