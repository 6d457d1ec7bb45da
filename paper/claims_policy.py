"""Claims about policies and their two risks (§5, Figures 4 and 5).

Policies are compared within a seed, as they share its data and model.
"""

from collections.abc import Callable, Sequence

from scipy.stats import spearmanr

from paper.claim import Check, Claim, Number, Values, correlated, number, over_seeds
from paper.frontier import MAIN, NEIGHBOUR, Trial, recorded_trials
from paper.frontier_claims import (
    CAREFUL,
    at,
    common_seeds,
    curves_of,
    falls,
    margins,
    pairs,
    trade_offs,
)

ENSEMBLE = "ensemble"
IGNORING, EPISTEMIC, ALEATORIC = (0.0, 0.0), (CAREFUL, 0.0), (0.0, CAREFUL)
PAPER_HOURS, PAPER_UPDATES = 18.0, 75_000
Checks = Callable[[Values], list[Check]]


def margin(name: str, digits: int = 2) -> Checks:
    """A margin in the record."""
    return lambda values: [Check(number(values, f"margin/{name}"), digits=digits)]


def excess(field: str, first: tuple, second: tuple, method: str = MAIN, digits: int = 1) -> Checks:
    """Difference of a quantity between two pairs of weights, within a seed."""

    def checks(values: Values) -> list[Check]:
        return [
            Check(
                over_seeds(margins(recorded_trials(values), method, field, first, second)),
                digits=digits,
            )
        ]

    return checks


def bias_falls(method: str) -> Checks:
    """Minus the rank correlation of weight and bias."""
    return lambda values: correlated(over_seeds(falls(recorded_trials(values), method)))


def rising_cost(values: Values) -> list[Check]:
    """Rank correlation of β and the true cost along γ = 0."""
    selected = [t for t in recorded_trials(values) if (t.method, t.gamma) == (MAIN, 0.0)]
    return correlated(_by_seed(selected, "beta", "true_cost"))


def estimates_bias(values: Values) -> list[Check]:
    """Rank correlation of the predicted epistemic risk and the true bias over all policies."""
    selected = [t for t in recorded_trials(values) if t.method == MAIN]
    return correlated(_by_seed(selected, "epistemic_risk", "model_bias"))


def ahead(best: str, rivals: Sequence[str]) -> Checks:
    """How much more of the plane of costs and biases one curve dominates than others."""

    def checks(values: Values) -> list[Check]:
        policies = recorded_trials(values)
        curves, methods = curves_of(policies, MAIN), {MAIN, *{NEIGHBOUR}.intersection(rivals)}
        if NEIGHBOUR in methods:
            curves[NEIGHBOUR] = (NEIGHBOUR, pairs(policies, NEIGHBOUR))
        of_seeds = [
            trade_offs([t for t in policies if t.seed == seed], curves)
            for seed in common_seeds(policies, methods)
        ]
        return [
            Check(
                over_seeds([shares[best] - shares[rival] for shares in of_seeds]),
                label=_label(rival),
            )
            for rival in rivals
        ]

    return checks


def smaller_gap(values: Values) -> list[Check]:
    """Reduction of the difference between model and truth with β = 4."""
    policies = recorded_trials(values)
    gaps = [
        {t.seed: abs(t.true_cost - t.predicted_cost) for t in at(policies, MAIN, *weights)}
        for weights in (IGNORING, EPISTEMIC)
    ]
    return [Check(over_seeds([gaps[0][seed] - gaps[1][seed] for seed in gaps[0]]), digits=1)]


def hours(values: Values) -> list[Check]:
    """Hours for the paper's number of updates, at the measured pace."""
    measured = values["milliseconds/twofold"] * PAPER_UPDATES / 3.6e6
    return [Check(Number(measured), PAPER_HOURS, above=False, digits=1)]


def _by_seed(selected: Sequence[Trial], first: str, second: str) -> Number:
    """Rank correlation of two quantities of policies, per seed."""
    seeds = sorted({trial.seed for trial in selected})
    return over_seeds([_ranks([t for t in selected if t.seed == s], first, second) for s in seeds])


