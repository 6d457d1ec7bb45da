"""The tables of first fits and of a step of chains on several cores."""

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


def tabulate_cores(results: Path) -> str:
    """Milliseconds of a step of eight chains, both ways."""
    values = metrics("bench_cores", results)
    sizes = [name.removesuffix("/ratio") for name in values if name.endswith("/ratio")]
    rows = [
        [
            SIZES[size.removesuffix("_latent")] + ", with z" * size.endswith("_latent"),
            *(f"{values[f'{size}/{way}/ms']:.2f}" for way in ("divided", "shared")),
            f"{values[f'{size}/ratio']:.1f}",
        ]
        for size in sizes
    ]
    ways = ["every operation divided among the cores", "a portion of the chains for each core"]
    return markdown(["rows × inputs", *ways, "ratio"], rows)
