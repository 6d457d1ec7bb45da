"""Accuracy and speed of the entropy estimators on problems with known truth.

Two parts: the entropy of samples from known distributions (bias, spread and time), and the split
itself, on a linear-Gaussian model ``y = w x + z + ε`` with uncertain weight w. Its epistemic
entropy is ``½ log(1 + ratio)``, with the ratio of the variances of w x and of the noise.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import gamma, norm

from paper.markdown import markdown, metrics
from paper.records import Context, Record, standard_error
from paper.sample_entropy import SURPRISALS
from twofold.inference.meanfield import MeanFieldPosterior
from twofold.model.spec import BNNLV
from twofold.uncertainty import ESTIMATORS, decompose_rows, entropies, from_samples
from twofold.uncertainty.entropies import Entropies, PointEstimator
from twofold.uncertainty.predictive import components, nest
from twofold.uncertainty.sample_entropy import nearest_neighbour

RATIOS = np.array([0.0, 0.01, 0.1, 1.0, 10.0])
DRAWS = 500
SEEDS = [0, 1, 2, 3, 4]
REPEATS = 20
TIMED_POINTS, TIMED_CALLS = 8, 5
SIZES = (500, 10_000)
SEPARATION, SKEW = 4.0, 2.0
COVARIANCE = np.array([[1.0, 0.8], [0.8, 1.0]])
FROM_SAMPLES: dict[str, Callable] = SURPRISALS | {
    "nearest_neighbour_k3": partial(nearest_neighbour, k=3)
}
SPLITS: dict[str, PointEstimator] = ESTIMATORS | {
    name: from_samples(surprisals) for name, surprisals in SURPRISALS.items()
}


def gaussian_samples(rng: np.random.Generator, num: int) -> np.ndarray:
    """Standard normal."""
    return rng.normal(size=(num, 1))


def two_mode_samples(rng: np.random.Generator, num: int) -> np.ndarray:
    """Two standard normal modes, SEPARATION to either side of 0."""
    return rng.normal(size=(num, 1)) + SEPARATION * rng.choice([-1.0, 1.0], size=(num, 1))


def skewed_samples(rng: np.random.Generator, num: int) -> np.ndarray:
    """Gamma distributed."""
    return rng.gamma(SKEW, size=(num, 1))


def plane_samples(rng: np.random.Generator, num: int) -> np.ndarray:
    """Correlated normal in two dimensions."""
    return rng.multivariate_normal(np.zeros(2), COVARIANCE, size=num)


def two_mode_entropy() -> float:
    """Entropy of the two-mode distribution, by the trapezoidal rule."""
    y = np.linspace(-20.0, 20.0, 20_001)
    density = 0.5 * (norm.pdf(y, -SEPARATION) + norm.pdf(y, SEPARATION))
    return float(-np.trapezoid(density * np.log(density), y))


TARGETS: dict[str, tuple[Callable[[np.random.Generator, int], np.ndarray], float]] = {
    "gaussian": (gaussian_samples, float(norm.entropy())),
    "two_modes": (two_mode_samples, two_mode_entropy()),
    "skewed": (skewed_samples, float(gamma.entropy(SKEW))),
    "gaussian_2d": (
        plane_samples,
        float(np.log(2 * np.pi * np.e) + 0.5 * np.log(np.linalg.det(COVARIANCE))),
    ),
}


def compare_estimators(context: Context) -> Record:
    """Run all measurements."""
    seeds, draws = (SEEDS[:2], 40) if context.smoke else (SEEDS, DRAWS)
    sizes, repeats = ((100,), 2) if context.smoke else (SIZES, REPEATS)
    settings = {"draws": draws, "repeats": repeats, "ratios": RATIOS.tolist()}
    record = Record("entropy_estimators", settings, seeds)
    for target in TARGETS:
        for size in sizes:
            measure_target(target, size, repeats, record)
    measure_split(draws, seeds, record)
    measure_time(draws, record)
    return record


def measure_target(target: str, size: int, repeats: int, record: Record) -> None:
    """Bias, spread over repetitions and milliseconds of each estimator on one target."""
    draw, truth = TARGETS[target]
    samples = [draw(np.random.default_rng(seed), size) for seed in range(repeats)]
    for name, surprisals in FROM_SAMPLES.items():
        function = jax.jit(lambda s, f=surprisals: jnp.mean(f(s)))
        arrays = [jnp.asarray(s, jnp.float32) for s in samples]
        function(arrays[0]).block_until_ready()
        started = time.perf_counter()
        errors = np.array([float(function(array)) for array in arrays]) - truth
        seconds = (time.perf_counter() - started) / repeats
        place = f"{target}/{size}/{name}"
        record.add(f"{place}/bias", errors.mean())
        record.add(f"{place}/bias/se", standard_error(errors))
        record.add(f"{place}/spread", errors.std(ddof=1))
        record.add(f"{place}/milliseconds", 1e3 * seconds)


def linear_gaussian(uncertain_bias: bool = False) -> tuple[BNNLV, MeanFieldPosterior]:
    """``y = w x + z + b + ε`` with unit variance of w, and of b if it is uncertain too.

    z and ε have variance ½ each, so the ratio at x is ``x²``, or ``x² + 1``.
    """
    model = BNNLV(1, 1, (), 1, 1.0, 1.0)
    half = np.sqrt(0.5)
    mean, variance = np.array([0.0, half, 0.0]), np.array([1.0, 0.0, float(uncertain_bias)])
    return model, MeanFieldPosterior(
        jnp.asarray(mean, jnp.float32),
        jnp.asarray(variance, jnp.float32),
        jnp.full(1, np.log(0.5), jnp.float32),
    )


def measure_split(draws: int, seeds: list[int], record: Record) -> None:
    """The largest error of the epistemic entropy at any ratio and seed, for each estimator."""
    model, posterior = linear_gaussian()
    for name, estimator in {"default": "auto", **SPLITS}.items():
        errors = split_errors(model, posterior, RATIOS, estimator, draws, seeds)
        place = f"linear_gaussian/{name}"
        record.add(f"{place}/max_abs_error", np.abs(errors).max())
        for ratio, bias in zip(RATIOS, errors.mean(axis=0), strict=True):
            record.add(f"{place}/bias_at_ratio_{ratio:g}", bias)
    model, posterior = linear_gaussian(uncertain_bias=True)
    errors = split_errors(model, posterior, RATIOS[RATIOS > 1.0], "auto", draws, seeds, shift=1.0)
    record.add("linear_gaussian_two_weights/default/max_abs_error", np.abs(errors).max())


def split_errors(
    model: BNNLV,
    posterior: MeanFieldPosterior,
    ratios: np.ndarray,
    estimator: str | PointEstimator,
    draws: int,
    seeds: list[int],
    shift: float = 0.0,
) -> np.ndarray:
    """Errors of the epistemic entropy ``[seeds, ratios]``; the ratio at x is ``x² + shift``."""
    x = np.sqrt(ratios - shift)[:, None]
    estimates = [
        decompose_rows(
            jax.random.key(seed), model, posterior, x,
            estimator=estimator, weights=draws, latents=draws,
        ).epistemic[:, 0]
        for seed in seeds
    ]  # fmt: skip
    return np.array(estimates) - 0.5 * np.log1p(ratios)


def measure_time(draws: int, record: Record) -> None:
    """Milliseconds per point of each estimator alone, given the ``draws × draws`` centres."""
    model, posterior = linear_gaussian()
    key = jax.random.key(0)
    nested = nest(key, model, posterior, draws, draws)
    x = jnp.linspace(0.0, 3.0, TIMED_POINTS, dtype=jnp.float32)[:, None]
    centres = jnp.moveaxis(components(model, nested, x).mean, -1, 0)
    times = {}
    for name, estimator in SPLITS.items():
        times[name] = 1e3 * seconds_a_point(estimator, key, centres, nested.log_noise)
        record.add(f"milliseconds_per_point/{name}", times[name])
    for size in entropies.SIZES:
        on_grid = partial(_on_grid, size)
        spent = 1e3 * seconds_a_point(on_grid, key, centres, nested.log_noise)
        record.add(f"milliseconds_per_point/quadrature/grid_{size}", spent)
    ratio = times["nearest_neighbour"] / times["quadrature"]
    record.add("time_ratio/nearest_neighbour_over_default", ratio)


def _on_grid(size: int, key: jax.Array, centres: jax.Array, log_noise: jax.Array) -> Entropies:
    """Quadrature on a grid of a given size, regardless of the noise."""
    return entropies.entropies_on(size, centres[..., 0], log_noise[..., 0])


def seconds_a_point(
    estimator: PointEstimator, key: jax.Array, centres: jax.Array, log_noise: jax.Array
) -> float:
    """Median time of several calls without compilation, divided by the number of points."""

    @jax.jit
    def at_all(centres: jax.Array) -> Entropies:
        return jax.lax.map(lambda one: estimator(key, one, log_noise), centres)

    jax.block_until_ready(at_all(centres))
    spent = []
    for _ in range(TIMED_CALLS):
        started = time.perf_counter()
        jax.block_until_ready(at_all(centres))
        spent.append(time.perf_counter() - started)
    return float(np.median(spent)) / len(centres)


def tabulate_targets(results: Path) -> str:
    """Bias ± spread of each estimator on samples of known entropy, and its time."""
    values = metrics("entropy_estimators", results)
    targets = ("gaussian", "two_modes", "skewed", "gaussian_2d")
    names = ("nearest_neighbour", "nearest_neighbour_k3", "adaptive", "kernel_density", "histogram")
    rows = []
    for name in names:
        for size in (500, 10_000):
            places = [f"{target}/{size}/{name}" for target in targets]
            cells = [f"{values[f'{p}/bias']:+.3f} ± {values[f'{p}/spread']:.3f}" for p in places]
            times = (values[f"{place}/milliseconds"] for place in (places[0], places[-1]))
            rows.append([f"`{name}`", f"{size:,}", *cells, *(f"{time:.1f}" for time in times)])
    headings = ["estimator", "samples", "Gaussian", "two modes", "skewed", "2-D Gaussian"]
    return markdown([*headings, "ms, 1-D", "ms, 2-D"], rows)


def tabulate_linear_gaussian(results: Path) -> str:
    """Error of the epistemic entropy of a linear-Gaussian model, for each estimator."""
    values = metrics("entropy_estimators", results)
    ratios = ("0", "0.01", "0.1", "1", "10")
    names = (
        "quadrature",
        "mixture",
        "nearest_neighbour",
        "adaptive",
        "kernel_density",
        "histogram",
    )
    rows = [
        [
            f"`{name}`",
            *(f"{values[f'linear_gaussian/{name}/bias_at_ratio_{r}']:+.4f}" for r in ratios),
            f"{values[f'linear_gaussian/{name}/max_abs_error']:.4f}",
            f"{values[f'milliseconds_per_point/{name}']:.0f}",
        ]
        for name in names
    ]
    headings = ["estimator", *(f"ratio {r}" for r in ratios)]
    return markdown([*headings, "largest error", "ms per point"], rows)
