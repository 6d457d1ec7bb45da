"""Whether a model is good enough to plan with: one step ahead, and along logged actions.

Everything is measured on episodes that the model has not seen. One step ahead its log-likelihood
stands beside that of a linear regression with Gaussian residuals. Further ahead the model is rolled
out from logged states under the *logged* actions, and the costs that it predicts are compared with
those that came.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from twofold.estimators.linear import LinearGaussian
from twofold.plant.dynamics import DTYPE, DynamicsModel
from twofold.plant.log import Log
from twofold.plant.replay import MultiStep, compare, passages, replayed_costs
from twofold.plant.windows import Window
from twofold.uncertainty import metrics

LEVELS = np.array([0.5, 0.9])
# Shares of so many rows are known to a percent, and their likelihoods take seconds.
MOST_ROWS = 4_000
# They leave 200 places for a measurement, of which both intervals hold a whole number.
DRAWS = 199
# A linear plant is predicted no better than by a linear model. In nats for each output, this is
# what a mean that is off by a fifth of the noise costs.
LINEAR_SLACK = 0.02
# At a horizon where nothing of the start is left, a perfect model errs as much as the mean does,
# give or take chance.
MEAN_SLACK = 1.1
# The coverage of a nominal 90 % if deviations are taken for a third less than they are: risks that
# are that wrong are not worth weighing.
LEAST_COVERAGE = 0.7
DOUBT = "Doubt: "


class PlanningWarning(UserWarning):
    """A model whose policies should not be trusted."""


class Scores(NamedTuple):
    """A mean log-likelihood, joint over outputs: in raw units, and in those of a model's outputs
    (deviations of the training data)."""

    raw: float
    standardised: float


class OneStep(NamedTuple):
    """One step ahead: log-likelihoods, and for each output the coverage of central intervals."""

    rows: int
    model: Scores
    linear: Scores
    coverage_50: np.ndarray
    coverage_90: np.ndarray


@dataclass(frozen=True, eq=False)
class Quality:
    """What is known of a model before policies are trained on it; ``horizon`` was asked for."""

    targets: tuple[str, ...]
    horizon: int
    one_step: OneStep
    multi_step: MultiStep

    @property
    def doubts(self) -> list[str]:
        """Reasons not to plan with this model, in sentences."""
        one, many = self.one_step, self.multi_step
        found = []
        slack = LINEAR_SLACK * len(self.targets)
        if not one.model.standardised >= one.linear.standardised - slack:
            found.append(
                f"one step ahead its log-likelihood, {one.model.standardised:.3f}, is less than "
                f"that of a linear regression, {one.linear.standardised:.3f}; train it longer"
            )
        for name, share in zip(self.targets, one.coverage_90, strict=True):
            if share < LEAST_COVERAGE:
                found.append(
                    f"one step ahead its 90 % intervals of {name} hold {share:.0%} of what was "
                    "measured: it is too sure of itself"
                )
        if many.error[-1] > MEAN_SLACK * many.mean_error[-1]:
            found.append(
                f"after {many.horizon} steps of logged actions its error in the cost, "
                f"{many.error[-1]:.2f} deviations, is larger than that of always predicting the "
                f"mean, {many.mean_error[-1]:.2f}; use a shorter horizon or a longer history"
            )
        if many.coverage_90.mean() < LEAST_COVERAGE:
            found.append(
                f"along logged actions its 90 % intervals hold {many.coverage_90.mean():.0%} of "
                "the costs that came: the risks that it predicts are too small"
            )
        if many.non_finite[-1] > 0.0:
            found.append(
                f"{many.non_finite[-1]:.2%} of its roll-outs of {many.horizon} steps leave the "
                "finite numbers; bound what it predicts with a transform of its columns"
            )
        return found

    def text(self) -> str:
        """Tables of all of it."""
        one, many = self.one_step, self.multi_step
        rows = [
            ("mean log-likelihood", "model", "linear"),
            ("raw units", f"{one.model.raw:.3f}", f"{one.linear.raw:.3f}"),
            ("standardised", f"{one.model.standardised:.3f}", f"{one.linear.standardised:.3f}"),
            ("coverage of intervals", "50 %", "90 %"),
        ]
        for name, half, most in zip(self.targets, one.coverage_50, one.coverage_90, strict=True):
            rows.append((name, f"{half:.1%}", f"{most:.1%}"))
        heading = "step", "bias", "error", "of mean", "90 %", "not finite"
        along: list[tuple[str, ...]] = [heading]
        for t in np.unique(np.linspace(0, many.horizon - 1, 6).round().astype(int)):
            costs = (f"{v[t]:.3f}" for v in (many.bias, many.error, many.mean_error))
            shares = (f"{v[t]:.1%}" for v in (many.coverage_90, many.non_finite))
            along.append((str(t + 1), *costs, *shares))
        lines = [f"One step ahead, {one.rows:,} held-out rows", *_aligned(rows)]
        lines += [
            f"Along logged actions, {many.windows} windows; costs in units of their deviation, "
            f"{many.deviation:.4g}",
            *_aligned(along),
        ]
        if many.horizon < self.horizon:
            lines.append(f"No held-out episode is long enough for the {self.horizon} steps asked.")
        return "\n".join([*lines, *(f"{DOUBT}{doubt}." for doubt in self.doubts)])

    def __str__(self) -> str:
        return self.text()


def doubts_in(text: str) -> list[str]:
    """Those that a text of ``Quality`` lists."""
    lines = (line for line in text.splitlines() if line.startswith(DOUBT))
    return [line.removeprefix(DOUBT).removesuffix(".") for line in lines]


def warn_of(doubts: Sequence[str]) -> None:
    """A ``PlanningWarning`` that lists the doubts, if there are any."""
    if doubts:
        warnings.warn(
            "\n  ".join(["this model is not good enough to plan with:", *doubts]),
            PlanningWarning,
            stacklevel=2,
        )


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    width = max(len(label) for label, *_ in rows)
    return [f"  {label:<{width}}" + "".join(f"{c:>12}" for c in cells) for label, *cells in rows]


def assess(
    model: DynamicsModel,
    held_out: Log,
    horizon: int,
    *,
    windows: int = 100,
    weight_draws: int = 20,
    noise_draws: int = 10,
    random_state: int = 0,
) -> Quality:
    """Judge a model by a log that it has not seen.

    Parameters
    ----------
    horizon : int
        T, of the roll-outs that policies will be trained on; less where no episode is so long.
    windows, weight_draws, noise_draws : int
        Where roll-outs start, M and N; memory and time grow with their product.
    """
    if horizon < 1:
        raise ValueError(f"horizon must be at least 1, got {horizon}")
    rng = np.random.default_rng(random_state)
    one = one_step(model, held_out, rng)
    chosen = passages(model, held_out, horizon, windows, rng)
    draw_key, noise_key = jax.random.split(jax.random.key(random_state))
    predicted = replayed_costs(
        model.task(()),
        noise_draws,
        noise_key,
        model.scales,
        model.posterior.sample(draw_key, weight_draws),
        Window(*(jnp.asarray(leaf, DTYPE) for leaf in chosen.windows)),
        jnp.asarray(chosen.actions, DTYPE),
    )
    samples = np.asarray(predicted, np.float64)
    many = compare(samples, chosen.costs, model.cost_mean, model.cost_scale)
    return Quality(model.embedding.target_names, horizon, one, many)


def one_step(model: DynamicsModel, held_out: Log, rng: np.random.Generator) -> OneStep:
    """Log-likelihoods and coverage at some of the held-out rows; the linear regression is fitted to
    the model's log."""
    regressor, scale = model.regressor, model.regressor.y_standardizer_.scale
    x, y = model.embedding.design(held_out)
    rows = rng.permutation(len(x))[:MOST_ROWS]
    x, y = x[rows], y[rows]
    seen = [
        (regressor.x_standardizer_.transform(a), regressor.y_standardizer_.transform(b))
        for a, b in (model.embedding.design(model.log), (x, y))
    ]
    own = float(regressor.log_likelihood(x, y).mean())
    linear = float(LinearGaussian.fit(*seen[0]).log_likelihood(*seen[1]).mean())
    shift = float(np.log(scale).sum())
    places = metrics.pit(regressor.sample(x, DRAWS).reshape(DRAWS, *y.shape), y)
    shares = [metrics.coverage(column, LEVELS) for column in places.T]
    return OneStep(
        len(rows), Scores(own, own + shift), Scores(linear - shift, linear), *np.transpose(shares)
    )
