"""Which inputs drive the prediction and each part of its uncertainty."""

import numpy as np
from matplotlib.figure import Figure

from twofold.report import figures, page, style
from twofold.report.model_data import Subject, evenly, found
from twofold.uncertainty.decomposition import Parts
from twofold.uncertainty.sensitivity import other_rows, total_effects

MOST_SWAPPED, MOST_SWAPS, FEWEST_SWAPPED, MOST_REPEATS = 1000, 16_000, 100, 4
MOST_BARS = 12
DEPENDENT = 1.3
SEED = 0


def drives(about: Subject) -> Parts:
    """Total effects ``[D, O]`` of the inputs on the mean (``total``) and the parts' deviations."""
    x, columns = about.data.x, len(about.inputs)
    rows = min(MOST_SWAPPED, max(FEWEST_SWAPPED, MOST_SWAPS // columns))
    x = x[evenly(len(x), rows)]

    def quantities(rows: np.ndarray) -> np.ndarray:
        here = found(about.model, rows)
        deviations = here.deviations()
        return np.hstack([here.mean, deviations.epistemic, deviations.aleatoric])

    rng = np.random.default_rng(SEED)
    repeats = int(np.clip(MOST_SWAPS // (columns * len(x)), 1, MOST_REPEATS))
    effects = [total_effects(quantities, x, other_rows(rng, len(x))) for _ in range(repeats)]
    return Parts(*np.split(np.mean(effects, axis=0), 3, axis=1))


def order_of(effects: Parts) -> np.ndarray:
    """Columns from the one that drives most to the one that drives least, each part alike."""
    every = np.hstack(effects)
    sums = every.sum(axis=0)
    shares = every / np.where(sums > 0.0, sums, 1.0)
    return np.argsort(-shares.mean(axis=1), kind="stable")


def section(about: Subject, effects: Parts, order: np.ndarray) -> str:
    """Bars and a table for each output, with what they mean."""
    columns = order[:MOST_BARS]
    names = [about.inputs[column] for column in columns]
    blocks: dict[tuple[str, ...], str] = {}
    for i, output in enumerate(about.outputs):
        parts = Parts(*(part[columns, i] for part in effects))
        with style.style():
            figure = Figure(figsize=(4.6, 1.4 + 0.38 * len(names)), layout="constrained")
            figures.effect_bars(figure.subplots(), names, parts)
            blocks[(output,)] = page.pictures(
                page.picture(figure, f"Total effects of the inputs on {output}.")
                + _effects_table(names, parts)
            )
    left = f" The {MOST_BARS} largest of {len(order)} are shown." if len(order) > MOST_BARS else ""
    words = [
        "How much each quantity changes when one input alone is replaced by its value in another "
        "row, as a share of the quantity's variance over the data. Inputs that work together count "
        f"each, so that shares may add up to more than 100 %.{left}"
    ]
    if max(part.max() for part in effects) > DEPENDENT:
        words.append(
            "A share far above 100 % comes from inputs that depend on each other: replaced one by "
            "one they lead to places where no data are near, and where less is known."
        )
    return page.paragraphs(*words) + page.chooser("drives", {"output": about.outputs}, blocks)


def _effects_table(names: list[str], parts: Parts) -> str:
    rows = [[name, *(f"{100 * part[i]:.0f} %" for part in parts)] for i, name in enumerate(names)]
    return page.table(["input", "mean", "epistemic", "aleatoric"], rows)
