"""What can be reproduced: every table and figure of the paper, and what goes beyond it."""

from typing import NamedTuple


class Piece(NamedTuple):
    """A table or figure: where the paper has it, what it shows, and the experiment behind it."""

    place: str
    shows: str
    experiment: str


BEYOND = "beyond the paper"

PIECES = {
    "figure_1": Piece("Figure 1", "the split on heteroscedastic data", "figure_1"),
    "figure_2": Piece("Figure 2", "the split on bimodal data", "figure_2"),
    "figure_3": Piece("Figure 3", "the split on wet-chicken's dynamics", "figure_3"),
    "table_1": Piece("Table 1", "active learning, with Gaussian processes", "table1"),
    "figure_4a": Piece("Figure 4a", "cost and bias, industrial benchmark", "industrial_frontier"),
    "figure_4b": Piece("Figure 4b", "cost and bias, wind turbine", "wind_frontier"),
    "figure_5": Piece("Figure 5", "roll-outs, industrial benchmark", "industrial_frontier"),
    "appendix_a": Piece("Appendix A", "the toys with Hamiltonian Monte Carlo", "appendix_a"),
    "appendix_b": Piece("Appendix B", "the toys with α = 0.5 and variational Bayes", "appendix_b"),
    "toy_fit": Piece(BEYOND, "test log-likelihood on the toy problems", "toy_fit"),
    "alpha_vs_hmc": Piece(BEYOND, "posteriors beside Hamiltonian Monte Carlo", "alpha_vs_hmc"),
    "calibration": Piece(BEYOND, "calibration on the toy problems", "calibration"),
    "entropies": Piece(BEYOND, "entropy estimators on known densities", "entropy_estimators"),
    "uci": Piece(BEYOND, "the UCI regression sets, α = 1", "uci"),
    "uci_default": Piece(BEYOND, "the UCI regression sets, ensemble", "uci_default"),
    "posteriors": Piece(BEYOND, "a contest of posteriors", "posteriors"),
    "off_manifold": Piece(BEYOND, "posteriors away from a thin sheet of data", "off_manifold"),
    "batch_choice": Piece(BEYOND, "several measurements at a time", "batch_choice"),
    "amortised": Piece(BEYOND, "one network for every q(z)", "amortised"),
    "systems": Piece(BEYOND, "costs of the systems under simple policies", "systems"),
    "river": Piece(BEYOND, "policy search on wet-chicken", "wet_chicken_frontier"),
    "industrial_quick": Piece(BEYOND, "figure_4a in a quarter of an hour", "industrial_quick"),
    "random_batch": Piece(BEYOND, "industrial benchmark, random batch", "industrial_random_batch"),
}
