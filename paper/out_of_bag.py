"""Is the out-of-bag score an unbiased estimate of the score of new rows?

After a fit, ``out_of_bag_.score`` is the expected log-density of a new row. It is compared with the
mean log-likelihood of 2,000 new rows from the same distribution. The density of the true process
differs between the two sets of rows by chance; the difference of the scores beyond that, the *gap*,
should be 0 on average over seeds. Positive gaps are optimistic. Every problem and method is a job.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paper.fits import JUDGED, fit_job, judged_settings
from paper.markdown import markdown, mean_and_error, metrics
from paper.records import Context, Record
from paper.small_problems import SMALL_PROBLEMS, Data
from twofold.core.jobs import Job, run_jobs
from twofold.envs.toy import TOY_PROBLEMS

SEEDS = [0, 1, 2, 3, 4]
TEST_ROWS = 2000
TEST_SEED = 10_000  # seed of the first set of new rows
TOYS = {"heteroscedastic": TOY_PROBLEMS["heteroscedastic"]}
# Numbers of rows of each problem's tables.
ROWS = {
    "wave": 100,
    "plane": 150,
    "corner": 200,
    "friedman": 300,
    "long_tail": 400,
    "product": 800,
    **dict.fromkeys(TOYS, 750),
}
SMOKE_ROWS = {"wave": 40, "heteroscedastic": 40}
PLACES = {"twofold": "", "quick": "/quick"}


def compare_scores(context: Context) -> Record:
    """Fit all problems with the default and the quick ensemble, and compare."""
    sizes, seeds, tests = ROWS, SEEDS, TEST_ROWS
    if context.smoke:
        sizes, seeds, tests = SMOKE_ROWS, SEEDS[:2], 20
    settings = {method: judged_settings(method, context.smoke) for method in JUDGED}
    chosen = {"methods": settings, "rows": sizes, "test_rows": tests}
    record = Record("out_of_bag", chosen, list(seeds))
    jobs = []
    for problem, rows in sizes.items():
        for method, place in PLACES.items():
            key = problem, rows, method
            identity = {
                "place": key,
                "settings": settings[method],
                "seeds": seeds,
                "tests": tests,
            }
            arguments = *key, settings[method], seeds, tests, context.work.resolve()
            jobs.append(Job(f"{problem}{place}", score_fits, arguments, identity))
    results = run_jobs(jobs, context.work / "jobs", context.executor or "local")
    for job, of_seeds in zip(jobs, results, strict=True):
        record.add_means(job.name, [one | {"gap": gap(one)} for one in of_seeds])
    return record


def gap(scores: dict[str, float]) -> float:
    """Out-of-bag score minus score of new rows, each relative to the true density on the same
    rows."""
    promised = scores["out_of_bag"] - scores["truth"]
    return promised - (scores["test_log_likelihood"] - scores["test_truth"])


def training_data(problem: str, seed: int, rows: int) -> Data:
    """The table of a seed."""
    if problem in TOYS:
        return TOYS[problem].training_data(seed, rows)
    return SMALL_PROBLEMS[problem].training_data(seed, rows)


def fresh_data(problem: str, seed: int, rows: int) -> Data:
    """New rows from the training distribution (unlike the toys' test inputs, which are uniform)."""
    if problem in TOYS:
        return TOYS[problem].training_data(TEST_SEED + seed, rows)
    return SMALL_PROBLEMS[problem].test_data(seed, rows)


def true_score(problem: str, x: np.ndarray, y: np.ndarray) -> float:
    """Mean log-density of rows under the true process."""
    if problem in TOYS:
        return float(TOYS[problem].log_density(x[:, 0], y).mean())
    return float(SMALL_PROBLEMS[problem].log_density(x, y).mean())


def score_fits(
    problem: str,
    rows: int,
    method: str,
    settings: dict[str, Any],
    seeds: Sequence[int],
    tests: int,
    work: Path,
) -> list[dict[str, float]]:
    """For each seed, the out-of-bag score with its standard error, the score of new rows, and the
    scores of the true density on the same rows."""
    data = [training_data(problem, seed, rows) for seed in seeds]
    models = fit_job(settings, seeds, data, work / f"out_of_bag-{problem}-{method}.checkpoint")
    results = []
    for seed, model, table in zip(seeds, models, data, strict=True):
        fresh = fresh_data(problem, seed, tests)
        results.append(
            {
                "out_of_bag": model.out_of_bag_.score,
                "standard_error": model.out_of_bag_.standard_error,
                "test_log_likelihood": float(model.log_likelihood(*fresh).mean()),
                "truth": true_score(problem, *table),
                "test_truth": true_score(problem, *fresh),
            }
        )
    return results


def tabulate_gaps(results: Path) -> str:
    """Out-of-bag scores compared with those of new rows."""
    values = metrics("out_of_bag", results)
    rows = [
        [
            problem.replace("_", " "),
            str(size),
            f"{values[f'{problem}/out_of_bag/mean']:.2f}",
            f"{values[f'{problem}/test_log_likelihood/mean']:.2f}",
            f"{values[f'{problem}/standard_error/mean']:.2f}",
            mean_and_error(values, f"{problem}/gap"),
            mean_and_error(values, f"{problem}/quick/gap"),
        ]
        for problem, size in ROWS.items()
    ]
    headings = ["problem", "rows", "out of bag", "new rows", "estimated standard error"]
    return markdown([*headings, "gap", "gap, quick start"], rows)
