"""The page of a fitted model: its data, what it predicts, what it does not know, and how right."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.utils.validation import check_is_fitted

from twofold.estimators.methods import Fitted
from twofold.report import figures, page, scores, slices, style
from twofold.report.drives import drives, order_of, section
from twofold.report.model_data import MOST_ROWS, Found, Subject, found, shown, subject
from twofold.report.scores import Quality

METHODS = {
    "ensemble": "anchored ensemble",
    "alpha": "mean field (α-divergence)",
    "sghmc": "stochastic-gradient HMC",
    "nuts": "Markov chains (NUTS)",
    "hmc": "Markov chains (HMC)",
}
SMALL = (3.4, 2.2)
LEAST_KNOWN = 10
FLATTERING = (
    "no held-out rows were given: these numbers come from the rows the model was fitted to, and "
    "flatter it."
)
INTRODUCTION = (
    "What the model predicts, and how sure it is: the epistemic part of its uncertainty (blue) is "
    "what more data would remove, the aleatoric part (orange) is noise, which stays."
)


def model_page(
    model: Any,
    X: Any,
    y: Any,
    *,
    inputs: Sequence[str],
    outputs: Sequence[str],
    held_out: tuple[Any, Any] | None = None,
    title: str = "A fitted model",
    rows: Sequence[str] | None = None,
) -> str:
    """The page, as HTML that needs nothing else.

    Parameters
    ----------
    model : fitted BNNLVRegressor
    X, y : the rows it was fitted to, ``[N, D]`` and ``[N]`` or ``[N, O]``
    inputs, outputs : names of the columns
    held_out : X and y of rows it was not fitted to, by which it is judged
    title : of the page
    rows : what the rows of X are called in the user's table, such as ``line 17``
    """
    check_is_fitted(model)
    about = subject(model, X, y, inputs, outputs, held_out, rows)
    here = found(model, about.data.x)
    judged = here if about.held_out is None else found(model, about.held_out.x)
    effects = drives(about)
    order = order_of(effects)
    warned = "" if about.held_out else page.warning(FLATTERING)
    sections = [
        ("Key figures", warned + _summary(about, here, scores.qualities(about, judged))),
        ("What it predicts", _prediction(about, here, order)),
        ("Which inputs drive each part", section(about, effects, order)),
        ("Where least is known", _least_known(about, here, order)),
        ("Predicted and measured", scores.predicted(about, judged)),
        ("Calibration", warned + scores.calibration(about)),
        ("Data", _data(about, order)),
    ]
    if len(about.inputs) == 1:
        del sections[2]
    return page.page(title, INTRODUCTION, sections)


def doubts(model: Any) -> str | None:
    """Why a fitted model is not to be trusted yet, if there is a reason."""
    fitted = Fitted(
        model.posterior_,
        model.convergence_,
        model.diagnostics_,
        model.integration_error_,
        model.model_.latents,
    )
    report = model.convergence_
    if report is None or report.epochs == report.planned_epochs:
        return fitted.advice
    short = f"the fit was stopped after {report.epochs} of {report.planned_epochs} epochs"
    return "; ".join(filter(None, [short, fitted.advice]))


def _summary(about: Subject, here: Found, qualities: dict[str, Quality]) -> str:
    doubt = doubts(about.model)
    own = qualities["this model"]
    noise = np.sqrt(here.variances.aleatoric.mean(axis=0))
    share = here.variances.epistemic.mean(axis=0) / here.variances.total.mean(axis=0)
    judged = "held-out rows" if about.held_out else "fitted rows"
    cards = {
        "rows fitted to": f"{about.rows:,}",
        "held-out rows": f"{len(about.held_out.x):,}" if about.held_out else "none",
        "inputs and outputs": f"{len(about.inputs)} and {len(about.outputs)}",
        "inference": METHODS.get(about.model.inference, about.model.inference),
        f"log-likelihood, {judged}": f"{own.log_likelihood:.3f} nats",
    }
    for i, name in enumerate(about.outputs[: slices.MOST_OUTPUTS]):
        cards[f"error (RMSE) of {name}"] = shown(own.rmse[i])
        cards[f"noise (σ) of {name}"] = shown(noise[i])
        cards[f"epistemic share of the variance of {name}"] = f"{share[i]:.0%}"
    return (
        (page.warning(f"{doubt}.") if doubt else "")
        + page.numbers(cards)
        + scores.comparison(about, qualities)
        + page.paragraphs(
            "The linear regression and the constant have Gaussian noise of one width everywhere; "
            "a model that does not beat them has learned nothing beyond them."
        )
    )


def _prediction(about: Subject, here: Found, order: np.ndarray) -> str:
    moving = [int(c) for c in order if np.ptp(about.data.x[:, c]) > 0]
    if not moving:
        return page.paragraphs("No input takes more than one value: there is nothing to draw.")
    alone = len(about.inputs) == 1
    rows = {"": 0} if alone else slices.anchors(about, here)
    outputs = about.outputs[: slices.MOST_OUTPUTS]
    room = max(2, slices.MOST_BLOCKS // (len(rows) * len(outputs)))
    columns = moving[: min(slices.MOST_INPUTS, room)]
    every = slices.slices(about, columns, list(rows.values()))
    blocks: dict[tuple[str, ...], str] = {
        (about.inputs[column], where, output): slices.block(one, about, column, i, alone)
        for column, through in zip(columns, every, strict=True)
        for where, one in zip(rows, through, strict=True)
        for i, output in enumerate(outputs)
    }
    selects = {
        "input": [about.inputs[column] for column in columns],
        "other inputs at": list(rows),
        "output": outputs,
    }
    words = [] if alone else [_what_is_shown(about, columns, moving, outputs)]
    return page.paragraphs(*words) + page.chooser("slices", selects, blocks)


def _what_is_shown(
    about: Subject, columns: list[int], moving: list[int], outputs: list[str]
) -> str:
    words = "One input moves, the others stay where a row of the data has them."
    if len(columns) < len(moving):
        words += f" Shown are the {len(columns)} inputs that drive most, of {len(about.inputs)}."
    if len(moving) < len(about.inputs):
        words += f" {len(about.inputs) - len(moving)} never change in the data."
    if len(outputs) < len(about.outputs):
        words += f" The first {len(outputs)} outputs of {len(about.outputs)} are shown."
    return words


def _least_known(about: Subject, here: Found, order: np.ndarray) -> str:
    data = about.data
    share = (here.variances.epistemic / np.var(data.y, axis=0).clip(1e-300)).mean(axis=1)
    rows = np.argsort(-share, kind="stable")[:LEAST_KNOWN]
    columns = order[: slices.MOST_INPUTS]
    outputs = range(len(about.outputs))[: slices.MOST_OUTPUTS]
    deviations = here.deviations()
    headings = ["", *(about.inputs[c] for c in columns)]
    for i in outputs:
        name = about.outputs[i]
        headings += [f"{name}, measured", "predicted", "epistemic σ", "aleatoric σ"]
    cells = []
    for row in rows:
        cell = [data.names[row], *(shown(value) for value in data.x[row, columns])]
        for i in outputs:
            values = data.y[row, i], here.mean[row, i], *(part[row, i] for part in deviations[1:])
            cell += [shown(float(value)) for value in values]
        cells.append(cell)
    return page.paragraphs(
        "The rows of the data where the epistemic part of the variance is largest: more "
        "measurements like these would teach the model most."
    ) + page.table(headings, cells)


def _data(about: Subject, order: np.ndarray) -> str:
    data, columns = about.data, sorted(order[: slices.MOST_INPUTS])
    drawn = [
        (name, data.y[:, i], style.TOTAL)
        for i, name in enumerate(about.outputs[: slices.MOST_OUTPUTS])
    ] + [(about.inputs[c], data.x[:, c], style.DATA) for c in columns]
    parts = []
    with style.style():
        for name, values, colour in drawn:
            figure = Figure(figsize=SMALL, layout="constrained")
            figures.histogram(figure.subplots(), values, name, colour)
            parts.append(page.picture(figure, f"Histogram of {name}."))
    words = f"{about.rows:,} rows, every value there. Outputs come first, then inputs."
    if about.rows > MOST_ROWS:
        words += f" This page is made from {MOST_ROWS:,} of them, spread evenly over the table."
    return page.paragraphs(words) + page.pictures(*parts) + _columns_table(about)


def _columns_table(about: Subject) -> str:
    every = [("input", *pair) for pair in zip(about.inputs, about.data.x.T, strict=True)]
    every += [("output", *pair) for pair in zip(about.outputs, about.data.y.T, strict=True)]
    rows = [
        [name, kind, *map(shown, [*np.quantile(values, [0.0, 0.5, 1.0]), len(np.unique(values))])]
        for kind, name, values in every
    ]
    return page.table(["column", "", "lowest", "median", "highest", "different values"], rows)
