"""The estimator as a scikit-learn user meets it."""

import copy
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import parametrize_with_checks

from twofold import Alpha, BNNLVRegressor, Ensemble, fit_many, load
from twofold.core.persistence import FileFormatError
from twofold.envs.toy import HETEROSCEDASTIC
from twofold.estimators.training import NonFiniteEnergyError
from twofold.inference import alpha
from twofold.uncertainty import ESTIMATORS

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

QUICK = {
    "inference": Alpha(epochs=20, draws=10),
    "n_weight_draws": 20,
    "n_latent_draws": 20,
    "random_state": 0,
}


def make_data(rows=60, inputs=2, outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, inputs))
    y = X @ rng.normal(size=(inputs, outputs)) + 0.1 * rng.normal(size=(rows, outputs))
    return X, y[:, 0] if outputs == 1 else y


@pytest.fixture(scope="module")
def fitted():
    X, y = make_data()
    return BNNLVRegressor(**QUICK).fit(X, y)


# A row that is there twice is held out, and dealt to minibatches, as two rows.
REPEATED = "check_sample_weight_equivalence_on_dense_data"


def expected_failures(estimator):
    """Checks that cannot pass; the equivalence holds for the likelihood, not for the draws."""
    del estimator
    return {
        REPEATED: "fits are random, and repeated rows draw other numbers",
        "check_dataframe_column_names_consistency": "columns are matched by name, in any order",
    }


# Enough updates for scikit-learn's own check that a regressor learns.
@parametrize_with_checks(
    [BNNLVRegressor(inference=Ensemble(members=3, folds=3, nodes=6, updates=300))],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        BNNLVRegressor(
            inference=Alpha(epochs=150, draws=10, learning_rate=0.02),
            n_weight_draws=20,
            n_latent_draws=20,
        )
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks_of_the_mean_field(estimator, check):
    check(estimator)


def test_learns_a_linear_relation():
    X, y = make_data(rows=200)
    model = BNNLVRegressor(**QUICK).set_params(inference__epochs=300).fit(X, y)
    assert model.score(X, y) > 0.95


def test_deviation_matches_known_noise_and_covers_the_data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 1))
    y = 5.0 + 3.0 * X[:, 0] + 2.0 * rng.normal(size=400)
    # Variational Bayes: α = 1 would book part of the noise as weight uncertainty.
    settings = {
        "latent_dim": 0,
        "inference": Alpha(alpha=1e-6, epochs=3000, draws=10),
        "random_state": 0,
    }
    model = BNNLVRegressor((), **settings)
    mean, deviation = model.fit(X, y).predict(X, return_std=True)
    # The estimate of a deviation from 400 points has a relative standard error of 1/sqrt(800).
    np.testing.assert_allclose(model.noise_std_, 2.0, rtol=4 / np.sqrt(800))
    assert np.all(deviation >= model.noise_std_)
    coverage = np.mean(np.abs(y - mean) < 1.96 * deviation)
    assert abs(coverage - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 400)


@pytest.mark.parametrize("outputs", [1, 3])
def test_shapes(outputs):
    X, y = make_data(outputs=outputs)
    model = BNNLVRegressor(**QUICK).fit(X, y)
    shape = (5,) if outputs == 1 else (5, outputs)
    mean, deviation = model.predict(X[:5], return_std=True)
    assert mean.shape == deviation.shape == shape
    assert model.sample(X[:5], 7).shape == (7, *shape)
    assert model.log_likelihood(X[:5], y[:5]).shape == (5,)
    assert model.predict(X[:5], quantiles=[0.1, 0.5, 0.9]).shape == (*shape, 3)
    assert all(end.shape == shape for end in model.predict_interval(X[:5]))
    assert all(part.shape == shape for part in model.decompose(X[:5], by="variance").parts)


