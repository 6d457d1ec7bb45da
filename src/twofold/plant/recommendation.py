"""The recommended policy, or the present controller, with reasons in sentences.

A policy is recommended only if it stays mostly within the data and is expected to save more than
the possible error of expected costs (``twofold.plant.quality``).
"""

from collections.abc import Sequence

import numpy as np

from twofold.plant.forecast import CAUTION, Trial
from twofold.plant.quality import Doubt
from twofold.tables.writing import csv_text

MOST_COLUMNS, LEAST_EXPLAINED = 3, 0.05  # of the columns named, and the share that each explains
# Share of visited states beyond the data above which a policy's risks count as unchecked, and above
# which the report warns (held-out states: 1 %).
MOST_BEYOND, MANY_BEYOND = 0.5, 0.05
FINE_STEP = 2.0  # ratio of neighbouring β below which no values between them are searched
FINER = 2  # number of values searched between two others
KEEP = "Keep the present controller: no policy found is expected to be better."


def find_best(trials: Sequence[Trial]) -> int:
    """Index of the policy with the lowest risk-adjusted cost, among those with a finite forecast
    that stay mostly within the data; if there is none, of the one least beyond the data."""
    costs = np.array([one.careful_cost for one in trials])
    beyond = np.array([one.share_beyond for one in trials])
    finite = np.isfinite(costs)
    inside = finite & (beyond <= MOST_BEYOND)
    ranks = np.where(inside, costs, np.inf) if inside.any() else beyond + 2.0 * ~finite
    return int(np.argmin(ranks))


def recommend(
    trials: Sequence[Trial], logged_cost: float, margin: float = 0.0, second: bool = False
) -> int | None:
    """Index of the best policy, or None if it is mostly beyond the data, its expected saving does
    not exceed the ``margin`` (``MultiStep.replay_margin``), its risk-adjusted saving is not
    positive, or a ``second`` opinion is needed and does not expect it to save that much."""
    number = find_best(trials)
    best = trials[number]
    saving, careful = expected_saving(best, logged_cost)
    known = best.share_beyond <= MOST_BEYOND
    agreed = best.second_saving > margin or not second
    return number if known and agreed and saving > margin and careful > 0.0 else None


def expected_saving(trial: Trial, logged_cost: float) -> tuple[float, float]:
    """Expected and risk-adjusted saving per step; without a replay, against the logged cost."""
    if np.isnan(trial.saving):
        return (logged_cost - trial.careful_cost,) * 2
    return trial.saving, trial.careful_saving


def frontier_csv(trials: Sequence[Trial], files: Sequence[str]) -> str:
    """One row per policy; non-finite numbers are left blank."""
    names = "epistemic_risk", "aleatoric_risk", "careful_cost", "share_beyond"
    found = [
        [*one.risk_weights, one.cost, *(getattr(one, name) for name in names)] for one in trials
    ]
    columns = np.where(np.isfinite(found), found, np.nan).T
    heading = "beta", "gamma", "expected_cost", *names
    return csv_text(dict(zip(heading, columns, strict=True)) | {"policy": files})


def frontier_rows(trials: Sequence[Trial]) -> list[list[str]]:
    headings = "β,γ,expected cost,epistemic risk,aleatoric risk,risk-adjusted cost,beyond the data"
    found = [[*headings.split(","), "epistemic risk varies with"]]
    for one in trials:
        largest = list(one.columns.items())[:MOST_COLUMNS]
        names = [f"{name} {share:.0%}" for name, share in largest if share >= LEAST_EXPLAINED]
        cells = [f"{weight:g}" for weight in one.risk_weights] + list_costs(one)
        found.append([*cells, f"{one.share_beyond:.1%}", ", ".join(names) or "no column"])
    return found


def list_costs(trial: Trial) -> list[str]:
    """The expected cost, both risks and the risk-adjusted cost as text, if all are finite."""
    costs = trial.cost, trial.epistemic_risk, trial.aleatoric_risk, trial.careful_cost
    finite = np.isfinite(costs).all()
    return [f"{cost:.4g}" for cost in costs] if finite else ["forecast not finite", "–", "–", "–"]


