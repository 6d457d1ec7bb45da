"""What a folder of policies says, in words and tables, and which policy it recommends."""

import csv
import io
from collections.abc import Sequence

import numpy as np

from twofold.plant.forecast import CAUTION, Trial
from twofold.plant.quality import Doubt

# Columns that are named, and what they explain at least.
MOST_COLUMNS, LEAST_EXPLAINED = 3, 0.05
# Of visited states: who is beyond the data most of the time has risks that nothing has checked.
MOST_BEYOND = 0.5
# Of visited states, above which the report says so: held-out ones have 1 %.
MANY_BEYOND = 0.05


def recommend(trials: Sequence[Trial]) -> int:
    """The number of the policy with the lowest careful cost, of those that are mostly where the
    data are; if none is, of the one that is beyond them least."""
    costs = np.array([one.careful_cost for one in trials])
    beyond = np.array([one.share_beyond for one in trials])
    costs[~np.isfinite(costs) | (beyond > MOST_BEYOND)] = np.inf
    return int(np.argmin(costs) if np.isfinite(costs).any() else np.argmin(beyond))


def frontier_csv(trials: Sequence[Trial], files: Sequence[str]) -> str:
    """A row for each policy."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(
        "beta gamma expected_cost epistemic_risk aleatoric_risk careful_cost share_beyond "
        "policy".split()
    )
    for one, file in zip(trials, files, strict=True):
        risks = one.epistemic_risk, one.aleatoric_risk, one.careful_cost, one.share_beyond
        writer.writerow([*one.risk_weights, one.cost, *risks, file])
    return buffer.getvalue()


def rows(trials: Sequence[Trial]) -> list[list[str]]:
    """The same for people, with headings."""
    headings = ["β", "γ", "expected cost", "epistemic risk", "aleatoric risk", "careful cost"]
    found = [[*headings, "beyond the data", "epistemic risk goes with"]]
    for one in trials:
        costs = (one.cost, one.epistemic_risk, one.aleatoric_risk, one.careful_cost)
        names = [
            f"{name} {share:.0%}"
            for name, share in list(one.columns.items())[:MOST_COLUMNS]
            if share >= LEAST_EXPLAINED
        ]
        cells = [f"{weight:g}" for weight in one.risk_weights] + [f"{cost:.4g}" for cost in costs]
        found.append([*cells, f"{one.share_beyond:.1%}", ", ".join(names) or "no column"])
    return found


def advice(doubts: Sequence[Doubt], trials: Sequence[Trial], logged_cost: float) -> list[str]:
    """Which policy, why, and how far to believe it, in sentences."""
    best = trials[recommend(trials)]
    beta, gamma = best.risk_weights
    inside = sum(one.share_beyond <= MOST_BEYOND for one in trials)
    found = [
        f"Recommended is the policy with β = {beta:g} and γ = {gamma:g}: {_reason(inside, trials)}."
        f" Its careful cost is {best.cost:.4g} + {CAUTION:g} · {best.epistemic_risk:.4g} = "
        f"{best.careful_cost:.4g}; a logged step cost {logged_cost:.4g}.",
        "Expected costs are the model's opinion: none of these policies has been tried on the "
        "plant. The smaller β, the more a policy goes where the model promises most, and the more "
        "it loses where the model is wrong; a larger β trusts the data more, and stays where they "
        "are.",
    ]
    if not best.careful_cost < logged_cost:
        found.append(
            "That is not below what logged steps cost: nothing here says that any of these "
            "policies is better than what runs the plant now."
        )
    if best.share_beyond > MANY_BEYOND:
        found.append(
            f"Of the states that it comes to, {best.share_beyond:.0%} are beyond the data: there "
            "nothing has checked the model, neither its costs nor its risks. Log some runs nearer "
            "to it before it runs alone."
        )
    if doubts:
        found.append(
            f"But the model is not good enough to plan with: {'; '.join(map(str, doubts))}."
        )
    return found


def _reason(inside: int, trials: Sequence[Trial]) -> str:
    if not inside:
        return "all are beyond the data most of the time, and it the least"
    if inside == len(trials):
        return f"it has the lowest careful cost of {inside}"
    some = f"of the {inside} of {len(trials)} that are mostly where the data are"
    return f"it has the lowest careful cost {some}"