def test_raw_units_scale_with_the_data():
    X, y = make_data()
    one = BNNLVRegressor(**QUICK).fit(X, y)
    scaled = BNNLVRegressor(**QUICK).fit(100.0 * X - 7.0, 1000.0 * y + 5.0)
    np.testing.assert_allclose(
        scaled.predict(100.0 * X - 7.0), 1000.0 * one.predict(X) + 5.0, rtol=1e-2, atol=5.0
    )
    shift = scaled.log_likelihood(100.0 * X - 7.0, 1000.0 * y + 5.0) - one.log_likelihood(X, y)
    np.testing.assert_allclose(shift, -np.log(1000.0), atol=0.05)


def test_log_likelihood_is_that_of_the_samples(fitted):
    X, _ = make_data()
    draws = fitted.sample(X[:1], 4000)
    grid = np.linspace(draws.min() - 1, draws.max() + 1, 400)
    density = np.exp(fitted.log_likelihood(np.repeat(X[:1], 400, axis=0), grid))
    spacing = grid[1] - grid[0]
    np.testing.assert_allclose(density.sum() * spacing, 1.0, atol=0.01)
    mean = (grid * density).sum() * spacing
    # 4,000 draws; and the density itself rests on only 20 weight draws, so its mean errs as well.
    tolerance = 4 * draws.std() * np.sqrt(1 / 4000 + 1 / 20)
    np.testing.assert_allclose(mean, draws.mean(), atol=tolerance)


def test_quantiles_are_those_of_the_samples_in_raw_units(fitted):
    X, y = make_data()
    scaled = BNNLVRegressor(**QUICK, dtype="float64").fit(X, 100.0 * y - 7.0)
    levels, num = np.array([0.1, 0.5, 0.9]), 4_000
    for model in (fitted, scaled):
        found = model.predict(X[:3], quantiles=levels)
        below = np.mean(model.sample(X[:3], num)[..., None] < found, axis=0)
        # Samples draw weights anew, so the 20 weight draws behind a quantile err as well.
        error = np.sqrt(levels * (1.0 - levels) * (1 / num + 1 / 20))
        assert np.all(np.abs(below - levels) < 4.5 * error)
        low, high = model.predict_interval(X[:3], coverage=0.8)
        np.testing.assert_allclose(np.stack([low, high], axis=1), found[:, [0, 2]], rtol=1e-6)
        density = np.exp(model.log_likelihood(np.repeat(X[:1], 400, axis=0), _grid(model, X)))
        step = np.diff(_grid(model, X))[0]
        np.testing.assert_allclose(density.sum() * step, 0.98, atol=0.005)


def _grid(model, X):
    """Middles of 400 pieces between the quantiles of 1 % and 99 %."""
    low, high = model.predict_interval(X[:1], coverage=0.98)
    return low[0] + (np.arange(400) + 0.5) * (high[0] - low[0]) / 400


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda model, X: model.predict(X, quantiles=[0.5, 1.0]),
            r"quantiles must lie in \(0, 1\)",
        ),
        (lambda model, X: model.predict(X, quantiles=["a"]), r"quantiles must lie in \(0, 1\)"),
        (lambda model, X: model.predict(X, quantiles=0.5), "must be a list such as"),
        (lambda model, X: model.predict(X, quantiles=[]), "must be a list such as"),
        (lambda model, X: model.predict(X, True, [0.5]), "either quantiles or return_std"),
        (lambda model, X: model.predict_interval(X, 1.0), r"coverage must lie in \(0, 1\)"),
    ],
)
def test_impossible_quantiles_are_refused(fitted, call, message):
    with pytest.raises(ValueError, match=message):
        call(fitted, make_data()[0])


def test_same_random_state_same_result_and_another_differs():
    X, y = make_data()
    first, again = (BNNLVRegressor(**QUICK).fit(X, y).predict(X) for _ in range(2))
    other = BNNLVRegressor(**{**QUICK, "random_state": 1}).fit(X, y).predict(X)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_prediction_does_not_depend_on_the_other_rows(fitted):
    X, _ = make_data()
    np.testing.assert_allclose(fitted.predict(X)[3:5], fitted.predict(X[3:5]), rtol=1e-4)


