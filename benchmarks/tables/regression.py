"""The table of this library beside others, from ``results/regression.json``."""

from pathlib import Path

from paper.markdown import markdown, mean_and_error, metrics

LIBRARIES = {
    "twofold": "twofold",
    "twofold_long": "twofold, 3 × 32 units, 64,000 steps",
    "twofold_quick": "twofold, quick",
    "twofold_alpha": "twofold, α = 1",
    "bde": "bde",
    "catboost": "CatBoost",
    "ngboost": "NGBoost",
    "gp": "Gaussian process",
    "linear": "linear",
    "forest": "random forest",
}
SCORES = {
    "test_log_likelihood": "log-likelihood",
    "nll_gaussian": "Gaussian NLL",
    "crps": "CRPS",
    "coverage_90": "coverage of 90 %",
    "rmse": "RMSE",
}
UNKNOWN = "–"


def tabulate_regression(results: Path) -> str:
    """Scores and seconds on public tables, each library in one row."""
    values = metrics("regression", results)
    rows = []
    for table in dict.fromkeys(name.split("/")[0] for name in values):
        for library, label in LIBRARIES.items():
            place = f"{table}/{library}"
            if f"{place}/rmse/mean" not in values:
                continue
            cells = [
                mean_and_error(values, f"{place}/{score}")
                if f"{place}/{score}/mean" in values
                else UNKNOWN
                for score in SCORES
            ]
            seconds = [values[f"{place}/seconds_{part}/mean"] for part in ("fit", "predict")]
            rows.append([table, label, *cells, *(f"{second:.1f}" for second in seconds)])
    headings = ["table", "library", *SCORES.values(), "s, fit", "s, predict"]
    return markdown(headings, rows)
