"""Folds scored as by hand, and finished ones not fitted again."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold

from twofold import BNNLVRegressor
from twofold.estimators.cross_validation import cross_validate

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def model():
    options = {"inference_options": {"members": 2}, "n_latent_draws": 10}
    return BNNLVRegressor((3,), epochs=2, random_state=0, verbose=False, **options)


@pytest.fixture
def data(rng):
    x = rng.normal(size=(23, 2))
    return x, x[:, 0] + 0.1 * rng.normal(size=23)


@pytest.fixture
def fits(monkeypatch):
    """Counts the fits."""
    count, fit = [], BNNLVRegressor.fit
    monkeypatch.setattr(
        BNNLVRegressor, "fit", lambda self, X, y: count.append(len(X)) or fit(self, X, y)
    )
    return count


def test_scores_are_those_of_a_loop(model, data):
    x, y = data
    splitter = KFold(3, shuffle=True, random_state=1)
    found = cross_validate(model, x, y, splitter)
    for fold, (train, test) in enumerate(splitter.split(x)):
        own = clone(model).fit(x[train], y[train])
        error = np.sqrt(np.mean((own.predict(x[test]) - y[test]) ** 2))
        assert found.rmse[fold] == pytest.approx(error, rel=1e-12)
        score = own.log_likelihood(x[test], y[test]).mean()
        assert found.log_likelihood[fold] == pytest.approx(score, rel=1e-12)
    assert not hasattr(model, "posterior_")


def test_finished_folds_are_not_fitted_again(model, data, fits, tmp_path):
    first = cross_validate(model, *data, 2, folder=tmp_path)
    again = cross_validate(model, *data, 2, folder=tmp_path)
    np.testing.assert_array_equal(first, again)
    assert fits == [11, 12]
    cross_validate(clone(model).set_params(verbose="auto"), *data, 2, folder=tmp_path)
    assert len(fits) == 2
    cross_validate(clone(model).set_params(epochs=3), *data, 2, folder=tmp_path)
    cross_validate(model, data[0], data[1] + 1.0, 2, folder=tmp_path)
    assert len(fits) == 6


def test_folds_have_checkpoints_of_their_own(model, data, tmp_path):
    path = tmp_path / "fit.checkpoint"
    cross_validate(model.set_params(checkpoint=path), *data, 2)
    assert {one.name for one in tmp_path.iterdir()} == {f"fit.checkpoint.{n}" for n in range(2)}
