"""The self-test of ``twofold doctor``: a few seconds of real work, each with a known answer."""

import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from twofold.estimators.regressor import BNNLVRegressor, load
from twofold.inference.ensemble import Ensemble
from twofold.plant.cost import criterion

ROWS = 120


@cache
def small_model() -> tuple[BNNLVRegressor, np.ndarray]:
    """A model of a line with noise that grows."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (ROWS, 1))
    y = 2.0 * x[:, 0] + (0.2 + 0.2 * x[:, 0]) * rng.normal(size=ROWS)
    model = BNNLVRegressor(
        (10,), inference=Ensemble(members=8, epochs=200), random_state=0, verbose=False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(x, y), x


def fit_and_predict() -> None:
    """a model is fitted and predicts"""
    model, _ = small_model()
    found = model.predict(np.array([[-0.5], [0.5]]))
    _expect(np.abs(found - [-1.0, 1.0]).max() < 0.3, f"predicted {found} instead of about ±1")


def parts_add_up() -> None:
    """total = epistemic + aleatoric, by variance and by entropy"""
    model, x = small_model()
    for by in ("variance", "entropy"):
        split = model.decompose(x[:20], by=by)
        apart = np.abs(split.total - split.epistemic - split.aleatoric).max()
        _expect(apart < 1e-4 * max(1.0, np.abs(split.total).max()), f"{by}: apart by {apart:g}")


def models_come_back() -> None:
    """a model that is written and read predicts the same"""
    model, x = small_model()
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.twofold")
        same = load(Path(folder) / "model.twofold").predict(x) == model.predict(x)
    _expect(bool(same.all()), "the predictions differ")


def gradients_are_right() -> None:
    """gradients of the risk-sensitive cost agree with differences"""
    costs = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4, 5)), jnp.float32)

    def cost(factor: jax.Array) -> jax.Array:
        return criterion(factor * costs, jnp.float32(2.0), jnp.float32(0.5))

    step = 1e-2
    slope = (cost(jnp.float32(1 + step)) - cost(jnp.float32(1 - step))) / (2 * step)
    apart = abs(float(jax.grad(cost)(jnp.float32(1.0)) - slope))
    _expect(apart < 1e-2 * max(1.0, abs(float(slope))), f"apart by {apart:g}")


def double_precision() -> None:
    """float64 is at hand"""
    with jax.enable_x64(True):
        _expect(float(jnp.float64(1.0) + 1e-12) > 1.0, "1 + 1e-12 is 1")


def _expect(fine: bool, otherwise: str) -> None:
    if not fine:
        raise AssertionError(otherwise)


CHECKS: tuple[Callable[[], None], ...] = (
    fit_and_predict,
    parts_add_up,
    models_come_back,
    gradients_are_right,
    double_precision,
)
