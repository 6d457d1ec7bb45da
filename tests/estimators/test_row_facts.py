"""What is known of single rows beside X and y: errors of measurement, and groups."""

import numpy as np
import pytest

from twofold import Alpha, BNNLVRegressor, Ensemble
from twofold.estimators.validation import check_groups
from twofold.inference import ensemble
from twofold.inference.langevin import Langevin

QUICK = {"inference": Ensemble(members=4, updates=400), "latent_dim": 0, "random_state": 0}


def make_data(rows=200):
    """A line with noise of 0.2, half of its rows measured with an error of 3 beside it."""
    rng = np.random.default_rng(0)
    x, error = rng.uniform(-1, 1, (rows, 1)), np.where(np.arange(rows) % 2, 0.0, 3.0)
    return x, 2 * x[:, 0] + rng.normal(size=rows) * np.hypot(0.2, error), error


@pytest.mark.parametrize("inference", [Ensemble(members=4, updates=400), "langevin"])
def test_what_is_known_of_an_error_is_not_taken_for_noise(inference):
    if inference == "langevin":
        inference = Langevin(chains=4, updates=400, steps=300, samples=4)
    x, y, error = make_data()
    grid = np.linspace(-0.8, 0.8, 5)[:, None]
    settings = {**QUICK, "inference": inference}
    known = BNNLVRegressor((), **settings).fit(x, y, y_error=error)
    plain = BNNLVRegressor((), **settings).fit(x, y)
    # Of 100 good rows the noise is known to 7 %; taken for noise, the errors have a deviation of 2.
    for model, low, high in ((known, 0.1, 0.4), (plain, 0.6, 4.0)):
        noise = np.exp(model.decompose(grid).aleatoric - 0.5 * np.log(2 * np.pi * np.e))
        assert low < noise.mean() < high
    # A measurement is as likely as noise and error together make it.
    (one,), noise = known.log_likelihood(grid[:1], known.predict(grid[:1]), np.array([3.0])), 3.0
    assert one == pytest.approx(-np.log(noise) - 0.5 * np.log(2 * np.pi), abs=0.05)
    # The slope follows the good rows: its standard error is 0.03, against 0.3 of all rows.
    np.testing.assert_allclose(known.predict(grid), 2 * grid[:, 0], atol=0.15)


def test_rows_of_a_group_are_held_out_together(monkeypatch):
    seen = []

    def spy(*arguments):
        seen.append(assign_roles(*arguments))
        return seen[-1]

    assign_roles = ensemble.assign_roles
    monkeypatch.setattr(ensemble, "assign_roles", spy)
    groups = np.repeat([f"batch {one}" for one in range(12)], 5)
    x, y, _ = make_data(60)
    settings = {**QUICK, "inference": Ensemble(members=4, updates=20)}
    BNNLVRegressor((), **settings).fit(x, y, groups=groups)
    roles = seen[-1]
    for name in np.unique(groups):
        assert (roles[:, :60][:, groups == name] == roles[:, [np.argmax(groups == name)]]).all()
    assert set(roles[:, :60].ravel()) == {ensemble.TRAIN, ensemble.STOP, ensemble.SCORE}
    assert (roles[:, 60:] == ensemble.PADDING).all()


def test_what_a_method_cannot_use_is_refused():
    x, y, error = make_data(20)
    mean_field = BNNLVRegressor(inference=Alpha(epochs=1))
    for facts, message in (
        ({"y_error": error}, "y_error needs inference="),
        ({"groups": np.arange(20)}, "groups need inference="),
    ):
        with pytest.raises(ValueError, match=message):
            mean_field.fit(x, y, **facts)
    for facts, message in (
        ({"y_error": error[:9]}, r"y_error must have shape \(20,\), got \(9,\)"),
        ({"y_error": -error}, "must not be negative, got -3.0"),
        ({"groups": np.arange(9)}, r"shape \(20,\), got \(9,\)"),
        ({"groups": np.arange(20) % 3}, "at least 4 groups are needed .* got 3"),
    ):
        with pytest.raises(ValueError, match=message):
            BNNLVRegressor(**QUICK).fit(x, y, **facts)
    np.testing.assert_array_equal(
        check_groups(list("badcab"), np.ones(6, bool)), [1, 0, 3, 2, 0, 1]
    )


def test_columns_of_a_data_frame_are_matched_by_name():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(60, 3)), columns=["heat", "time", "acid"])
    model = BNNLVRegressor((), **QUICK).fit(frame, frame["heat"] - 3 * frame["acid"])
    expected = model.predict(frame)
    np.testing.assert_array_equal(model.predict(frame[["acid", "heat", "time"]]), expected)
    with pytest.raises(ValueError, match="acid"):
        model.predict(frame[["heat", "time"]])
    with pytest.raises(ValueError, match="base"):
        model.predict(frame.rename(columns={"acid": "base"}))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(frame.to_numpy())
