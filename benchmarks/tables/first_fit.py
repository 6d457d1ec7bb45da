"""The table of first fits, from ``results/first_fit.json``."""

from pathlib import Path

from paper.markdown import markdown, metrics

SIZES = {"120x1": "120 × 1", "500x10": "500 × 10", "750x1": "750 × 1", "1500x5": "1,500 × 5"}
METHODS = {"quick": "quick start", "default": "default"}


def tabulate_first_fits(results: Path) -> str:
    """Seconds from calling fit to predictions, in a fresh process."""
    values = metrics("first_fit", results)
    rows = [
        [
            label,
            *(
                f"{values[f'{size}/{method}/{name}']:.1f}"
                for method in METHODS
                for name in ("seconds", "seconds_warm")
            ),
        ]
        for size, label in SIZES.items()
    ]
    headings = [f"{label}, {when}" for label in METHODS.values() for when in ("first", "again")]
    return markdown(["rows × inputs", *headings], rows)
