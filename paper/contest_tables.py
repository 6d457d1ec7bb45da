"""Tables of the contests between posteriors."""

from pathlib import Path

from paper.contest import METHODS as CONTEST_METHODS
from paper.contest import SEEDS as CONTEST_SEEDS
from paper.jobs import LABELS
from paper.markdown import markdown, mean_and_error, metrics
from paper.off_manifold import DISTANCES as MANIFOLD_DISTANCES
from paper.off_manifold import METHODS as MANIFOLD_METHODS


def posteriors(results: Path) -> str:
    """The contest: one row for each problem and posterior."""
    values = metrics("posteriors", results)
    columns = {
        "epistemic_rank_correlation": ("epistemic, rank correlation with HMC's", 2),
        "epistemic_abs_error": ("epistemic, difference from HMC's", 3),
        "aleatoric_abs_error": ("aleatoric error, plentiful data", 3),
        "test_log_likelihood": ("test log-likelihood", 3),
        "oracle_gap": ("gap to the truth", 3),
        "calibration_error": ("calibration error", 3),
        "outside/growth": ("growth outside", 2),
        "outside/hiding_places": ("hiding places", 2),
        "outside/deviation_1": ("deviation at distance 1", 2),
    }
    rows = [
        [
            f"{problem.replace('_', '-')}, {LABELS[method]}",
            *(
                mean_and_error(values, f"{problem}/{method}/{name}", digits)
                for name, (_, digits) in columns.items()
            ),
            *(f"{values[f'{problem}/{method}/seconds_{d}/mean']:.0f}" for d in ("cpu", "gpu")),
        ]
        for problem in CONTEST_SEEDS
        for method in CONTEST_METHODS
    ]
    headings = [heading for heading, _ in columns.values()]
    return markdown(["", *headings, "s, two cores", "s, GPU"], rows)


def contest_chains(results: Path) -> str:
    """How far the contest's reference can be trusted."""
    values = metrics("posteriors", results)
    rows = []
    for problem, seeds in CONTEST_SEEDS.items():
        found = {
            name: [values[f"{problem}/hmc/{name}/{seed}"] for seed in seeds]
            for name in ("r_hat_max", "ess_min", "divergences")
        }
        rows.append(
            [
                problem.replace("_", "-"),
                f"{min(found['r_hat_max']):.2f} … {max(found['r_hat_max']):.2f}",
                f"{min(found['ess_min']):.0f}",
                f"{sum(found['divergences']):.0f}",
                mean_and_error(values, f"{problem}/hmc/epistemic_rank_correlation"),
                mean_and_error(values, f"{problem}/hmc/epistemic_abs_error", 3),
            ]
        )
    headings = ["", "largest R-hat of each seed", "smallest effective sample size", "divergences"]
    return markdown(
        [*headings, "rank correlation of two halves", "difference of two halves (nats)"], rows
    )


def off_manifold(results: Path) -> str:
    """Sixty inputs: coverage of the true function away from the data."""
    values = metrics("off_manifold", results)
    rows = []
    for way, distances in MANIFOLD_DISTANCES.items():
        for method in MANIFOLD_METHODS:
            place = f"{way}/{method}"
            cells = [f"{values[f'{place}/coverage_90/{d}/mean']:.2f}" for d in distances]
            ends = [
                f"{values[f'{place}/deviation/{d}/mean']:.2f} / "
                f"{values[f'{place}/error/{d}/mean']:.2f}"
                for d in (distances[0], distances[-1])
            ]
            others = [
                mean_and_error(values, f"{place}/{n}") for n in ("rank_correlation", "fooled")
            ]
            rows.append([f"{way}, {LABELS[method]}", *cells, *ends, *others])
    nearness = ["nearest", "2nd", "3rd", "4th", "farthest"]
    headings = [f"coverage, {place}" for place in nearness]
    ends = ["deviation / error, nearest", "deviation / error, farthest"]
    return markdown(["", *headings, *ends, "rank correlation", "fooled"], rows)
