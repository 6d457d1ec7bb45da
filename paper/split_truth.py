"""Does the split find the true noise, and does the epistemic part decrease with more data?

Five problems with known truth (``paper.small_problems``); tables of 50 to 1,600 rows, each
containing the smaller ones. At 200 new inputs from the training distribution:

- *noise ratio*, the mean of ``exp(H_aleatoric − H(y | x))``: estimated over true noise level, from
  entropies, so that it is comparable between shapes of noise;
- the mean epistemic entropy, and how often it decreases when the rows double.

Every problem and size is a job.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paper.fits import fit_job, judged_settings, split_jointly
from paper.markdown import markdown, mean_and_error, metrics
from paper.records import Context, Record
from paper.small_problems import SMALL_PROBLEMS, describe
from twofold.core.jobs import Job, run_jobs

SEEDS = [0, 1, 2, 3, 4]
PROBLEMS = ("wave", "plane", "friedman", "corner", "two_humps")
ROWS = (50, 100, 200, 400, 800, 1600)
POINTS = 200


def compare_splits(context: Context) -> Record:
    """Fit the default to all problems at all sizes and compare its split with the truth."""
    problems, sizes, seeds, points = list(PROBLEMS), list(ROWS), SEEDS, POINTS
    if context.smoke:
        problems, sizes, seeds, points = problems[-1:], sizes[:2], seeds[:2], 10
    settings = judged_settings("twofold", context.smoke)
    chosen = {"estimator": settings, "rows": sizes, "points": points}
    record = Record("split_truth", chosen, list(seeds))
    jobs = []
    for place in ((problem, rows) for problem in problems for rows in sizes):
        identity = {"place": place, "settings": settings, "seeds": seeds, "points": points}
        arguments = *place, settings, seeds, points, context.work.resolve()
        jobs.append(Job("/".join(map(str, place)), split_fits, arguments, identity))
    results = run_jobs(jobs, context.work / "jobs", context.executor or "local")
    splits = {job.name: of_seeds for job, of_seeds in zip(jobs, results, strict=True)}
    for name, of_seeds in splits.items():
        record.add_means(name, of_seeds)
    for problem in problems:
        last = splits[f"{problem}/{sizes[-1]}"]
        record.add_mean(f"{problem}/noise_ratio", [one["noise_ratio"] for one in last])
        course = [[one["epistemic"] for one in splits[f"{problem}/{rows}"]] for rows in sizes]
        record.add(f"{problem}/epistemic_falls", share_of_falls(np.array(course)))
    return record


def split_fits(
    problem: str,
    rows: int,
    settings: dict[str, Any],
    seeds: Sequence[int],
    points: int,
    work: Path,
) -> list[dict[str, float]]:
    """Noise ratio and mean epistemic entropy of each seed's fit."""
    small_problem = SMALL_PROBLEMS[problem]
    data = [small_problem.training_data(seed, rows) for seed in seeds]
    models = fit_job(settings, seeds, data, work / f"split_truth-{problem}-{rows}.checkpoint")
    results = []
    for seed, model in zip(seeds, models, strict=True):
        x = small_problem.test_points(seed, points)
        split = split_jointly(model, x)
        ratio = noise_ratio(split.aleatoric, small_problem.entropy(x))
        results.append({"noise_ratio": ratio, "epistemic": float(split.epistemic.mean())})
    return results


def noise_ratio(estimated: np.ndarray, truth: np.ndarray) -> float:
    """Mean ratio of noise levels, from their entropies in nats."""
    return float(np.exp(estimated - truth).mean())


def share_of_falls(course: np.ndarray) -> float:
    """How often a value ``[sizes, seeds]`` decreases from one size to the next."""
    return float(np.mean(np.diff(course, axis=0) < 0.0))


def tabulate_splits(results: Path) -> str:
    """Ratio of estimated to true noise, and epistemic part by number of rows."""
    values = metrics("split_truth", results)
    few = ROWS[0]
    rows = [
        [
            describe(SMALL_PROBLEMS[problem]),
            f"{values[f'{problem}/{few}/noise_ratio/mean']:.2f}",
            mean_and_error(values, f"{problem}/noise_ratio"),
            *(f"{values[f'{problem}/{size}/epistemic/mean']:.2f}" for size in ROWS),
            f"{values[f'{problem}/epistemic_falls']:.0%}",
        ]
        for problem in PROBLEMS
    ]
    ratios = [f"noise ratio, {size:,} rows" for size in (few, ROWS[-1])]
    parts = [f"epistemic, {size:,}" for size in ROWS]
    return markdown(["problem", *ratios, *parts, "falls"], rows)