def _ranks(selected: Sequence[Trial], first: str, second: str) -> float:
    said, came = ([getattr(trial, field) for trial in selected] for field in (first, second))
    return float(spearmanr(said, came)[0])


def _label(curve: str) -> str:
    words = {"beta_is_gamma": "β = γ", NEIGHBOUR: "nearest neighbour"}
    return f"over {words.get(curve, curve.replace('gamma_', 'γ = '))}:"


PLANT = [
    Claim(
        "§5, Fig. 4a",
        "Ignoring risk has a high model bias; more than β = 4, in squared cost per step",
        excess("model_bias", IGNORING, EPISTEMIC),
        excess("model_bias", IGNORING, EPISTEMIC, ENSEMBLE),
    ),
    Claim(
        "§5, Figs. 4a, 5a, 5b",
        "Ignoring risk has a high true cost; more than β = 4, in cost per step",
        excess("true_cost", IGNORING, EPISTEMIC),
        excess("true_cost", IGNORING, EPISTEMIC, ENSEMBLE),
    ),
    Claim(
        "§5, Fig. 4a",
        "As β grows the bias falls; minus the rank correlation",
        bias_falls(MAIN),
        bias_falls(ENSEMBLE),
    ),
    Claim("§5, Fig. 4a", "… and the true cost rises; rank correlation", rising_cost),
    Claim(
        "§5, Fig. 4a",
        "γ = 0 has the best trade-off of cost and bias; lead over the next best curve",
        margin("gamma_0_has_the_best_trade_off"),
    ),
    Claim(
        "§5, Fig. 4a",
        "γ > 0 decreases performance; lead of γ = 0",
        ahead("gamma_0", ["gamma_1", "gamma_4"]),
    ),
    Claim(
        "§5, Fig. 4a",
        "The split criterion beats the usual one, β = γ; lead of γ = 0",
        ahead("gamma_0", ["beta_is_gamma"]),
    ),
    Claim(
        "§5, Fig. 4a",
        "The nearest-neighbour baseline has a similar pattern: its bias falls with its weight; "
        "minus the rank correlation",
        bias_falls(NEIGHBOUR),
    ),
    Claim(
        "§5, Fig. 4a",
        "… but a worse trade-off; lead of γ = 0",
        ahead("gamma_0", [NEIGHBOUR]),
    ),
    Claim(
        "§5, Eq. 16",
        "The epistemic risk estimates the model bias; rank correlation over policies",
        estimates_bias,
    ),
    Claim(
        "§5, Fig. 5a",
        "Ignoring risk, model and truth part after t = 20",
        reason="the record keeps the costs of whole roll-outs, not of single steps",
    ),
    Claim(
        "§5, Fig. 5b",
        "With β = 4 model and truth are similar; how much smaller their difference is, in cost "
        "per step",
        smaller_gap,
    ),
    Claim(
        "§5, Fig. 5c",
        "With γ = 4 the bias is slightly higher than with β = 4; by",
        excess("model_bias", ALEATORIC, EPISTEMIC),
    ),
    Claim(
        "§5, Fig. 5c",
        "… and the true costs are steadier; fall of their deviation from β = 4 to γ = 4",
        excess("true_deviation", EPISTEMIC, ALEATORIC),
    ),
]
WIND = [
    Claim(
        "§5, Fig. 4b",
        "γ = 7.5 has the best trade-off of cost and bias; lead over the next best curve",
        margin("gamma_7.5_has_the_best_trade_off"),
    ),
    Claim(
        "§5",
        "The criterion reduces the model bias: it falls as β grows; minus the rank correlation",
        bias_falls(MAIN),
    ),
    Claim(
        "§5, Eq. 16",
        "The epistemic risk estimates the model bias; rank correlation over policies",
        estimates_bias,
    ),
]
SPEED = [
    Claim(
        "App. C.3",
        "A policy for the industrial benchmark is found in around 18 hours on one CPU; 75,000 "
        "updates at the pace measured on two cores, in hours",
        hours,
        published="18",
    ),
    Claim(
        "App. C.3",
        "Model and policy for the wind turbine take around 8 hours",
        published="8",
        reason="another simulator and machine",
    ),
]
