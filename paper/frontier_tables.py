"""Tables of policies, from ``results/<system>_frontier.json``."""

import re
from pathlib import Path

from scipy.stats import t as student

from paper.markdown import markdown, mean_and_error, metrics

CLAIMS = {
    "risk_ignoring_has_more_bias": "ignoring risk (β = γ = 0) has more model bias than β = 4",
    "risk_ignoring_has_the_largest_bias": "it has the largest bias of all pairs",
    "risk_ignoring_costs_more": "ignoring risk costs more on the true system than β = 4 (γ = 0)",
    "bias_falls_with_beta": "the bias falls as β grows (γ = 0)",
    "gamma_0_has_the_best_trade_off": "γ = 0 has the best trade-off of cost and bias",
    "gamma_7.5_has_the_best_trade_off": "γ = 7.5 has the best trade-off of cost and bias",
    "nearest_neighbour_is_worse": "the nearest-neighbour baseline is worse",
}
SCORES = {
    "epistemic_risk_vs_bias": "predicted epistemic risk against true model bias",
    "expected_cost_vs_cost": "predicted cost against true cost",
    "criterion_vs_cost": "J with β = 1 against true cost",
    "criterion_beta_2_vs_cost": "J with β = 2 against true cost",
    "criterion_beta_4_vs_cost": "J with β = 4 against true cost",
}
FIRST = next(iter(SCORES))
REGRETS = {
    "predicted_cost": "predicted cost",
    "criterion_1": "J with β = 1",
    "criterion_2": "J with β = 2",
    "criterion_4": "J with β = 4",
}
METHODS = {
    "alpha": "mean field, α = 1",
    "alpha_0.5": "mean field, α = 0.5",
    "variational": "variational Bayes",
    "ensemble": "anchored ensemble",
    "nearest_neighbour": "nearest neighbour",
}
SHOWN_BETAS = (0, 2, 4)
CONFIDENCE = 0.95
RANDOM_BETAS = {"0": "beta_0/", "0.5": "beta_0.5/", "1": "", "2": "beta_2/"}
PAIR = re.compile(r"^(?P<method>[^/]+)/beta_(?P<beta>[^/]+)/gamma_(?P<gamma>[^/]+)/true_cost/mean$")


def policies(name: str, results: Path) -> str:
    """One row per method and pair of weights, means over seeds."""
    values = metrics(name, results)
    matches = [match.groups() for match in map(PAIR.match, values) if match]
    order = list(METHODS)
    matches.sort(key=lambda one: (order.index(one[0]), float(one[2]), float(one[1])))
    rows = []
    for method, beta, gamma in matches:
        start = f"{method}/beta_{beta}/gamma_{gamma}"
        fields = "true_cost", "predicted_cost", "epistemic_risk", "aleatoric_risk", "model_bias"
        shown = [mean_and_error(values, f"{start}/{field}", 2) for field in fields]
        rows.append([METHODS[method], beta, gamma, *shown])
    titles = ["true cost", "predicted", "epistemic risk", "aleatoric risk", "model bias"]
    return markdown(["model", "β", "γ", *titles], rows)


def claims(name: str, results: Path) -> str:
    """Each claim of the paper, and whether it holds here; if not, an upper bound of the effect
    (one-sided Student's t interval over seeds)."""
    values, rows = metrics(name, results), []
    # The seeds of the policies: the record may also hold another experiment, with others.
    seeds = {
        v for key, v in values.items() if key.startswith("policies/") and key.endswith("/seed")
    }
    bound = student.ppf(CONFIDENCE, len(seeds) - 1)
    for claim, text in CLAIMS.items():
        if f"claims/{claim}" in values:
            margin, holds, by, most = f"margin/{claim}", values[f"claims/{claim}"], "", ""
            if f"{margin}/mean" in values:
                by = mean_and_error(values, margin, 2)
                most = f"{values[f'{margin}/mean'] + bound * values[f'{margin}/se']:.2f}"
            rows.append([text, "yes" if holds else "**no**", by, "" if holds else most])
    return markdown(["claim", "holds here", "by", f"at most ({CONFIDENCE:.0%})"], rows)


def scores(name: str, results: Path) -> str:
    """Rank correlations of a model's predictions with the truth, and regrets of choosing by
    them."""
    values = metrics(name, results)
    available = {
        m: text for m, text in METHODS.items() if f"{m}/rank_correlation/{FIRST}" in values
    }
    rows = []
    for score, text in SCORES.items():
        quantity = f"rank_correlation/{score}"
        cells = [f"{values[quantity]:.2f} ± {values[f'{quantity}/se']:.2f}"]
        rows.append([f"{text}, rank correlation", *cells])
        rows[-1] += [f"{values[f'{m}/{quantity}']:.2f}" for m in available]
    for score, said in REGRETS.items():
        quantity = f"regret/{score}"
        cells = [f"{values[quantity]:.2f} ± {values[f'{quantity}/se']:.2f}"]
        rows.append([f"true cost of the policy with the lowest {said}, above the best", *cells])
        rows[-1] += [f"{values[f'{m}/{quantity}']:.2f}" for m in available]
    return markdown(["", "all models", *available.values()], rows)


def models(name: str, results: Path) -> str:
    """One row per posterior, as a model of the dynamics."""
    values = metrics(name, results)
    rows = []
    for method, text in METHODS.items():
        if f"{method}/bias_within_two_risks" not in values:
            continue
        cells = [mean_and_error(values, f"{method}/test_log_likelihood", 2)]
        for beta in SHOWN_BETAS:
            cells.append(mean_and_error(values, f"{method}/beta_{beta}/gamma_0/true_cost", 2))
        for beta in SHOWN_BETAS:
            cells.append(mean_and_error(values, f"{method}/beta_{beta}/gamma_0/model_bias", 1))
        rows.append([text, *cells, f"{values[f'{method}/bias_within_two_risks']:.0%}"])
    titles = ["test log-likelihood"]
    titles += [f"true cost, β = {beta}" for beta in SHOWN_BETAS]
    titles += [f"bias, β = {beta}" for beta in SHOWN_BETAS]
    return markdown(["model", *titles, "bias within two epistemic deviations"], rows)


def random_batch(results: Path) -> str:
    """The random batch of the industrial benchmark, compared with published results."""
    values = metrics("industrial_random_batch", results)

    def ours(start: str) -> list[str]:
        seeds = [values[f"{start}cost/seed_{seed}"] for seed in range(5)]
        return [mean_and_error(values, f"{start}cost", 1), f"{min(seeds):.1f}"]

    direct = [values[name] for name in values if name.startswith("direct/cost/seed_")]
    rows = [
        ["the authors' five policies, α = 1 (published)", "170.1", "164.4"],
        *([f"ours, β = {b}", *ours(start)] for b, start in RANDOM_BETAS.items()),
        [
            "tuned on the simulator itself",
            f"{sum(direct) / len(direct):.1f}",
            f"{min(direct):.1f}",
        ],
    ]
    return markdown(["policies", "true cost, mean over seeds", "best"], rows)