def test_float64_on_request():
    X, y = make_data()
    model = BNNLVRegressor(**QUICK, dtype="float64").fit(X, y)
    assert model.posterior_.mean.dtype == np.float64
    for values in (model.predict(X), model.sample(X), model.log_likelihood(X, y)):
        assert np.isfinite(values).all()
    split = model.decompose(X)
    np.testing.assert_allclose(split.total, split.epistemic + split.aleatoric, rtol=1e-12)
    assert BNNLVRegressor(**QUICK).fit(X, y).posterior_.mean.dtype == np.float32


def test_pandas_and_its_column_names():
    X, y = make_data()
    frame = pd.DataFrame(X, columns=["speed", "load"])
    model = BNNLVRegressor(**QUICK).fit(frame, pd.Series(y))
    np.testing.assert_array_equal(model.feature_names_in_, ["speed", "load"])
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"load": "torque"}))


def test_works_in_pipeline_grid_search_and_clone():
    X, y = make_data(rows=30)
    pipeline = make_pipeline(PolynomialFeatures(2, include_bias=False), BNNLVRegressor(**QUICK))
    search = GridSearchCV(pipeline, {"bnnlvregressor__inference__alpha": [0.5, 1.0]}, cv=2).fit(
        X, y
    )
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    copy = clone(search.best_estimator_)
    assert copy[-1].get_params() == search.best_estimator_[-1].get_params()
    with pytest.raises(NotFittedError):
        copy.predict(X)


def test_works_in_several_processes():
    X, y = make_data(rows=30)
    search = GridSearchCV(BNNLVRegressor(**QUICK), {"inference__alpha": [0.5, 1.0]}, cv=2, n_jobs=2)
    assert np.isfinite(search.fit(X, y).cv_results_["mean_test_score"]).all()


def test_members_fitted_together_equal_members_fitted_alone():
    X, y = make_data()
    settings = [
        {"inference": Alpha(epochs=20, draws=10, alpha=1.0), "random_state": 0},
        {"inference": Alpha(epochs=20, draws=10, alpha=0.5), "random_state": 3},
    ]
    data = [(X, y), (X[:41], y[:41])]
    together = fit_many(
        [BNNLVRegressor(**{**QUICK, **s}) for s in settings], *map(list, zip(*data, strict=True))
    )
    for member, setting, (x, targets) in zip(together, settings, data, strict=True):
        alone = BNNLVRegressor(**{**QUICK, **setting}).fit(x, targets)
        np.testing.assert_allclose(member.predict(X), alone.predict(X), rtol=1e-3, atol=1e-3)


def test_members_must_share_their_settings():
    X, y = make_data()
    members = [BNNLVRegressor(**QUICK), BNNLVRegressor(**QUICK).set_params(inference__draws=11)]
    with pytest.raises(ValueError, match="differ in draws"):
        fit_many(members, [X, X], [y, y])
    with pytest.raises(ValueError, match="same positive length"):
        fit_many(members, [X], [y, y])


def test_a_fit_that_still_falls_says_so():
    X, y = HETEROSCEDASTIC.training_data(0)
    with pytest.warns(ConvergenceWarning, match="increase epochs"):
        model = BNNLVRegressor(**QUICK).set_params(inference__epochs=200).fit(X, y)
    assert model.convergence_.steep and not model.convergence_.converged


def test_not_fitted():
    for call in ("predict", "sample", "decompose"):
        with pytest.raises(NotFittedError):
            getattr(BNNLVRegressor(), call)([[0.0]])


