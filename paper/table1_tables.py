"""Table 1 beside the paper's, from ``results/table1.json``."""

from pathlib import Path

from paper.markdown import markdown, mean_and_error, metrics

PROBLEMS = ("heteroscedastic", "bimodal", "wet_chicken")
# Mean and standard error of I, H and GP in Table 1 of the paper.
PUBLISHED = {
    "heteroscedastic": {"epistemic": (-1.79, 0.03), "total": (-1.92, 0.03), "gp": (-2.09, 0.02)},
    "bimodal": {"epistemic": (-2.04, 0.01), "total": (-2.06, 0.02), "gp": (-2.86, 0.01)},
    "wet_chicken": {"epistemic": (1.18, 0.16), "total": (0.57, 0.20), "gp": (-3.22, 0.03)},
}
NAMES = {
    "epistemic": "I(W; y)",
    "total": "H(y given x)",
    "random": "at random",
    "together": "five together",
    "gp": "H of a Gaussian process",
}
POSTERIORS = ("paper", "default")
COLUMNS = ("α = 1", "ensemble", "Gaussian process")
SCORE = "test_log_likelihood"


def table1(results: Path) -> str:
    """Test log-likelihood after all iterations, for each problem and way of choosing."""
    values = metrics("table1", results)
    rows = []
    for problem in PROBLEMS:
        truth = values.get(f"{problem}/oracle/{SCORE}")
        for method, name in NAMES.items():
            published = PUBLISHED[problem].get(method)
            cells = ["–" if published is None else f"{published[0]:.2f} ± {published[1]:.2f}"]
            cells += _cells(values, problem, method, SCORE)
            rows.append([problem.replace("_", "-"), name, *cells])
        cells = ["–" if truth is None else f"{truth:.2f}"] * len(COLUMNS)
        if problem == "wet_chicken":  # known only as the ensembles' noise shows it
            cells = ["", cells[1], ""]
        rows.append([problem.replace("_", "-"), "(true process)", "", *cells])
    return markdown(["problem", "choice", "paper", *COLUMNS], rows)


def table1_river(results: Path) -> str:
    """The river's in standardised units too."""
    values = metrics("table1", results)
    rows = [
        [name, *_cells(values, "wet_chicken", method, f"{SCORE}_standardised")]
        for method, name in NAMES.items()
    ]
    return markdown(["choice", *COLUMNS], rows)


def table1_gains(results: Path) -> str:
    """What choosing by I gains over other choices, repetition by repetition."""
    values = metrics("table1", results)
    rows = []
    for problem in PROBLEMS:
        own = PUBLISHED[problem]
        row = [problem.replace("_", "-"), f"{own['epistemic'][0] - own['total'][0]:.2f}"]
        for other in ("total", "random"):
            for posterior in POSTERIORS:
                row.append(_cell(values, f"{problem}/epistemic_over_{other}/{posterior}", 3))
        row.append(_cell(values, f"{problem}/together_over_epistemic/default", 3))
        row.append(_cell(values, f"{problem}/epistemic/default/oracle_gap", 3))
        rows.append(row)
    headings = ["problem", "over H, paper", "over H, α = 1", "over H, ensemble"]
    headings += ["over random, α = 1", "over random, ensemble", "five together over I, ensemble"]
    return markdown([*headings, "short of the true process, ensemble"], rows)


def batch_choice(results: Path) -> str:
    """What five points teach, chosen one by one, together, or at random."""
    values = metrics("batch_choice", results)
    rows = [
        [
            problem,
            *(
                mean_and_error(values, f"{problem}/{choice}/information", 3)
                for choice in ("random", "one_by_one", "together")
            ),
            f"{values[f'{problem}/gain/mean']:+.1%} ± {values[f'{problem}/gain/se']:.1%}",
        ]
        for problem in ("heteroscedastic", "bimodal")
    ]
    headings = ["problem", "at random", "the five best", "five together", "gain over the best"]
    return markdown(headings, rows)


def table1_times(results: Path) -> str:
    """Minutes that the networks took, and hours that they would take on two CPU cores."""
    done, scaled = metrics("table1", results), metrics("bench_table1", results)
    rows = []
    for block, name in zip(POSTERIORS, COLUMNS, strict=False):
        for group, problems in (("toys", "both toys"), ("river", "wet-chicken")):
            seconds = done.get(f"seconds/{block}/{group}")
            hours = scaled[f"cpu/{block}/{group}/hours"]
            taken = "–" if seconds is None else f"{seconds / 60:.1f}"
            rows.append([f"{name}, {problems}", taken, f"{hours:.0f}"])
    return markdown(["", "minutes taken", "hours on two CPU cores"], rows)


def _cells(values: dict[str, float], problem: str, method: str, score: str) -> list[str]:
    """One for each posterior, and one for the Gaussian process."""
    if method == "gp":
        return ["", "", _cell(values, f"{problem}/gp/{score}")]
    return [*(_cell(values, f"{problem}/{method}/{own}/{score}") for own in POSTERIORS), ""]


def _cell(values: dict[str, float], name: str, digits: int = 2) -> str:
    return mean_and_error(values, name, digits) if f"{name}/mean" in values else "–"