def headline(
    trials: Sequence[Trial], logged_cost: float, margin: float = 0.0, second: bool = False
) -> str:
    """The recommended policy, or the present controller, with the reason."""
    best, logged = trials[find_best(trials)], f"a logged step cost {logged_cost:.4g}"
    if not np.isfinite(best.careful_cost):
        return f"{KEEP} No forecast is finite; {logged}."
    if best.share_beyond > MOST_BEYOND:
        why = "All of them are mostly beyond the data, where nothing has checked the model."
        return f"{KEEP} {why}"
    policy = "with β = {:g} and γ = {:g}".format(*best.risk_weights)
    sums = f"{best.cost:.4g} + {CAUTION:g} · {best.epistemic_risk:.4g} = {best.careful_cost:.4g}"
    saved = f" It is expected to save {best.saving:.3g} ± {best.saving_risk:.2g} a step against "
    saved = "" if np.isnan(best.saving) else f"{saved}the logged controller."
    if recommend(trials, logged_cost, margin, second) is None:
        saving, careful = expected_saving(best, logged_cost)
        off = f"replayed costs of the logged controller may be off by {margin:.4g}"
        off = "no replayed cost is finite" if np.isnan(margin) else off
        if saving > margin:
            opinion = f"expects it to save {best.second_saving:.3g} a step, and {off}"
            opinion = opinion if np.isfinite(best.second_saving) else "has no finite forecast of it"
            off = f"a linear regression, which predicts the next step better, {opinion}"
        off = f", but {off}" if careful > 0.0 else ""
        best_of = f"The best of them, {policy}, has a risk-adjusted cost of {sums}"
        return f"{KEEP} {best_of}; {logged}{off}.{saved}"
    inside = sum(one.share_beyond <= MOST_BEYOND for one in trials)
    others = f"the {inside} of {len(trials)} that stay mostly within the data"
    others = f"{inside} policies" if inside == len(trials) else others
    reason = f"it has the lowest risk-adjusted cost of {others}"
    if inside == 1 < len(trials):
        reason = f"it is the only one of {len(trials)} that stays mostly within the data"
    reason = f"{reason}. Its risk-adjusted cost is {sums}; {logged}."
    return f"The policy {policy} is recommended: {reason}{saved}"


def find_gap(trials: Sequence[Trial]) -> tuple[float, float] | None:
    """Two neighbouring β, the larger at least FINE_STEP times the smaller, of which the smaller one
    promises less cost than the best policy, but its own policy is mostly beyond the data."""
    best = trials[find_best(trials)]
    beta, gamma = best.risk_weights
    tried = {one.risk_weights[0]: one for one in trials if one.risk_weights[1] == gamma}
    beyond = [low for low, one in tried.items() if low < beta and one.share_beyond > MOST_BEYOND]
    if not beyond or best.share_beyond > MOST_BEYOND:
        return None
    low = max(beyond)
    high = min(other for other in tried if other > low)
    promising = tried[low].careful_cost < best.careful_cost and high >= FINE_STEP * low
    return (low, high) if promising else None


def finer_weights(trials: Sequence[Trial]) -> list[tuple[float, float]]:
    """Risk weights with β in the gap, if there is one, to search next: a better policy may stay
    within the data there."""
    gap = find_gap(trials)
    if gap is None:
        return []
    low, high = gap
    low = low or high / FINE_STEP ** (FINER + 1)
    ratio = (high / low) ** (1.0 / (FINER + 1))
    _, gamma = trials[find_best(trials)].risk_weights
    return [(float(f"{low * ratio**step:.2g}"), gamma) for step in range(1, FINER + 1)]


def advise_finer_grid(trials: Sequence[Trial]) -> str:
    """A hint if there is a gap, else nothing."""
    gap = find_gap(trials)
    if gap is None:
        return ""
    return (
        "With β = {0:g} the risk-adjusted cost is lower, but the policy is mostly beyond the "
        "data. A search with values of β between {0:g} and {1:g} may find a better policy within "
        "the data.".format(*gap)
    )


def advice(
    doubts: Sequence[Doubt],
    trials: Sequence[Trial],
    logged_cost: float,
    margin: float = 0.0,
    second: bool = False,
) -> list[str]:
    """The recommendation, its reasons and caveats; the first sentence is the headline."""
    best = trials[find_best(trials)]
    finer = advise_finer_grid(trials)
    sentences = {
        headline(trials, logged_cost, margin, second): True,
        finer: finer,
        "Expected costs are the model's opinion: none of these policies has been tried on the "
        "plant. A policy with a small β exploits errors of the model; a larger β keeps it near the "
        "data.": True,
        f"{best.share_beyond:.0%} of the states it visits are beyond the data, where neither the "
        "costs nor the risks of the model have been checked. Log runs closer to this policy before "
        "relying on it.": best.share_beyond > MANY_BEYOND,
        f"The model is not good enough to plan with: {'; '.join(map(str, doubts))}.": doubts,
    }
    return [sentence for sentence, holds in sentences.items() if holds]