def test_constant_columns_are_handled():
    X, y = make_data()
    X = np.column_stack([X, np.full(len(X), 3.7)])
    assert np.isfinite(BNNLVRegressor(**QUICK).fit(X, y).predict(X)).all()
    flat = BNNLVRegressor(**QUICK).set_params(inference__epochs=1000).fit(X, np.full(len(X), 2.0))
    np.testing.assert_allclose(flat.predict(X), 2.0, atol=0.05)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inference__alpha": 0.0}, "alpha must lie in .* use alpha=1e-6"),
        ({"inference__alpha": 1.5}, "alpha must lie in"),
        ({"hidden_layer_sizes": 20}, "hidden_layer_sizes must be a list"),
        ({"hidden_layer_sizes": (20, 0)}, "at least 1, got 0"),
        ({"latent_dim": -1}, "latent_dim"),
        ({"inference__epochs": 0}, "epochs"),
        ({"inference__batch_size": 2.5}, "batch_size"),
        ({"inference__draws": 0}, "draws"),
        ({"inference__learning_rate": -1.0}, "learning_rate"),
        ({"weight_variance": 0.0}, "weight_variance"),
        ({"latent_variance": 0.0}, "latent_variance"),
        ({"dtype": "float16"}, "dtype"),
        ({"inference__learning_rate_decay": 0.5}, "learning_rate_decay"),
        ({"checkpoint": "x", "random_state": None}, "checkpoint needs random_state"),
        ({"verbose": "loud"}, "verbose"),
    ],
)
def test_impossible_settings_are_refused(change, message):
    X, y = make_data()
    with pytest.raises(ValueError, match=message):
        BNNLVRegressor(**QUICK).set_params(**change).fit(X, y)


def test_bad_data_is_named():
    X, y = make_data()
    frame = pd.DataFrame(X, columns=["speed", "load"])
    frame.loc[[1, 4], "load"] = np.nan
    with pytest.raises(ValueError, match=r"X contains NaN.*column 1 \('load'\): 2"):
        BNNLVRegressor(**QUICK).fit(frame, y)
    bad_y = y.copy()
    bad_y[7] = np.inf
    with pytest.raises(ValueError, match=r"y contains infinity.*column 0: 1"):
        BNNLVRegressor(**QUICK).fit(X, bad_y)
    text = pd.DataFrame({"speed": X[:, 0], "mode": ["fast"] * len(X)})
    with pytest.raises(ValueError, match=r"column\(s\) 'mode'"):
        BNNLVRegressor(**QUICK).fit(text, y)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.empty((0, 2)), np.empty(0), "0 sample"),
        (np.ones((1, 2)), np.ones(1), "minimum of 2 is required"),
        (np.ones(5), np.ones(5), "2D array"),
        (np.ones((5, 2)), np.ones(4), "inconsistent"),
        (np.empty((5, 0)), np.ones(5), "0 feature"),
    ],
)
def test_wrong_shapes_are_refused(X, y, message):
    with pytest.raises(ValueError, match=message):
        BNNLVRegressor(**QUICK).fit(X, y)


def test_values_too_large_to_standardise_are_refused():
    X, y = make_data()
    with pytest.raises(ValueError, match=r"y has values too large .* column\(s\) \[0\]; rescale"):
        BNNLVRegressor(**QUICK).fit(X, 1e200 * y)


@pytest.mark.parametrize("latent_dim", [0, 2])
def test_other_numbers_of_latent_inputs(latent_dim):
    X, y = make_data()
    model = BNNLVRegressor(**QUICK, latent_dim=latent_dim).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert np.isfinite(model.decompose(X).epistemic).all()


def test_more_slots_than_data_cost_nothing():
    X, y = make_data()
    model = BNNLVRegressor(**QUICK).set_params(inference__batch_size=10**9).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


def test_predictions_do_not_depend_on_the_chunk_size(fitted, monkeypatch):
    X, y = make_data()
    whole = fitted.predict(X), fitted.log_likelihood(X, y), fitted.decompose(X).total
    monkeypatch.setattr("twofold.uncertainty.predictive.CHUNK_VALUES", 7 * 20 * 20 * 20)
    parts = fitted.predict(X), fitted.log_likelihood(X, y), fitted.decompose(X).total
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_a_failed_refit_leaves_the_fitted_model_whole():
    X, y = make_data()
    model = BNNLVRegressor(**QUICK).fit(X, y)
    before = model.predict(X)
    with pytest.raises(NonFiniteEnergyError):
        model.set_params(inference__learning_rate=1e30).fit(X, 1000.0 * y)
    np.testing.assert_array_equal(model.predict(X), before)
    with pytest.raises(NonFiniteEnergyError):
        unfitted = BNNLVRegressor(**QUICK).set_params(inference__learning_rate=1e30)
        unfitted.fit(X, y)
    with pytest.raises(NotFittedError):
        unfitted.predict(X)


