"""Quality of a model for planning, one step ahead and in replays.

Everything is measured on held-out episodes. One step ahead, the log-likelihood is compared with
that of a linear regression with Gaussian residuals. Further ahead, the model is rolled out from
logged states under the *logged* controller (``twofold.plant.replay``), and predicted costs are
compared with observed ones. This replay estimates the error of expected costs.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from twofold.core.arrays import Float
from twofold.core.content import check_kinds
from twofold.estimators.linear import LinearGaussian
from twofold.plant.forecast import CAUTION
from twofold.plant.log import Log
from twofold.plant.replay import PASSAGES, choose_passages, replay_costs
from twofold.plant.rollout import DynamicsModel
from twofold.uncertainty import metrics

LEVELS = np.array([0.5, 0.9])
MOST_ROWS = 4_000  # shares are accurate to a percent, and likelihoods take seconds
DRAWS = 199  # a measurement has 200 possible ranks: both intervals hold a whole number of them
WEIGHT_DRAWS, NOISE_DRAWS = 20, 10  # roll-outs of each replayed passage
# On a linear plant, no model beats a linear one. Tolerance in nats per output: the cost of a mean
# that is off by a fifth of the noise; beyond the larger limit, a second opinion is asked for.
LINEAR_SLACK, FAR_BELOW_LINEAR = 0.02, 0.1
# At a horizon where the start no longer matters, even a perfect model errs as much as the mean, up
# to chance.
MEAN_SLACK = 1.1
# Coverage of nominal 90 % intervals if deviations are underestimated by a third: with larger
# errors, risks are not meaningful.
LEAST_COVERAGE = 0.7
SENTENCES = {
    "log_likelihood": "one step ahead its log-likelihood, {value:.3f}, is lower than that of a "
    "linear regression, {limit:.3f}; train it longer",
    "coverage": "one step ahead its 90 % intervals of {target} cover {value:.0%} of the "
    "measurements: it is overconfident",
    "cost_error": "after {steps} replayed steps its error in the cost, {value:.2f} "
    "deviations, is larger than that of always predicting the mean, {limit:.2f}; use a shorter "
    "horizon or a longer history",
    "cost_coverage": "in replays its 90 % intervals cover {value:.0%} of the observed costs: its "
    "predicted risks are too small",
    "non_finite": "{value:.2%} of its roll-outs of {steps} steps are not finite; bound the columns "
    "that it predicts with transforms",
}


class PlanningWarning(UserWarning):
    """A model whose policies should not be trusted."""


@dataclass(frozen=True)
class Doubt:
    """A reason not to plan with a model: its kind in ``SENTENCES``, the measured ``value`` and the
    ``limit`` it misses, for an output or a number of steps; ``str`` gives the sentence."""

    kind: str
    value: float
    limit: float
    target: str = ""
    steps: int = 0

    def __str__(self) -> str:
        return SENTENCES[self.kind].format(**vars(self))


@dataclass(frozen=True)
class Scores:
    """A mean log-likelihood, joint over outputs: in raw units and in standardised units."""

    raw: float
    standardised: float


@dataclass(frozen=True, eq=False)
class OneStep:
    """One step ahead: log-likelihoods, and for each output the coverage of central intervals."""

    rows: int
    model: Scores
    linear: Scores
    coverage_50: np.ndarray
    coverage_90: np.ndarray


@dataclass(frozen=True, eq=False)
class MultiStep:
    """Costs at each of T replayed steps, in units of the ``deviation`` of the costs.

    ``bias`` is the mean of predicted minus logged costs, ``error`` their root mean square,
    ``mean_error`` that of always predicting the mean cost of the training log. These and the
    coverage are computed over windows whose roll-outs are all finite; ``non_finite`` is the share
    of non-finite roll-outs. ``spread`` is the deviation of predicted minus observed mean costs of
    passages, ``logged_cost`` their mean logged cost per step in raw units, and ``separate`` the
    number of passages that do not overlap.
    """

    windows: int
    deviation: float
    bias: np.ndarray
    error: np.ndarray
    mean_error: np.ndarray
    coverage_90: np.ndarray
    non_finite: np.ndarray
    spread: float = np.nan
    logged_cost: float = np.nan
    separate: int = 0

    def __post_init__(self) -> None:
        check_kinds(self, "quality")

    @property
    def horizon(self) -> int:
        return len(self.bias)

    @property
    def replay_bias(self) -> float:
        """Predicted minus observed mean cost of replayed passages, in raw units."""
        return float(self.bias.mean()) * self.deviation

    @property
    def replay_margin(self) -> float:
        """Possible error of expected costs: the replay bias plus twice its standard error."""
        error = self.spread * self.deviation / np.sqrt(self.separate) if self.separate else 0.0
        return abs(self.replay_bias) + CAUTION * error


@dataclass(frozen=True, eq=False)
class Quality:
    """Quality of a model before policies are searched with it; ``horizon`` is the requested one;
    ``str`` gives two tables and the doubts."""

    targets: tuple[str, ...]
    horizon: int
    one_step: OneStep
    multi_step: MultiStep
    doubts: tuple[Doubt, ...]

    @property
    def far_below_linear(self) -> bool:
        """Whether one step ahead a linear regression is much better than the model."""
        one = self.one_step
        behind = (one.linear.standardised - one.model.standardised) / len(self.targets)
        return not behind <= FAR_BELOW_LINEAR

    @classmethod
    def of(
        cls, targets: Any, horizon: Any, one_step: Any, multi_step: Any, doubts: Any
    ) -> "Quality":
        """Restore from the fields given by ``dataclasses.asdict``."""
        scores = {name: Scores(**one_step[name]) for name in ("model", "linear")}
        one, many = OneStep(**one_step | scores), MultiStep(**multi_step)
        reasons = tuple(Doubt(**doubt) for doubt in doubts)
        return cls(tuple(map(str, targets)), int(horizon), one, many, reasons)

    def __str__(self) -> str:
        one, many = self.one_step, self.multi_step
        covered = zip(self.targets, one.coverage_50, one.coverage_90, strict=True)
        rows = [
            ("mean log-likelihood", "model", "linear"),
            ("raw units", f"{one.model.raw:.3f}", f"{one.linear.raw:.3f}"),
            ("standardised", f"{one.model.standardised:.3f}", f"{one.linear.standardised:.3f}"),
            ("coverage of intervals", "50 %", "90 %"),
            *((name, f"{half:.1%}", f"{most:.1%}") for name, half, most in covered),
        ]
        along: list[tuple[str, ...]] = [("step", "bias", "error", "of mean", "90 %", "not finite")]
        for t in np.unique(np.linspace(0, many.horizon - 1, 6).round().astype(int)):
            costs = (f"{v[t]:.3f}" for v in (many.bias, many.error, many.mean_error))
            shares = (f"{v[t]:.1%}" for v in (many.coverage_90, many.non_finite))
            along.append((str(t + 1), *costs, *shares))
        lines = [f"One step ahead, {one.rows:,} held-out rows", *_align(rows)]
        units = f"costs in units of their deviation, {many.deviation:.4g}"
        lines += [f"Replayed, {many.windows} windows; {units}", *_align(along)]
        off, apart = many.replay_bias, many.spread * many.deviation
        lines.append(f"Mean cost of a replayed window: bias {off:+.4g}, deviation {apart:.4g}.")
        if many.horizon < self.horizon:
            lines.append(f"No held-out episode has the {self.horizon} steps of the horizon.")
        return "\n".join([*lines, *(f"Doubt: {doubt}." for doubt in self.doubts)])


def find_doubts(targets: Sequence[str], one: OneStep, many: MultiStep) -> tuple[Doubt, ...]:
    """Reasons not to plan with a model."""
    model, linear = one.model.standardised, one.linear.standardised
    error, mean_error = float(many.error[-1]), float(many.mean_error[-1])
    coverage, lost = float(many.coverage_90.mean()), float(many.non_finite[-1])
    shares, least = zip(targets, one.coverage_90.tolist(), strict=True), LEAST_COVERAGE
    found = {
        Doubt("log_likelihood", model, linear): not model >= linear - LINEAR_SLACK * len(targets),
        **{Doubt("coverage", share, least, name): share < least for name, share in shares},
        Doubt("cost_error", error, mean_error, "", many.horizon): error > MEAN_SLACK * mean_error,
        Doubt("cost_coverage", coverage, least): coverage < least,
        Doubt("non_finite", lost, 0.0, "", many.horizon): lost > 0.0,
    }
    return tuple(doubt for doubt, holds in found.items() if holds)


def warn_about(doubts: Sequence[Doubt]) -> None:
    """Issue a ``PlanningWarning`` that lists the doubts, if any."""
    if doubts:
        lines = ["the model is not good enough to plan with:", *map(str, doubts)]
        warnings.warn("\n  ".join(lines), PlanningWarning, stacklevel=2)


def _align(rows: Sequence[tuple[str, ...]]) -> list[str]:
    width = max(len(label) for label, *_ in rows)
    return [f"  {label:<{width}}" + "".join(f"{c:>12}" for c in cells) for label, *cells in rows]


def assess(
    model: DynamicsModel,
    held_out: Log,
    horizon: int,
    *,
    windows: int = PASSAGES,
    random_state: int = 0,
) -> Quality:
    """Evaluate a model on a held-out log: one step ahead, and by roll-outs of ``horizon`` steps (at
    most the length of the longest episode) from at most ``windows`` windows."""
    rng = np.random.default_rng(random_state)
    passages, costs = choose_passages(model, held_out, horizon, windows, rng)
    one = score_one_step(model, held_out, rng)
    draw_key, noise_key = jax.random.split(jax.random.key(random_state))
    draws = model.posterior.sample(draw_key, WEIGHT_DRAWS)
    samples = replay_costs(model, NOISE_DRAWS, noise_key, draws, passages).reshape(-1, *costs.shape)
    many = compare(samples, costs, model.cost_mean, model.cost_scale)
    rows = (len(one) + 1 - model.embedding.history for one in held_out.episodes)
    separate = sum(max(count, 0) // costs.shape[1] for count in rows)
    many = replace(many, separate=min(separate, len(costs)))
    targets = model.embedding.target_names
    return Quality(targets, horizon, one, many, find_doubts(targets, one, many))


def score_one_step(model: DynamicsModel, held_out: Log, rng: np.random.Generator) -> OneStep:
    """Score a model on held-out rows, next to a linear regression fitted to the training log."""
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
    scores = Scores(own, own + shift), Scores(linear - shift, linear)
    return OneStep(len(rows), *scores, *np.transpose(shares))


def compare(
    samples: Float[np.ndarray, "K B T"],
    costs: Float[np.ndarray, "B T"],
    cost_mean: float,
    cost_scale: float,
) -> MultiStep:
    lost = np.logical_or.accumulate(~np.isfinite(samples), axis=2)
    bias, error, mean_error, coverage = series = np.full((4, costs.shape[1]), np.nan)
    for step in range(costs.shape[1]):
        fine = ~lost[:, :, step].any(axis=0)
        if fine.any():
            found, true = samples[:, fine, step], costs[fine, step]
            mean, constant = found.mean(axis=0), np.full_like(true, cost_mean)
            errors = np.mean(mean - true), metrics.rmse(true, mean), metrics.rmse(true, constant)
            series[:3, step] = np.divide(errors, cost_scale)
            coverage[step] = metrics.coverage(metrics.pit(found, true), LEVELS[1:])[0]
    gone, whole = lost.mean(axis=(0, 1)), ~lost.any(axis=(0, 2))
    apart = (samples[:, whole].mean(axis=0) - costs[whole]).mean(axis=1) / cost_scale
    spread = float(apart.std()) if whole.any() else np.nan
    seen = bias, error, mean_error, coverage, gone, spread
    return MultiStep(len(costs), cost_scale, *seen, float(costs.mean()))
