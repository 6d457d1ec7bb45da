"""Quality against seconds, from ``results/posteriors.json``."""

from pathlib import Path

from paper.contest import METHODS
from paper.figures.tradeoff import Tradeoff, tradeoff_figure
from paper.jobs import LABELS
from paper.markdown import metrics
from paper.problems import PROBLEMS
from twofold.report.style import style

QUALITIES = {
    "epistemic_abs_error": "epistemic entropy: mean difference\nfrom HMC's (nats)",
    "aleatoric_abs_error": "aleatoric entropy: mean error\nwhere data are plentiful (nats)",
    "oracle_gap": "test log-likelihood: gap to the\ntrue process (nats)",
}


def run(results: Path) -> Path:
    """Draw ``posteriors.png`` beside the record."""
    values = metrics("posteriors", results)
    entries = {}
    for method in METHODS:
        seconds = {p: values[f"{p}/{method}/seconds_cpu/mean"] for p in PROBLEMS}
        # The reference can only be held against itself.
        label = "HMC (half against half)" if method == "hmc" else LABELS[method]
        entries[label] = {
            quality: Tradeoff(
                seconds, {p: values[f"{p}/{method}/{quality}/mean"] for p in PROBLEMS}
            )
            for quality in QUALITIES
        }
    path = results / "posteriors.png"
    with style():
        tradeoff_figure(entries, QUALITIES, "seconds for a fit on two CPU cores").savefig(
            path, dpi=100
        )
    return path