def test_twenty_growing_data_sets_compile_a_handful_of_programs(monkeypatch):
    calls = []
    original = alpha.alpha_energy

    def counted(*arguments):
        calls.append(1)
        return original(*arguments)

    monkeypatch.setattr(alpha, "alpha_energy", counted)
    X, y = make_data(rows=845)
    for rows in range(750, 850, 5):
        BNNLVRegressor((3,), inference=Alpha(epochs=1, draws=3), random_state=0).fit(
            X[:rows], y[:rows]
        )
    # Two padded sizes, and a program may be traced twice to settle its types.
    assert 1 <= len(calls) <= 4


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_datum_more_has_nothing_compiled():
    X, y = make_data(rows=34)
    options = {"inference": Ensemble(members=2, updates=20), "random_state": 0, "latent_dim": 0}
    compiled, watched = [], True

    def listen(event, seconds, **_):
        if watched and event == "/jax/core/compile/backend_compile_duration":
            compiled.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    BNNLVRegressor((7,), **options).fit(X[:30], y[:30])
    first = len(compiled)
    assert first > 0
    for rows in range(31, 35):
        BNNLVRegressor((7,), **options).fit(X[:rows], y[:rows])
    watched = False
    assert len(compiled) == first


def test_with_room_to_grow_there_is_one_program(monkeypatch):
    calls = []
    original = alpha.alpha_energy

    def counted(*arguments):
        calls.append(1)
        return original(*arguments)

    monkeypatch.setattr(alpha, "alpha_energy", counted)
    X, y = make_data(rows=300)
    fitted = []
    for rows in range(100, 301, 50):
        model = BNNLVRegressor((4,), inference=Alpha(epochs=1, draws=3), random_state=0)
        fitted += fit_many([model], [X[:rows]], [y[:rows]], capacity=300)
    assert 1 <= len(calls) <= 2
    alone = BNNLVRegressor((4,), inference=Alpha(epochs=1, draws=3), random_state=0)
    alone.fit(X[:100], y[:100])
    np.testing.assert_allclose(alone.predict(X[:9]), fitted[0].predict(X[:9]), rtol=1e-5)
    with pytest.raises(ValueError, match="capacity must be an integer of at least 300, got 50"):
        fit_many([alone], [X], [y], capacity=50)


def test_wrong_inputs_after_fitting_are_refused(fitted):
    X, y = make_data()
    with pytest.raises(ValueError, match="features"):
        fitted.predict(np.ones((3, 5)))
    with pytest.raises(ValueError, match="y must have shape"):
        fitted.log_likelihood(X, y[:-1])
    with pytest.raises(ValueError, match="n_samples"):
        fitted.sample(X, 0)
    with pytest.raises(ValueError, match="'entropy' or 'variance'"):
        fitted.decompose(X, by="range")


