"""Whether a model is good enough to plan with: one step ahead, and along logged actions.

Everything is measured on episodes that the model has not seen. One step ahead its log-likelihood
stands beside that of a linear regression with Gaussian residuals. Further ahead the model is rolled
out from logged states under the *logged* actions, and the costs that it predicts are compared with
those that came.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import multivariate_normal
from sklearn.linear_model import LinearRegression

from twofold.control.rollout import Noise, Scales, Task, draw_noise, particles, rollout
from twofold.inference.base import Draws
from twofold.logs import Log
from twofold.logs.windows import Window, steps
from twofold.model import network
from twofold.policies.dynamics import DTYPE, DynamicsModel
from twofold.typing import Array, Float, Key
from twofold.uncertainty import metrics

LEVELS = np.array([0.5, 0.9])
# Shares of so many rows are known to a percent, and their likelihoods take seconds.
MOST_ROWS = 4_000
# They leave 200 places for a measurement, of which both intervals hold a whole number.
DRAWS = 199
# The least variance of a residual, of its output's: who plans needs nothing finer than a thousandth
# of a deviation, and of an output without noise no model but the linear one would be sure enough.
LEAST_VARIANCE = 1e-6
# A linear plant is predicted no better than by a linear model. In nats for each output, this is
# what a mean that is off by a fifth of the noise costs.
LINEAR_SLACK = 0.02
# At a horizon where nothing of the start is left, a perfect model errs as much as the mean does,
# give or take chance.
MEAN_SLACK = 1.1
# The coverage of a nominal 90 % if deviations are taken for a third less than they are: risks that
# are that wrong are not worth weighing.
LEAST_COVERAGE = 0.7


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


class MultiStep(NamedTuple):
    """Costs at each of T steps along logged actions, in units of the ``deviation`` of the costs.

    ``bias`` is the mean of predicted minus logged costs, ``error`` the root of their mean square,
    ``mean_error`` that of always predicting the mean cost of the model's log. These and the
    coverage are those of windows whose roll-outs are all finite, and NaN where there is none;
    ``non_finite`` is the share of roll-outs that have left the finite numbers.
    """

    windows: int
    deviation: float
    bias: np.ndarray
    error: np.ndarray
    mean_error: np.ndarray
    coverage_90: np.ndarray
    non_finite: np.ndarray

    @property
    def horizon(self) -> int:
        """T."""
        return len(self.bias)

    @property
    def drift(self) -> dict[str, float]:
        """What is added to each of them between the first step and the last."""
        series = self._asdict().items()
        return {name: float(v[-1] - v[0]) for name, v in series if isinstance(v, np.ndarray)}


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

    def warn_of_doubts(self) -> None:
        """A ``PlanningWarning`` that lists the doubts, if there are any."""
        if self.doubts:
            warnings.warn(
                "\n  ".join(["this model is not good enough to plan with:", *self.doubts]),
                PlanningWarning,
                stacklevel=2,
            )

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
        return "\n".join([*lines, *(f"Doubt: {doubt}." for doubt in self.doubts)])

    def __str__(self) -> str:
        return self.text()


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    width = max(len(label) for label, *_ in rows)
    return [f"  {label:<{width}}" + "".join(f"{c:>12}" for c in cells) for label, *cells in rows]


def assess(
    model: DynamicsModel,
    held_out: Log,
    horizon: int,
    *,
    training: Log,
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
    training : Log
        What the model was fitted to; the linear regression is as well.
    windows, weight_draws, noise_draws : int
        Where roll-outs start, M and N; memory and time grow with their product.
    """
    if horizon < 1:
        raise ValueError(f"horizon must be at least 1, got {horizon}")
    rng = np.random.default_rng(random_state)
    one = one_step(model, training, held_out, rng)
    chosen = passages(model, held_out, horizon, windows, rng)
    draw_key, noise_key = jax.random.split(jax.random.key(random_state))
    predicted = _costs(
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


def one_step(
    model: DynamicsModel, training: Log, held_out: Log, rng: np.random.Generator
) -> OneStep:
    """Log-likelihoods and coverage at some of the held-out rows."""
    regressor, scale = model.regressor, model.regressor.y_standardizer_.scale
    x, y = model.embedding.design(held_out)
    rows = rng.permutation(len(x))[:MOST_ROWS]
    x, y = x[rows], y[rows]
    seen = [
        (regressor.x_standardizer_.transform(a), regressor.y_standardizer_.transform(b))
        for a, b in (model.embedding.design(training), (x, y))
    ]
    own = float(regressor.log_likelihood(x, y).mean())
    linear = float(linear_log_likelihood(*seen[0], *seen[1]).mean())
    shift = float(np.log(scale).sum())
    places = metrics.pit(regressor.sample(x, DRAWS).reshape(DRAWS, *y.shape), y)
    shares = [metrics.coverage(column, LEVELS) for column in places.T]
    return OneStep(
        len(rows), Scores(own, own + shift), Scores(linear - shift, linear), *np.transpose(shares)
    )


def linear_log_likelihood(
    x: np.ndarray, y: np.ndarray, new_x: np.ndarray, new_y: np.ndarray
) -> np.ndarray:
    """``log N(y; B x + b, R)`` of new rows, with R the covariance of the residuals."""
    fit = LinearRegression().fit(x, y)
    residuals = y - fit.predict(x)
    freedom = max(len(x) - fit.rank_ - 1, 1)
    covariance = residuals.T @ residuals / freedom + LEAST_VARIANCE * np.eye(y.shape[1])
    normal = multivariate_normal(cov=covariance)
    return np.atleast_1d(normal.logpdf(new_y - fit.predict(new_x)))


class Passages(NamedTuple):
    """Pieces of a log: windows ``[B, …]``, and the actions and costs of the T steps after them."""

    windows: Window
    actions: Float[np.ndarray, "B T A"]
    costs: Float[np.ndarray, "B T"]


def passages(
    model: DynamicsModel, log: Log, horizon: int, num: int, rng: np.random.Generator
) -> Passages:
    """At most ``num`` passages of T steps, or of as many as the longest episode has."""
    history = model.embedding.history
    length = min(horizon, max(map(len, log.episodes)) - history + 1)
    found = steps(log, history + length - 1)
    rows = rng.permutation(len(found.actions))[:num]
    (seen, past), last, final = jax.tree.map(lambda leaf: leaf[rows], found)
    seen = np.concatenate([seen, final[:, None]], axis=1)
    done = np.concatenate([past, last[:, None]], axis=1)
    actions = done[:, history - 1 :]
    costs = jax.vmap(jax.vmap(model.cost))(jnp.asarray(seen[:, history:]), jnp.asarray(actions))
    start = Window(seen[:, :history], done[:, : history - 1])
    return Passages(start, actions, np.asarray(costs, np.float64))


def replay(
    task: Task,
    scales: Scales,
    draws: Draws,
    noise: Noise,
    windows: Window,
    actions: Float[Array, "B T A"],
) -> Float[Array, "T M B"]:
    """Costs along given actions: a policy without weights acts in the middle of its bounds, and
    offsets lead from there."""
    shape, count = task.shape, draws.weights.shape[0]
    idle = jnp.zeros((1, network.num_weights(shape.sizes)))
    middle = 0.5 * (jnp.asarray(shape.low) + jnp.asarray(shape.high))
    offsets = jnp.swapaxes(actions - middle, 0, 1)[:, None, None]
    offsets = jnp.broadcast_to(offsets, (offsets.shape[0], count, *offsets.shape[2:]))
    return rollout(task, scales, idle, draws, noise, windows, offsets).costs[:, :, 0]


@partial(jax.jit, static_argnums=(0, 1))
def _costs(
    task: Task,
    noise_draws: int,
    key: Key,
    scales: Scales,
    draws: Draws,
    windows: Window,
    actions: Float[Array, "B T A"],
) -> Float[Array, "K B T"]:
    """Predicted costs of each passage, by all draws of weights and noise."""
    num, horizon, _ = actions.shape
    count = draws.weights.shape[0]
    noise = draw_noise(key, task.model, horizon, count, num * noise_draws)
    repeated = jnp.repeat(actions, noise_draws, axis=0)
    found = replay(task, scales, draws, noise, particles(windows, noise_draws), repeated)
    apart = found.reshape(horizon, count, num, noise_draws)
    return jnp.transpose(apart, (1, 3, 2, 0)).reshape(-1, num, horizon)


def compare(
    samples: Float[np.ndarray, "K B T"],
    costs: Float[np.ndarray, "B T"],
    cost_mean: float,
    cost_scale: float,
) -> MultiStep:
    """Predicted costs beside those that came."""
    lost = np.logical_or.accumulate(~np.isfinite(samples), axis=2)
    series = np.full((4, costs.shape[1]), np.nan)
    for step in range(costs.shape[1]):
        fine = ~lost[:, :, step].any(axis=0)
        if fine.any():
            found, true = samples[:, fine, step], costs[fine, step]
            mean = found.mean(axis=0)
            series[0, step] = np.mean(mean - true) / cost_scale
            series[1, step] = metrics.rmse(true, mean) / cost_scale
            series[2, step] = metrics.rmse(true, np.full_like(true, cost_mean)) / cost_scale
            series[3, step] = metrics.coverage(metrics.pit(found, true), LEVELS[1:])[0]
    bias, error, mean_error, coverage = series
    gone = lost.mean(axis=(0, 1))
    return MultiStep(len(costs), cost_scale, bias, error, mean_error, coverage, gone)
