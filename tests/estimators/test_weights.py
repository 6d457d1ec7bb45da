"""``sample_weight``: what a row counts, from the estimator's side."""

import numpy as np
import pytest
from sklearn.base import clone

from twofold import Alpha, BNNLVRegressor, Ensemble, fit_many
from twofold.core.persistence import OtherRunError
from twofold.inference.hmc import NUTS
from twofold.inference.langevin import Langevin

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SETTINGS = {"random_state": 0, "n_weight_draws": 20, "n_latent_draws": 10, "latent_dim": 0}
METHODS = {
    "ensemble": Ensemble(members=4, updates=400),
    "langevin": Langevin(chains=4, updates=400, steps=500, samples=4),
    "alpha": Alpha(alpha=1e-6, epochs=600, draws=8),
    "nuts": NUTS(chains=2, warmup=150, samples=100),
}


def make_model(name, **changes):
    return BNNLVRegressor((), **{**SETTINGS, "inference": METHODS[name]} | changes)


def make_data(rows=120):
    """Outputs that do not depend on x, and weights that prefer the positive ones."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(rows, 1)), rng.normal(size=rows)
    return X, y, np.where(y > 0.0, 9.0, 1.0)


@pytest.mark.parametrize("name", METHODS)
def test_a_heavy_row_pulls_as_its_weight_says(name):
    X, y, weights = make_data()
    means = np.average(y, weights=weights), y.mean()
    # A mean of the 96 rows of a member has a standard error of 0.1, these lie 0.6 apart.
    for own, mean in zip((weights, None), means, strict=True):
        found = make_model(name).fit(X, y, sample_weight=own).predict(np.zeros((1, 1)))[0]
        assert abs(found - mean) < 0.5 * (means[0] - means[1])


@pytest.mark.parametrize("name", ["ensemble", "alpha"])
def test_rows_of_weight_zero_are_as_if_absent_and_of_weight_one_as_if_plain(name):
    X, y, _ = make_data()
    kept = np.arange(len(X)) % 3 > 0
    far = np.where(kept[:, None], X, 1e6)
    found = make_model(name).fit(far, y, sample_weight=kept.astype(float))
    expected = make_model(name).fit(X[kept], y[kept])
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


def test_a_table_fitted_together_may_have_weights_or_not():
    X, y, weights = make_data()
    members = [make_model("alpha"), make_model("alpha", random_state=1)]
    fit_many(members, [X, X], [y, y], sample_weight=[weights, None])
    for member, own in zip(members, (weights, None), strict=True):
        alone = clone(member).fit(X, y, sample_weight=own)
        np.testing.assert_allclose(member.predict(X), alone.predict(X), rtol=1e-3, atol=1e-3)
    with pytest.raises(ValueError, match="each of 2 estimators, got 1"):
        fit_many(members, [X, X], [y, y], sample_weight=[weights])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(59), r"must have shape \(60,\), got \(59,\)"),
        (np.ones((60, 1)), r"must have shape \(60,\), got \(60, 1\)"),
        (np.full(60, np.nan), "sample_weight contains NaN"),
        (np.full(60, np.inf), "sample_weight contains infinity"),
        (np.full(60, -1.0), "must not be negative, got -1.0"),
        (np.eye(60)[0], "at least two rows need a sample_weight above zero, got 1"),
        (np.full(60, 1e38), "too large for dtype='float32'"),
    ],
)
def test_impossible_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        make_model("alpha").fit(*make_data(60)[:2], sample_weight=weights)


def test_a_checkpoint_belongs_to_its_weights(tmp_path):
    X, y, _ = make_data()
    model = make_model("alpha", checkpoint=tmp_path / "run").set_params(inference__epochs=5)
    model.fit(X, y, sample_weight=np.full(120, 2.0))
    with pytest.raises(OtherRunError, match="data was"):
        clone(model).fit(X, y, sample_weight=np.full(120, 3.0))
