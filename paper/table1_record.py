"""What the arms of Table 1 end with, beside the true process, as metrics of a record."""

from collections.abc import Mapping, Sequence

import numpy as np

from paper.learning import Arm, Course, Size
from paper.learning_problems import LEARNING_PROBLEMS
from paper.records import Record

RIVER = "wet_chicken"
Final = tuple[str, str, str, int]  # posterior, problem, method, seed


def add_oracles(
    courses: Sequence[tuple[Sequence[Arm], Course]], size: Size, record: Record
) -> dict[tuple[str, int], float]:
    """Mean log-density of the true process on each repetition's test points.

    The river's process has no density; it is seen through the noise that the networks which learn
    by what a measurement teaches end with.
    """
    found: dict[tuple[str, int], float] = {}
    for arms, course in courses:
        teaching = [i for i, arm in enumerate(arms) if arm.method == "epistemic"]
        blur = course.noise[teaching].mean(axis=0)
        for arm in arms:
            problem = LEARNING_PROBLEMS[arm.problem]
            x, y = (part[: size.tests] for part in problem.test(arm.seed))
            found[arm.problem, arm.seed] = float(problem.log_density(x, y, blur).mean())
        if arms[0].problem == RIVER:
            for name, value in zip("xy", blur, strict=True):
                record.add(f"{RIVER}/oracle/noise_{name}", value)
    for name in dict.fromkeys(problem for problem, _ in found):
        own = [value for (problem, _), value in found.items() if problem == name]
        record.add(f"{name}/oracle/test_log_likelihood", float(np.mean(own)))
    return found


def add_scores(
    finals: Mapping[Final, float], oracle: Mapping[tuple[str, int], float], record: Record
) -> None:
    """Final scores in raw and standardised units, gaps to the oracle, and gains of one way of
    choosing over another, which are those of the same repetition."""
    for posterior, problem, method in dict.fromkeys(final[:3] for final in finals):
        seeds = [s for *place, s in finals if tuple(place) == (posterior, problem, method)]
        scores = np.array([finals[posterior, problem, method, seed] for seed in seeds])
        place = f"{problem}/gp" if method == "gp" else f"{problem}/{method}/{posterior}"
        units = np.array([np.log(_deviations(problem, seed)).sum() for seed in seeds])
        record.add_mean(f"{place}/test_log_likelihood", scores)
        record.add_mean(f"{place}/test_log_likelihood_standardised", scores + units)
        # The river's truth is known only as the default's networks see it.
        if (problem, seeds[0]) in oracle and (problem != RIVER or posterior == "default"):
            gaps = [oracle[problem, seed] for seed in seeds] - scores
            record.add_mean(f"{place}/oracle_gap", gaps)
        reference = (posterior, problem, "epistemic")
        if method != "epistemic" and (*reference, seeds[0]) in finals:
            gain = np.array([finals[(*reference, seed)] for seed in seeds]) - scores
            if method == "together":
                record.add_mean(f"{problem}/together_over_epistemic/{posterior}", -gain)
            else:
                record.add_mean(f"{problem}/epistemic_over_{method}/{posterior}", gain)


def _deviations(problem: str, seed: int) -> np.ndarray:
    """Of the outputs that a repetition begins with."""
    return np.atleast_1d(LEARNING_PROBLEMS[problem].initial(seed).y.std(axis=0))
