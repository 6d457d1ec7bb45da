"""The tables of this library beside others, from ``results/regression.json``."""

from collections.abc import Sequence
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
    "reference": "reference chains",
}
SCORES = {
    "test_log_likelihood": "log-likelihood",
    "nll_gaussian": "Gaussian NLL",
    "crps": "CRPS",
    "coverage_90": "coverage of 90 %",
    "rmse": "RMSE",
    "log_probability": "log-probability of the value",
}
PARTS = {
    "epistemic_rank": "epistemic part (nats) and scarcity of data, rank correlation",
    "epistemic_deviation_rank": "epistemic deviation and scarcity of data, rank correlation",
    "aleatoric_rank": "aleatoric part and true entropy, rank correlation",
    "aleatoric_order": "the same, order of distinct entropies",
    "aleatoric_error": "aleatoric part, mean absolute error (nats)",
}
SECONDS = {
    "seconds_fit": "s, fit",
    "cpu_seconds_fit": "CPU s, fit",
    "seconds_predict": "s, predict",
}
BESIDE = ("twofold", "bde", "catboost", "ngboost", "gp")
WITH_PARTS = ("twofold", "bde", "catboost", "reference")
UNKNOWN = "–"
SMALL = 0.2


def known_or_not(values: dict[str, float], name: str) -> str:
    """Mean and standard error, if there are any; of small scores with a digit more."""
    if f"{name}/mean" not in values:
        return UNKNOWN
    return mean_and_error(values, name, 2 if abs(values[f"{name}/mean"]) >= SMALL else 3)


def tabulate_regression(results: Path) -> str:
    """Scores and seconds on public tables, each library in one row."""
    values = metrics("regression", results)
    rows = []
    for table in dict.fromkeys(name.split("/")[0] for name in values):
        for library, label in LIBRARIES.items():
            place = f"{table}/{library}"
            if f"{place}/rmse/mean" not in values:
                continue
            cells = [known_or_not(values, f"{place}/{score}") for score in SCORES]
            splits = values.get(f"{place}/splits")
            seconds = [values.get(f"{place}/{part}/mean") for part in SECONDS]
            rows.append(
                [
                    table,
                    label,
                    f"{splits:.0f}" if splits else UNKNOWN,
                    *cells,
                    *(UNKNOWN if second is None else f"{second:.1f}" for second in seconds),
                ]
            )
    return markdown(["table", "library", "splits", *SCORES.values(), *SECONDS.values()], rows)


def tabulate_beside(results: Path) -> str:
    """Log-likelihood and CRPS on public tables of which this library has several splits, each in
    one row; of libraries with another number of splits that number too."""
    values = metrics("regression", results)
    rows = []
    for table in dict.fromkeys(name.split("/")[0] for name in values):
        places = [f"{table}/{library}" for library in BESIDE]
        splits = [values.get(f"{place}/splits") for place in places]
        if f"{places[0]}/crps/mean" not in values or splits[0] == 1:
            continue
        cells = [
            UNKNOWN
            if f"{place}/crps/mean" not in values
            else f"{mean_and_error(values, f'{place}/test_log_likelihood')}; "
            f"{known_or_not(values, f'{place}/crps')}"
            + (f" ({own:.0f} splits)" if own and own != splits[0] else "")
            for place, own in zip(places, splits, strict=True)
        ]
        rows.append([table, *cells])
    return markdown(["table", *(LIBRARIES[library] for library in BESIDE)], rows)


def tabulate_splits_beside(results: Path) -> str:
    """``tabulate_peer_splits`` of this library beside others."""
    return tabulate_peer_splits(results, WITH_PARTS)


def tabulate_peer_splits(results: Path, libraries: Sequence[str] = tuple(LIBRARIES)) -> str:
    """The two parts against the truth, each library in one row."""
    values = metrics("regression", results)
    places = [name.removesuffix("/epistemic_rank/mean") for name in values]
    measured = [place for place in places if f"{place}/epistemic_rank/mean" in values]
    order = list(LIBRARIES)
    rows = [
        [
            problem,
            LIBRARIES[library],
            f"{values[f'{place}/splits']:.0f}",
            *(known_or_not(values, f"{place}/{part}") for part in PARTS),
        ]
        for place in sorted(measured, key=lambda place: order.index(place.split("/")[1]))
        for problem, library in [place.split("/")]
        if library in libraries
    ]
    rows.sort(key=lambda row: row[0])
    return markdown(["problem", "library", "seeds", *PARTS.values()], rows)