def test_saved_model_predicts_identically_in_a_new_process(tmp_path):
    X, y = make_data()
    frame = pd.DataFrame(X, columns=["speed", "load"])
    model = BNNLVRegressor(**QUICK).fit(frame, y)
    model.save(tmp_path / "model.twofold")
    np.save(tmp_path / "X.npy", X)
    script = (
        "import sys, numpy as np, pandas as pd, twofold\n"
        "folder = sys.argv[1]\n"
        "model = twofold.load(folder + '/model.twofold')\n"
        "X = pd.DataFrame(np.load(folder + '/X.npy'), columns=['speed', 'load'])\n"
        "np.save(folder + '/mean.npy', model.predict(X))\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "mean.npy"), model.predict(frame))


def test_loaded_model_is_the_same_model(fitted, tmp_path):
    X, y = make_data()
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.get_params() == fitted.get_params()
    assert again.convergence_ == fitted.convergence_
    assert again.model_ == fitted.model_
    np.testing.assert_array_equal(again.log_likelihood(X, y), fitted.log_likelihood(X, y))
    np.testing.assert_array_equal(again.energies_, fitted.energies_)
    np.testing.assert_array_equal(again.noise_std_, fitted.noise_std_)


def test_loading_something_else_is_refused(tmp_path):
    (tmp_path / "model").write_text("not a model")
    with pytest.raises(FileFormatError):
        load(tmp_path / "model")
    with pytest.raises(NotFittedError):
        BNNLVRegressor().save(tmp_path / "other")


def test_joint_split_of_two_outputs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1))
    y = np.hstack([10 * X, -X]) + rng.normal(size=(60, 2))
    model = BNNLVRegressor(**QUICK).fit(X, y)
    each, joint = model.decompose(X[:4]), model.decompose(X[:4], joint=True)
    assert each.total.shape == (4, 2)
    assert joint.total.shape == (4,)
    # Outputs can only share information: jointly at most the sum of each, within the joint's error.
    error = 4.5 * joint.standard_errors.aleatoric
    assert np.all(joint.aleatoric < each.aleatoric.sum(axis=1) + error)


def test_entropies_follow_the_units_of_y(fitted):
    X, y = make_data()
    stretched = BNNLVRegressor(**QUICK).fit(X, 100.0 * y)
    small, large = fitted.decompose(X[:5]), stretched.decompose(X[:5])
    np.testing.assert_allclose(large.total - small.total, np.log(100.0), atol=1e-3)
    np.testing.assert_allclose(large.epistemic, small.epistemic, atol=1e-3)


def test_an_impossible_epistemic_part_is_warned_about(fitted, monkeypatch):
    X, _ = make_data()

    def biased(key, centres, log_noise):
        exact = ESTIMATORS["quadrature"](key, centres, log_noise)
        return exact._replace(cross=exact.conditional - 1.0)

    monkeypatch.setitem(ESTIMATORS, "biased", biased)
    with pytest.warns(RuntimeWarning, match="negative beyond its Monte Carlo error"):
        found = fitted.decompose(X[:5], estimator="biased")
    assert found.doubtful.all()
    assert np.all(found.epistemic < 0)


def test_unknown_entropies_are_warned_about(fitted, monkeypatch):
    X, _ = make_data()

    def unknown(key, centres, log_noise):
        exact = ESTIMATORS["quadrature"](key, centres, log_noise)
        return jax.tree.map(lambda leaf: leaf + jnp.nan, exact)

    monkeypatch.setitem(ESTIMATORS, "unknown", unknown)
    with pytest.warns(RuntimeWarning, match=r"entropies of \d+ points .*NaN.* use by='variance'"):
        fitted.decompose(X[:5], estimator="unknown")


def test_a_long_prediction_shows_its_progress(fitted, monkeypatch, capsys):
    X, _ = make_data()
    monkeypatch.setattr("twofold.uncertainty.predictive.CHUNK_VALUES", 7 * 20 * 20 * 20)
    model = copy.copy(fitted).set_params(verbose=True)
    model.predict(X)
    assert f"{len(X)}/{len(X)} rows" in capsys.readouterr().err


def test_samples_do_not_depend_on_the_chunk_size(fitted, monkeypatch):
    X, _ = make_data()
    whole = fitted.sample(X, 20)
    monkeypatch.setattr("twofold.uncertainty.predictive.CHUNK_VALUES", 7 * 20 * 20)
    np.testing.assert_allclose(fitted.sample(X, 20), whole, rtol=1e-4, atol=1e-4)


def test_options_of_the_method_are_settings_of_the_regressor():
    model = BNNLVRegressor(inference="alpha")
    assert model.get_params()["inference__draws"] == 50
    assert clone(model).set_params(inference__alpha=0.5).inference == Alpha(alpha=0.5)
    assert model.inference == "alpha"
    both = clone(model).set_params(inference="ensemble", inference__members=4)
    assert both.inference == Ensemble(members=4)
    with pytest.raises(ValueError, match="no option 'alpha'"):
        both.set_params(inference__alpha=1.0)
