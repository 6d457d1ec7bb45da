"""Claims about active learning (§4, Table 1)."""

from collections.abc import Callable
from functools import partial

import numpy as np

from paper.claim import CLOSE, Check, Claim, Number, Values, difference, number
from paper.table_1_report import NAMES, PROBLEMS, PUBLISHED, SCORE

SIMILAR = 0.05  # nats within which two strategies count as similar
Checks = Callable[[Values], list[Check]]


def gains(problem: str, posterior: str, values: Values) -> list[Check]:
    """Gain of choosing by I over choosing by H, paired by repetition."""
    return [Check(number(values, f"{problem}/epistemic_over_total/{posterior}"), digits=3)]


def similar(problem: str, posterior: str, values: Values) -> list[Check]:
    """The same gain, for a claim that it is small."""
    gain = number(values, f"{problem}/epistemic_over_total/{posterior}")
    return [Check(gain, -SIMILAR, digits=3), Check(gain, SIMILAR, above=False, digits=3)]


def ahead_of_gp(problem: str, posterior: str, values: Values) -> list[Check]:
    """Both strategies against the Gaussian process."""
    return [
        Check(
            difference(values, _place(problem, choice, posterior), _place(problem, "gp")),
            label=label,
        )
        for choice, label in (("epistemic", "I:"), ("total", "H:"))
    ]


def reached(problem: str, method: str, posterior: str, values: Values) -> list[Check]:
    """A cell of Table 1: not significantly below the paper's number, given both errors.

    The threshold is two combined errors below the paper's number, so only a clear shortfall fails.
    """
    score = number(values, _place(problem, method, posterior))
    published, error = PUBLISHED[problem][method]
    both = float(np.hypot(score.error, error))
    return [Check(Number(score.mean), published - CLOSE * both, text=score.shown(2))]


def _place(problem: str, method: str, posterior: str = "paper") -> str:
    return f"{problem}/gp/{SCORE}" if method == "gp" else f"{problem}/{method}/{posterior}/{SCORE}"


def _on_both(checks: Callable[..., list[Check]], *words: str) -> tuple[Checks, Checks]:
    """Checks for the paper's posterior and for the default."""
    return partial(checks, *words, "paper"), partial(checks, *words, "default")


def _comparison(problem: str) -> list[Claim]:
    name, own = problem.replace("_", "-").capitalize(), PUBLISHED[problem]
    margin = f"{own['epistemic'][0] - own['total'][0]:.2f}"
    alike = problem == "bimodal"
    text = (
        "I and H end alike" if alike else "choosing by I(W; y) gains over choosing by H(y given x)"
    )
    ahead = [f"{own[choice][0] - own['gp'][0]:.2f}" for choice in ("epistemic", "total")]
    return [
        Claim(
            "§4, Table 1",
            f"{name}: {text}; gain in nats",
            *_on_both(similar if alike else gains, problem),
            published=margin,
        ),
        Claim(
            "§4, Table 1",
            f"{name}: the network outperforms the Gaussian process; gain in nats",
            *_on_both(ahead_of_gp, problem),
            published=f"I: {ahead[0]}; H: {ahead[1]}",
        ),
    ]


def _cells(problem: str) -> list[Claim]:
    name = problem.replace("_", "-").capitalize()
    cells = []
    for method, (mean, error) in PUBLISHED[problem].items():
        sides = _on_both(reached, problem, method)
        cells.append(
            Claim(
                "Table 1",
                f"{name}, {NAMES[method]}: test log-likelihood after 150 iterations",
                sides[0],
                None if method == "gp" else sides[1],
                published=Number(mean, error).shown(2),
            )
        )
    return cells


ACTIVE = [
    *(claim for problem in PROBLEMS for claim in _comparison(problem)),
    Claim(
        "§4",
        "Bimodal: they end alike because total and epistemic part behave alike",
        reason="an explanation, not a result; both parts are drawn in Figure 2",
    ),
    Claim(
        "§4",
        "A heteroscedastic Gaussian process would do as well on the first problem alone",
        reason="a conjecture of the paper; no such process is among the baselines",
    ),
    *(claim for problem in PROBLEMS for claim in _cells(problem)),
]
