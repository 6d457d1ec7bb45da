"""The paper's claims, each with our numbers and the verdict that follows from them.

Each number is compared with a threshold: it is on the right side, on the wrong side, or undecided
(within two standard errors). A claim holds if all its numbers are on the right side, and in part if
some are.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from paper import claims_active, claims_policy, claims_toy
from paper.claim import CLOSE, Check, Claim, Values
from paper.markdown import markdown
from paper.pieces import BEYOND, PIECES, commands_for
from paper.records import listed, recorded_commands

HOLDS, PARTLY, FAILS = "holds", "holds in part", "does not hold"
UNCLEAR, UNKNOWN = "not clear", "not measured"
VERDICTS = (HOLDS, PARTLY, UNCLEAR, FAILS, UNKNOWN)
GROUPS: dict[str, tuple[str, str, Sequence[Claim]]] = {
    "toy": ("The split on the toy problems", "alpha_vs_hmc", claims_toy.TOY),
    "data": ("More data", "split_truth", claims_toy.DATA),
    "fit": ("What the model learns", "toy_fit", claims_toy.FIT),
    "river": ("The split on wet-chicken", "wet_chicken_map", claims_toy.RIVER),
    "entropy": ("The entropy estimator", "entropy_estimators", claims_toy.ENTROPY),
    "active": ("Active learning", "table1", claims_active.ACTIVE),
    "industrial": ("Policies, industrial benchmark", "industrial_frontier", claims_policy.PLANT),
    "wind": ("Policies, wind turbine", "wind_frontier", claims_policy.WIND),
    "speed": ("Time", "bench_search", claims_policy.SPEED),
}


def side(check: Check) -> int:
    """1 on the right side of the threshold, -1 on the wrong side, 0 if undecided."""
    distance = check.number.mean - check.line
    if not check.above:
        distance = -distance
    return int(distance > CLOSE * check.number.error) - int(distance < -CLOSE * check.number.error)


def verdict(checks: Sequence[Check]) -> str:
    """The verdict on a claim."""
    sides = [side(check) for check in checks]
    if not sides:
        return UNKNOWN
    if min(sides) == 1:
        return HOLDS
    if max(sides) == 1:
        return PARTLY
    return FAILS if min(sides) == -1 else UNCLEAR


class Judged(NamedTuple):
    """A claim with the checks of the paper's posterior and of the default."""

    claim: Claim
    checks: list[Check]
    others: list[Check]


def judge(group: str, results: Path) -> list[Judged]:
    """All claims of a group, with their numbers."""
    _, record, claims = GROUPS[group]
    values = json.loads((results / f"{record}.json").read_text())["metrics"]
    return [Judged(c, _found(c.checks, values), _found(c.others, values)) for c in claims]


def _found(checks: Callable[[Values], list[Check]] | None, values: Values) -> list[Check]:
    return [] if checks is None else checks(values)


def tabulate_group(group: str, results: Path) -> str:
    """One row per claim, followed by the source of the numbers."""
    judged = judge(group, results)
    columns = {
        "claim": [f"{one.claim.text} ({one.claim.place})" for one in judged],
        "paper": [one.claim.published for one in judged],
        "here": [_shown(one.checks) or one.claim.reason for one in judged],
        "holds if": [_rule(one.checks) for one in judged],
        "verdict": [f"**{verdict(one.checks)}**" for one in judged],
        "with the default": [_judged(one.others) for one in judged],
    }
    kept = {heading: cells for heading, cells in columns.items() if any(cells)}
    rows = [[cell or "–" for cell in row] for row in zip(*kept.values(), strict=True)]
    return markdown(list(kept), rows) + _source(GROUPS[group][1], results)


def _shown(checks: Sequence[Check]) -> str:
    """The numbers; a number with two checks is shown once."""
    return "; ".join(dict.fromkeys(check.shown() for check in checks))


def _judged(checks: Sequence[Check]) -> str:
    return f"{_shown(checks)}: {verdict(checks)}" if checks else ""


def _rule(checks: Sequence[Check]) -> str:
    """The thresholds, grouped by side: ``above 0 and 0.7``."""
    sides = []
    for above, word in ((True, "above"), (False, "below")):
        lines = dict.fromkeys(f"{check.line:.3g}" for check in checks if check.above == above)
        sides += [f"{word} {' and '.join(lines)}"] if lines else []
    return ", ".join(sides)


def _source(record: str, results: Path) -> str:
    """The record, the commands that write it, and its seeds (for a record that also goes beyond the
    paper, only the paper's part)."""
    document = json.loads((results / f"{record}.json").read_text())
    beyond = [f"python -m paper {name}" for name, piece in PIECES.items() if piece.place == BEYOND]
    runs = [document, *listed(document.get("kept_from", []))]
    seeds = next((run for run in runs if run["command"] not in beyond), document)["seeds"]
    seeds = f"{len(seeds)} seeds" if len(seeds) > 1 else "one seed"
    today = commands_for(record)
    commands = (
        [name for name in today if name not in beyond] or today or recorded_commands(document)
    )
    shown = ", ".join(f"`{command}`" for command in commands)
    return f"\nFrom [{record}.json](../results/{record}.json): {shown}, {seeds}.\n"


def tabulate_summary(results: Path) -> str:
    """Number of claims of each group by verdict."""
    rows = []
    for group, (title, _, _) in GROUPS.items():
        verdicts = [verdict(one.checks) for one in judge(group, results)]
        rows.append([title, *(str(verdicts.count(one) or "") for one in VERDICTS)])
    totals = [str(sum(int(row[i + 1] or 0) for row in rows)) for i in range(len(VERDICTS))]
    return markdown(["", *VERDICTS], [*rows, ["all", *totals]])
