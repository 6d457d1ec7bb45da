"""The page of a fitted model: its data, what it predicts, what it does not know, and how right."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.utils.validation import check_is_fitted

from twofold.estimators.storage import find_worries
from twofold.inference.method import resolve_method
from twofold.report import calibration, figures, model_data
from twofold.report.calibration import Scores
from twofold.report.figures import DATA, TOTAL, draw_panel
from twofold.report.model_data import MOST_ROWS, Moments, Slice, Subject, compute_moments
from twofold.report.page import Chooser, Rows, format_number, write_page
from twofold.uncertainty.decomposition import Parts

METHODS = {
    "ensemble": "anchored ensemble",
    "alpha": "mean field (α-divergence)",
    "sghmc": "stochastic-gradient HMC",
    "nuts": "Markov chains (NUTS)",
    "hmc": "Markov chains (HMC)",
}
MOST_INPUTS, MOST_OUTPUTS, MOST_BLOCKS, MOST_BARS = 8, 8, 36, 12
LEAST_KNOWN = 10


def write_model_page(
    path: str | Path, model: Any, X: Any, y: Any, *, inputs: Sequence[str], outputs: Sequence[str],
    held_out: tuple[Any, Any] | None = None, title: str = "A fitted model",
    rows: Sequence[str] | None = None,
) -> Path:  # fmt: skip
    """Write the page of a fitted model, one HTML file that needs nothing else.

    Parameters
    ----------
    path : the file to write
    model : fitted BNNLVRegressor
    X, y : the rows it was fitted to, ``[N, D]`` and ``[N]`` or ``[N, O]``
    inputs, outputs : names of the columns
    held_out : X and y of rows it was not fitted to, by which it is judged
    title : of the page
    rows : what the rows of X are called in the user's table, such as ``line 17``
    """
    check_is_fitted(model)
    about = model_data.make_subject(model, X, y, inputs, outputs, held_out, rows)
    return write_page(path, "model.html", title, about=about, **_collect(about))


def find_doubts(model: Any) -> str | None:
    """Why a fitted model is not to be trusted yet, if there is a reason."""
    report = model.convergence_
    advice = find_worries(model)
    if report is None or report.epochs == report.planned_epochs:
        return advice
    short = f"the fit was stopped after {report.epochs} of {report.planned_epochs} epochs"
    return "; ".join(filter(None, [short, advice]))


@dataclass(frozen=True)
class Output:
    """One output: its scores, the means of its noise and of its epistemic part over the data, the
    effects ``[D]`` of the inputs that drive most, and its figures."""

    about: Subject
    number: int
    name: str
    test: Moments
    rmse: float
    noise: float
    epistemic_share: float
    scores: Scores
    drivers: list[str]
    effects: Parts

    def list_effects(self) -> list[list[str]]:
        """The effects of each input in percent."""
        rows = zip(self.drivers, *self.effects, strict=True)
        return [[name, *(f"{100 * part:.0f} %" for part in parts)] for name, *parts in rows]

    def list_scores(self) -> list[str]:
        """Name, coverage and its error, what chance makes of that, and CRPS."""
        covered, crps = f"{100 * self.scores.covered:.1f} %", float(self.scores.crps.mean())
        errors = (f"{100 * error:.1f}" for error in self.scores.calibration_errors)
        return [self.name, covered, *errors, format_number(crps)]

    @property
    def bins(self) -> int:
        """Of the histogram of where measurements fall in their predictive distributions."""
        return int(np.clip(self.scores.pit.size // 10, 4, 20))

    def draw_predicted(self) -> Figure:
        """Predicted and measured values, at the rows that scores are computed from."""
        values = self.about.test.y[:, self.number], self.test.mean[:, self.number]
        parts = _pick(self.test.variances, self.number)
        label = figures.shorten_label(f"{self.name}, measured")
        return draw_panel(figures.plot_predicted, *values, parts, xlabel=label)


@dataclass(frozen=True)
class Line:
    """What is predicted of one output along one input."""

    about: Subject
    along: Slice
    number: int
    input: str
    output: str

    def draw_bands(self) -> Figure:
        """Predictive bands; with the measurements where there is no other input."""
        x, y = self.about.data.x[:, self.along.column], self.about.data.y[:, self.number]
        mean, variances = self.along.moments
        parts = mean[:, self.number], _pick(variances, self.number)
        data = (x, y) if len(self.about.inputs) == 1 else None
        label = figures.shorten_label(self.output)
        return self._draw(figures.plot_predictive_bands, *parts, data, ylabel=label)

    def draw_entropies(self) -> Figure:
        return self._draw(figures.plot_entropies, _pick(self.along.entropies, self.number))

    def _draw(self, plot: Any, *arguments: Any, **labels: Any) -> Figure:
        grid = self.along.grid
        labels |= {"xlabel": figures.shorten_label(self.input), "xlim": (grid[0], grid[-1])}
        labels |= {"xticks": grid} if len(grid) <= 6 else {}
        figure = draw_panel(plot, grid, *arguments, **labels)
        figures.plot_rug(figure.axes[0], self.about.data.x[:, self.along.column])
        return figure


def _pick(parts: Parts, output: int) -> Parts:
    return Parts(*(part[:, output] for part in parts))


def _collect(about: Subject) -> dict[str, Any]:
    """What the template shows; every split and score is computed once."""
    here = compute_moments(about.model, about.data.x)
    test = here if about.held_out is None else compute_moments(about.model, about.held_out.x)
    densities = calibration.compute_log_densities(about)
    accuracies = calibration.compare_models(about, test, densities)
    effects = model_data.compute_effects(about, here)
    order = model_data.rank_inputs(effects)
    bars = order[:MOST_BARS]
    total, epistemic, aleatoric = (part.mean(axis=0) for part in here.variances)
    noise, share = np.sqrt(aleatoric), epistemic / total
    outputs = [
        Output(
            about, i, name, test, accuracies["this model"].rmse[i], noise[i], share[i], scores,
            [about.inputs[column] for column in bars], Parts(*(part[bars, i] for part in effects)),
        )
        for i, (name, scores) in enumerate(calibration.compute_scores(about, densities).items())
    ]  # fmt: skip
    moving = [int(column) for column in order if np.ptp(about.data.x[:, column]) > 0]
    blocks = {(output.name,): output for output in outputs}
    return {
        "inference": METHODS[resolve_method(about.model.inference).name],
        "doubts": find_doubts(about.model),
        "accuracies": accuracies,
        "accuracy_rows": [
            ["", "log-likelihood (nats per row)", *(f"RMSE of {name}" for name in about.outputs)],
            *([name, *one.cells] for name, one in accuracies.items()),
        ],
        "score_rows": [output.list_scores() for output in outputs],
        "outputs": outputs,
        "by_output": lambda name: Chooser(name, {"output": about.outputs}, blocks),
        "moving": moving,
        "slices": _slice(about, here, moving) if moving else None,
        "largest_effect": max(part.max() for part in effects),
        "least_known": _list_least_known(about, here, order),
        "columns": _list_columns(about),
        "histograms": _list_histograms(about, order),
        "draw": draw_panel,
        "figures": figures,
        "calibration": calibration,
        "most_bars": MOST_BARS,
        "most_outputs": MOST_OUTPUTS,
        "most_rows": MOST_ROWS,
    }


def _slice(about: Subject, here: Moments, moving: list[int]) -> Chooser:
    """Lines along the inputs that drive most, through a few rows, for each output."""
    rows = {"": 0} if len(about.inputs) == 1 else model_data.choose_anchors(about, here)
    outputs = about.outputs[:MOST_OUTPUTS]
    room = max(2, MOST_BLOCKS // (len(rows) * len(outputs)))
    columns = moving[: min(MOST_INPUTS, room)]
    every = model_data.compute_slices(about, columns, list(rows.values()))
    inputs = {about.inputs[column]: column for column in columns}
    blocks = {
        (name, where, output): Line(about, every[column, row], i, name, output)
        for name, column in inputs.items()
        for where, row in rows.items()
        for i, output in enumerate(outputs)
    }
    selects = {"input": list(inputs), "other inputs at": list(rows), "output": outputs}
    return Chooser("slices", selects, blocks)


def _list_least_known(about: Subject, here: Moments, order: np.ndarray) -> Rows:
    """The rows of the data where the epistemic part of the variance is largest."""
    data, columns = about.data, order[:MOST_INPUTS]
    share = (here.variances.epistemic / np.var(data.y, axis=0).clip(1e-300)).mean(axis=1)
    headings = ["", *(about.inputs[c] for c in columns)]
    for name in about.outputs[:MOST_OUTPUTS]:
        headings += [f"{name}, measured", "predicted", "epistemic σ", "aleatoric σ"]
    every = np.stack([data.y, here.mean, *here.deviations()[1:]], axis=2)[:, :MOST_OUTPUTS]
    values = np.hstack([data.x[:, columns], every.reshape(len(every), -1)])
    rows = np.argsort(-share, kind="stable")[:LEAST_KNOWN]
    return headings, [[data.names[row], *map(format_number, values[row])] for row in rows]


def _list_columns(about: Subject) -> list[list[str]]:
    """Name, kind, range and number of different values of each column."""
    kinds = ["input"] * len(about.inputs) + ["output"] * len(about.outputs)
    values = [*about.data.x.T, *about.data.y.T]
    return [
        [name, kind, *map(format_number, [*np.quantile(v, [0.0, 0.5, 1.0]), len(np.unique(v))])]
        for name, kind, v in zip(about.inputs + about.outputs, kinds, values, strict=True)
    ]


def _list_histograms(about: Subject, order: np.ndarray) -> list[tuple[np.ndarray, str, str]]:
    """Values, name and colour of the outputs, then of the inputs that drive most."""
    x, y = about.data.x, about.data.y
    outputs = [(y[:, i], name, TOTAL) for i, name in enumerate(about.outputs[:MOST_OUTPUTS])]
    return outputs + [(x[:, c], about.inputs[c], DATA) for c in sorted(order[:MOST_INPUTS])]
