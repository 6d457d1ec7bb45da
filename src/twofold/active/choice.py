"""Where to measure next, and when to stop: scores of candidates, the choice of one or several, and
the uncertainty that is left to remove (paper, §4).

Two near-copies of a point are hardly more informative than one of them. For a Gaussian model, the
information gain of a measurement at x, given those at the points S, is

    g(x | S) = ½ log(1 + C(x, x | S) / σ²(x)),

with C the covariance over weights of ``E[y|x,W]`` after S has been measured, and σ² the aleatoric
variance. A batch is chosen greedily: each next point maximises ``I(x) g(x | S) / g(x | ∅)``, its
own estimated information times the fraction that remains after S. For a linear-Gaussian model with
one output this is exact, and a greedy batch has at least 1 − 1/e of the optimal information
(Nemhauser et al. 1978). Several outputs are treated as independent.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from twofold.uncertainty.decomposition import Decomposition

Regressor = Any  # a BNNLVRegressor, whose module would load JAX
# Share of the predictive variance below which more measurements are hardly worthwhile.
SMALL_SHARE = 0.05


def epistemic_score(decomposition: "Decomposition") -> np.ndarray:
    """Expected information gain: ``I(W; y)`` of a split by entropy (the paper's score), summed over
    outputs, or the epistemic variance of a split by variance, for one output."""
    return _sum_outputs(decomposition, decomposition.epistemic)


def total_score(decomposition: "Decomposition") -> np.ndarray:
    """``H(y | x)`` or the total variance, which include noise."""
    return _sum_outputs(decomposition, decomposition.total)


def random_score(seed: int, num: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(size=num)


def choose_best(scores: np.ndarray, num: int) -> np.ndarray:
    """Indices of the ``num`` largest scores, best first."""
    _check_num(num, len(scores))
    return np.argsort(-scores, kind="stable")[:num]


class Assessment(NamedTuple):
    """A model's uncertainty at N points: the ``split`` by entropy of each output, ``[N, O]``, and
    ``E[y|x,W]`` and ``Var[y|x,W]`` of M weight draws, ``[M, O, N]``."""

    split: "Decomposition"
    means: np.ndarray
    variances: np.ndarray

    @property
    def information(self) -> np.ndarray:
        """Expected information gain of a measurement (nats, ``[N]``)."""
        return np.maximum(self.split.epistemic, 0.0).sum(axis=1)

    @property
    def epistemic(self) -> np.ndarray:
        """The epistemic part of the predictive variance, ``[O, N]``."""
        return self.means.var(axis=0)

    @property
    def aleatoric(self) -> np.ndarray:
        """The aleatoric part of the predictive variance, ``[O, N]``."""
        return self.variances.mean(axis=0)

    @property
    def deviations(self) -> dict[str, np.ndarray]:
        """Standard deviations ``[N, O]`` of Gaussians with the same entropies, in total and of each
        part; unlike variances, they are not dominated by rare extreme weight draws."""
        return self.split.equivalent_deviations().parts._asdict()

    def select(self, outputs: Sequence[int]) -> "Assessment":
        """Restrict to some outputs, by position."""
        of = list(outputs)
        split = self.split.take((slice(None), of))
        return Assessment(split, self.means[:, of], self.variances[:, of])


def assess(model: Regressor, x: np.ndarray) -> Assessment:
    """Both splits of the uncertainty at the rows of ``x``."""
    return Assessment(split_by_entropy(model, x), *model.conditional_moments(x))


def expected_information(model: Regressor, x: np.ndarray) -> np.ndarray:
    """``I(W; y)`` at each row, the expected information gain, summed over outputs."""
    return np.maximum(split_by_entropy(model, x).epistemic, 0.0).sum(axis=1)


def split_by_entropy(model: Regressor, x: np.ndarray) -> "Decomposition":
    """The split of each output at each row, ``[N, O]``. Where noise is too narrow to estimate
    entropies, they are those of Gaussians of that variance."""
    from twofold.uncertainty.decomposition import Decomposition, Parts

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the entropies of", RuntimeWarning)
        split = model.decompose(x)
    parts, errors = (
        Parts(*(np.array(part, float).reshape(len(x), -1) for part in group))
        for group in (split.parts, split.standard_errors)
    )
    unknown = ~np.isfinite(parts.epistemic)
    rows = unknown.any(axis=1)
    if rows.any():
        variances = model.decompose(x[rows], by="variance")
        total, aleatoric = (
            0.5 * np.log(2.0 * np.pi * np.e * variance).reshape(rows.sum(), -1)
            for variance in (variances.total, variances.aleatoric)
        )
        gaussian = Parts(total, total - aleatoric, aleatoric)
        for part, other in zip(parts, gaussian, strict=True):
            part[rows] = np.where(unknown[rows], other, part[rows])
    return Decomposition("entropy", *parts, errors)


def epistemic_share(nats: np.ndarray) -> np.ndarray:
    """``1 − exp(−2 I)``: the epistemic share of the variance of a Gaussian with this ``I(W; y)``.
    Unlike the ratio of the variances themselves, it hardly depends on a few extreme draws of W."""
    return -np.expm1(-2.0 * nats)


def choose_batch(
    scores: np.ndarray, means: np.ndarray, noise: np.ndarray, num: int,
    underway: Sequence[int] = (), positions: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """Indices of the most informative batch of ``num`` points, given those already ``underway``.

    ``scores [N]`` are the individual information gains (negative estimates count as 0), ``means``
    ``[M, O, N]`` the ``E[y|x,W]`` of M weight draws, ``noise [O, N]`` the aleatoric variances. With
    ``positions [N, D]``, in units of the candidates' ranges, points also keep a minimum distance
    from each other, if possible: with large noise, a misspecified model would otherwise measure the
    same place repeatedly and never detect its error elsewhere.
    """
    if not (np.isfinite(scores).all() and np.isfinite(means).all() and (noise > 0).all()):
        raise ValueError(
            "scores and means must be finite and noise positive; drop the points where they are not"
        )
    if means.shape[0] < 2:
        raise ValueError("means must contain at least 2 weight draws, got 1")
    _check_num(num, len(scores) - len(underway))
    scores = np.maximum(scores, 0.0)
    covariances = [np.atleast_2d(np.cov(means[:, o], rowvar=False)) for o in range(means.shape[1])]
    pairs = list(zip(covariances, noise, strict=True))
    alone = sum(information_left(*pair, np.zeros(0, int)) for pair in pairs)
    measured = list(underway)
    # Half the spacing of that many points spread evenly over the unit cube.
    apart = 0.0 if positions is None else 0.5 * num ** (-1.0 / max(positions.shape[1], 1))
    for _ in range(num):
        left = sum(information_left(*pair, np.array(measured, int)) for pair in pairs)
        worth = scores * left / np.maximum(alone, np.finfo(float).tiny)
        if positions is not None and measured:
            distances = np.linalg.norm(positions[:, None] - positions[measured], axis=2)
            worth[(distances < apart).any(axis=1)] -= np.max(worth) + 1.0
        worth[measured] = -np.inf
        measured.append(int(np.argmax(worth)))
    return np.array(measured[len(underway) :])


def information_left(covariance: np.ndarray, noise: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """``g(x | S)`` of all points, for ``covariance [N, N]``, ``noise [N]`` and the indices S."""
    variance = conditional_variance(covariance, noise, measured)
    return 0.5 * np.log1p(np.maximum(variance, 0.0) / noise)


def conditional_variance(
    covariance: np.ndarray, noise: np.ndarray, measured: np.ndarray
) -> np.ndarray:
    """The variance at all points after noisy measurements at some of them."""
    if not len(measured):
        return np.diag(covariance)
    across = covariance[measured]
    gram = across[:, measured] + np.diag(noise[measured])
    return np.diag(covariance) - np.sum(across * np.linalg.solve(gram, across), axis=0)


def left_to_learn(reference: Assessment) -> dict[str, float]:
    """The uncertainty that more data could still remove, averaged over reference points.

    ``epistemic_nats`` is the mean of ``I(W; y)``, ``epistemic_share`` of the function of that name.
    """
    share = max(0.0, float(epistemic_share(reference.split.epistemic).mean()))
    return {"epistemic_nats": float(reference.information.mean()), "epistemic_share": share}


def is_enough(curve: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the share that more data could remove is small."""
    return bool(curve) and curve[-1]["epistemic_share"] < SMALL_SHARE


def advise(curve: Sequence[Mapping[str, Any]], missing: int, complete: int) -> str:
    """Advice on whether more measurements are worthwhile. ``curve`` holds ``left_to_learn`` and the
    number of ``measurements`` of each model so far; ``missing`` more measurements are needed for a
    first model, ``complete`` ones are available."""
    if not curve:
        are = "s are" if missing > 1 else " is"
        needed = f"{missing} more complete measurement{are} needed"
        return f"no model yet: {needed if missing > 0 else 'ask once to fit the first one'}"
    share, seen = curve[-1]["epistemic_share"], int(curve[-1]["measurements"])
    verdict = "consider stopping" if is_enough(curve) else "more measurements are worthwhile"
    more = f" ({complete - seen} more since then: ask again to include them)"
    later = more if complete > seen else ""
    return (
        f"{verdict}: after {seen} measurements{later}, more of them could remove about {share:.0%} "
        f"of the predictive variance; the other {1 - share:.0%} is noise"
    )


def _sum_outputs(decomposition: "Decomposition", part: np.ndarray) -> np.ndarray:
    if part.ndim == 1:
        return part
    if decomposition.by == "variance" and part.shape[1] > 1:
        what = f"the variances of {part.shape[1]} outputs differ in their units"
        raise ValueError(f"{what} and cannot be added; split by entropy, or score one output")
    return part.sum(axis=1)


def _check_num(num: int, candidates: int) -> None:
    if not 1 <= num <= candidates:
        raise ValueError(f"num must lie between 1 and {candidates} candidates, got {num}")
