"""How good a fitted model's predictions are: beside plain models, and their calibration."""

from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression

from twofold.report import figures, page, style
from twofold.report.calibration import Scores, coverage_curves, pit_histograms
from twofold.report.model_data import Found, Subject, evenly, shown
from twofold.report.slices import SIZE
from twofold.uncertainty import metrics
from twofold.uncertainty.decomposition import Parts

DRAWS, MOST_ROWS = 400, 1000
INTERVAL = 0.9


class Quality(NamedTuple):
    """Root mean squared error of each output ``[O]``, and nats per row, all outputs together."""

    rmse: np.ndarray
    log_likelihood: float


def qualities(about: Subject, here: Found) -> dict[str, Quality]:
    """Of the model, which finds ``here`` at the rows it is judged by, and of two plain ones."""
    judged = about.judged
    own = Quality(
        np.asarray(metrics.rmse(judged.y, here.mean)),
        float(about.model.log_likelihood(judged.x, _as_fitted(about, judged.y)).mean()),
    )
    return {
        "this model": own,
        "linear regression": _plain(LinearRegression(), about, len(about.inputs) + 1),
        "constant": _plain(DummyRegressor(), about, 1),
    }


def comparison(about: Subject, every: dict[str, Quality]) -> str:
    """The models beside each other, as a table."""
    headings = ["", "log-likelihood (nats per row)", *(f"RMSE of {name}" for name in about.outputs)]
    rows = [
        [name, f"{one.log_likelihood:.3f}" if np.isfinite(one.log_likelihood) else "—"]
        + [shown(error) for error in one.rmse]
        for name, one in every.items()
    ]
    return page.table(headings, rows, "Higher log-likelihood and lower error are better")


def calibration(about: Subject) -> str:
    """Coverage and PIT of each output, with their numbers in a table."""
    kept = evenly(len(about.judged.x), MOST_ROWS)
    x, y = about.judged.x[kept], about.judged.y[kept]
    samples = about.model.sample(x, DRAWS).reshape(DRAWS, *y.shape)
    density = about.model.log_likelihood(x, _as_fitted(about, y))
    pit, crps = metrics.pit(samples, y), metrics.crps(samples, y)
    scores = {name: Scores(pit[:, i], crps[:, i], density) for i, name in enumerate(about.outputs)}
    blocks: dict[tuple[str, ...], str] = {
        (name,): _calibration_pictures(name, one) for name, one in scores.items()
    }
    choices = page.chooser("calibration", {"output": about.outputs}, blocks)
    return choices + _calibration_table(scores)


def predicted(about: Subject, here: Found) -> str:
    """Predicted and measured values of each output, at the rows that judge."""
    rows = "held-out rows" if about.held_out else "rows it was fitted to"
    blocks: dict[tuple[str, ...], str] = {}
    with style.style():
        for i, name in enumerate(about.outputs):
            figure = Figure(figsize=SIZE, layout="constrained")
            parts = Parts(*(part[:, i] for part in here.variances))
            axes = figures.predicted_and_measured(
                figure.subplots(), about.judged.y[:, i], here.mean[:, i], parts
            )
            axes.set(xlabel=figures.label(f"{name}, measured"), ylabel="predicted")
            blocks[(name,)] = page.pictures(
                page.picture(
                    figure,
                    f"Predicted against measured {name} with intervals of two deviations.",
                    f"On {rows}, at most {figures.MOST_INTERVALS} of them. About 19 of 20 bars "
                    "should reach the line.",
                )
            )
    return page.chooser("predicted", {"output": about.outputs}, blocks)


def _calibration_pictures(name: str, scores: Scores) -> str:
    bins = int(np.clip(scores.pit.size // 10, 4, 20))
    with style.style():
        covered, ranks = (Figure(figsize=SIZE, layout="constrained") for _ in range(2))
        coverage_curves(covered.subplots(), {name: scores})
        pit_histograms(ranks.subplots(), {name: scores}, bins)
        return page.pictures(
            page.picture(
                covered,
                f"Share of measurements of {name} inside intervals of each nominal coverage.",
                "Inside the grey band, the intervals hold as many measurements as they should.",
            ),
            page.picture(
                ranks,
                f"Where measurements of {name} fall within their predictive distributions.",
                "Bars inside the grey band are what a right model would show by chance.",
            ),
        )


def _calibration_table(scores: dict[str, Scores]) -> str:
    rows = [
        [
            name,
            f"{100 * metrics.coverage(one.pit, np.array([INTERVAL]))[0]:.1f} %",
            f"{100 * metrics.calibration_error(one.pit):.1f}",
            f"{100 * metrics.chance_calibration_error(one.pit.size):.1f}",
            shown(float(one.crps.mean())),
        ]
        for name, one in scores.items()
    ]
    headings = ["output", f"inside the {INTERVAL:.0%} interval", "coverage error (points)"]
    return page.table([*headings, "by chance alone", "CRPS (units of the output)"], rows)


def _plain(model: Any, about: Subject, parameters: int) -> Quality:
    """A plain model with Gaussian noise; without spare rows its noise is not known."""
    data, judged = about.data, about.judged
    model.fit(data.x, data.y)
    spare = len(data.x) - parameters
    left = data.y - model.predict(data.x).reshape(data.y.shape)
    mean = model.predict(judged.x).reshape(judged.y.shape)
    noise = np.sqrt(np.sum(np.square(left), axis=0) / max(spare, 1))
    known = spare > 0 and bool(np.all(noise > 0))
    nats = norm.logpdf(judged.y, mean, noise).sum(axis=1).mean() if known else np.nan
    return Quality(np.asarray(metrics.rmse(judged.y, mean)), float(nats))


def _as_fitted(about: Subject, y: np.ndarray) -> np.ndarray:
    return y[:, 0] if about.model.y_ndim_ == 1 else y
