"""Tables of 30 to 150 rows: the default posterior and the quick ensemble against a Gaussian
process.

Eight problems of known truth, half of them with constant Gaussian noise, which is what the Gaussian
process assumes (``paper.small_problems``). Each seed draws its own table; scores are means over
1,000 fresh rows. Every problem, size and method is a job.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paper.fits import JUDGED, fit_job, judged_settings
from paper.gp import GPRegressor
from paper.markdown import markdown, mean_and_error, metrics
from paper.records import Context, Record
from paper.small_problems import SMALL_PROBLEMS, describe
from twofold.core.jobs import Job, run_jobs
from twofold.uncertainty.metrics import rmse

SEEDS = list(range(10))
ROWS = (30, 75, 150)
TEST_ROWS = 1000
METHODS = (*JUDGED, "gp")
LABELS = {"twofold": "twofold", "quick": "quick start", "gp": "Gaussian process"}
SMOKE_PROBLEMS = ["wave", "corner"]


def score_small_tables(context: Context) -> Record:
    """Score all methods on tables of all sizes."""
    problems, sizes, seeds, tests = list(SMALL_PROBLEMS), list(ROWS), SEEDS, TEST_ROWS
    if context.smoke:
        problems, sizes, seeds, tests = SMOKE_PROBLEMS, sizes[:1], seeds[:2], 20
    settings: dict[str, dict[str, Any]] = {
        method: judged_settings(method, context.smoke) for method in JUDGED
    }
    settings["gp"] = {}
    record = Record("small_tables", {"methods": settings, "test_rows": tests}, list(seeds))
    jobs = []
    for place in ((p, n, method) for p in problems for n in sizes for method in METHODS):
        problem, rows, method = place
        identity = {"place": place, "settings": settings[method], "seeds": seeds, "tests": tests}
        arguments = *place, settings[method], seeds, tests, context.work.resolve()
        jobs.append(Job(f"{problem}/{rows}/{method}", score_fits, arguments, identity))
    results = run_jobs(jobs, context.work / "jobs", context.executor or "local")
    for job, of_seeds in zip(jobs, results, strict=True):
        record.add_means(job.name, of_seeds)
    for problem in problems:
        small_problem = SMALL_PROBLEMS[problem]
        truth = [
            small_problem.log_density(*small_problem.test_data(seed, tests)).mean()
            for seed in seeds
        ]
        for rows in sizes:
            record.add_mean(f"{problem}/{rows}/truth/test_log_likelihood", truth)
    return record


def score_fits(
    problem: str,
    rows: int,
    method: str,
    settings: dict[str, Any],
    seeds: Sequence[int],
    tests: int,
    work: Path,
) -> list[dict[str, float]]:
    """Test scores of the fit of each seed."""
    small_problem = SMALL_PROBLEMS[problem]
    data = [small_problem.training_data(seed, rows) for seed in seeds]
    models: Sequence[Any]
    if method == "gp":
        models = [GPRegressor(random_state=s).fit(*d) for s, d in zip(seeds, data, strict=True)]
    else:
        checkpoint = work / f"small_tables-{problem}-{rows}-{method}.checkpoint"
        models = fit_job(settings, seeds, data, checkpoint)
    fresh = [small_problem.test_data(seed, tests) for seed in seeds]
    return [score(model, x, y) for model, (x, y) in zip(models, fresh, strict=True)]


def score(model: Any, x: Any, y: Any) -> dict[str, float]:
    """Mean log-likelihood and RMSE on test rows."""
    return {
        "test_log_likelihood": float(model.log_likelihood(x, y).mean()),
        "rmse": float(rmse(y, model.predict(x))),
    }


def tabulate_small_tables(results: Path) -> str:
    """Test log-likelihood on small tables, with a Gaussian process and the true process."""
    values = metrics("small_tables", results)
    rows = [
        [
            describe(problem),
            str(size),
            *(
                mean_and_error(values, f"{name}/{size}/{method}/test_log_likelihood")
                for method in METHODS
            ),
            f"{values[f'{name}/{size}/truth/test_log_likelihood/mean']:.2f}",
        ]
        for name, problem in SMALL_PROBLEMS.items()
        for size in ROWS
    ]
    return markdown(["problem", "rows", *(LABELS[method] for method in METHODS), "truth"], rows)
