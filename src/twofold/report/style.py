"""One look for all figures: colour-blind-safe colours (Okabe and Ito) and plain axes."""

from contextlib import AbstractContextManager
from typing import Any

import matplotlib as mpl

TOTAL = "#000000"
EPISTEMIC = "#0072B2"
ALEATORIC = "#E69F00"
DATA = "#7f7f7f"
POINTS = "#404040"
TRUTH = "#009E73"
CHOSEN = "#D55E00"

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000")

SETTINGS: dict[Any, Any] = {
    "figure.dpi": 120,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.hashsalt": "twofold",
}


def style() -> AbstractContextManager:
    """Use the house style inside a ``with`` block."""
    return mpl.rc_context(SETTINGS)
