"""The regressor with Markov chains as its inference."""

import threading
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import twofold
from twofold import NUTS, BNNLVRegressor, fit_many

QUICK = {
    "hidden_layer_sizes": (4,),
    "inference": NUTS(chains=2, warmup=40, samples=30, nodes=8),
    "n_weight_draws": 30,
    "n_latent_draws": 10,
    "random_state": 0,
}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def make_data(size=40, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (size, 1))
    return x, 10.0 + 3.0 * x[:, 0] + 0.5 * rng.normal(size=size)


@pytest.fixture(scope="module")
def fitted():
    return BNNLVRegressor(**QUICK).fit(*make_data())


def test_it_predicts_and_splits_in_raw_units(fitted):
    x, y = make_data(seed=1)
    assert fitted.score(x, y) > 0.8
    assert np.all(fitted.decompose(x).epistemic >= 0)
    assert 0.1 < fitted.noise_std_[0] < 2.0
    assert fitted.posterior_.weights.shape == (60, fitted.model_.num_weights)


def test_diagnostics_are_there_and_warned_about():
    model = BNNLVRegressor(**QUICK).set_params(inference__warmup=2, inference__samples=4)
    with pytest.warns(ConvergenceWarning, match="R-hat|effective sample size"):
        model.fit(*make_data())
    assert model.diagnostics_.r_hat_max > 0
    assert model.convergence_ is None


def test_a_saved_model_predicts_the_same(fitted, tmp_path):
    x, y = make_data(seed=1)
    fitted.save(tmp_path / "model")
    loaded = twofold.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(x), fitted.predict(x))
    np.testing.assert_array_equal(loaded.log_likelihood(x, y), fitted.log_likelihood(x, y))
    assert loaded.diagnostics_ == fitted.diagnostics_
    assert loaded.get_params() == fitted.get_params()


def test_chains_of_several_data_sets_run_side_by_side(fitted):
    data = [make_data(), make_data(25, seed=3)]
    together = [BNNLVRegressor(**QUICK), BNNLVRegressor(**QUICK)]
    fit_many(together, [x for x, _ in data], [y for _, y in data])
    x = make_data(seed=1)[0]
    # Chains follow their own keys, but rounding differs with the number of members.
    np.testing.assert_allclose(together[0].predict(x), fitted.predict(x), rtol=0.05)
    assert together[1].score(*make_data(25, seed=3)) > 0.8


def test_a_killed_run_continues_where_it_stopped(fitted, tmp_path, monkeypatch):
    path = tmp_path / "run.checkpoint"
    x, y = make_data()
    interrupted = BNNLVRegressor(**QUICK, checkpoint=path, checkpoint_seconds=1e-9)
    from twofold.estimators import training

    class Stop:
        def __init__(self, *arguments):
            self.count = 0

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            return None

        def update(self, epoch, energy):
            if epoch >= 20:
                raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training, "ProgressBar", Stop)
        with pytest.raises(KeyboardInterrupt):
            interrupted.fit(x, y)
    assert path.exists()
    resumed = BNNLVRegressor(**QUICK, checkpoint=path).fit(x, y)
    np.testing.assert_array_equal(resumed.posterior_.weights, fitted.posterior_.weights)


def test_ctrl_c_during_warm_up_keeps_the_place_where_the_chains_are(monkeypatch):
    from twofold.estimators import training

    @contextmanager
    def pressed():
        event = threading.Event()
        event.set()
        yield event

    monkeypatch.setattr(training, "catch_interrupt", pressed)
    x, y = make_data()
    with pytest.warns(training.InterruptedFitWarning, match="of 70 transitions"):
        model = BNNLVRegressor(**QUICK).fit(x, y)
    assert model.posterior_.weights.shape[0] == 2
    assert model.diagnostics_.r_hat_max is None
    assert np.isfinite(model.predict(x)).all()


def test_two_latent_inputs_are_sampled_beside_the_weights(tmp_path):
    method = replace(QUICK["inference"], nodes=0, log_noise_prior=[-2, np.float64(1.0)])
    settings = QUICK | {"latent_dim": 2, "inference": method}
    path = tmp_path / "run.checkpoint"
    model = BNNLVRegressor(**settings, checkpoint=path).fit(*make_data())
    again = BNNLVRegressor(**settings, checkpoint=path).fit(*make_data())
    np.testing.assert_array_equal(again.posterior_.weights, model.posterior_.weights)
    model.save(tmp_path / "model")
    assert twofold.load(tmp_path / "model").inference == method


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"inference": "gibbs"}, "inference must be one of 'langevin', 'ensemble', 'alpha'"),
        ({"inference__chains": 1}, "chains must be an integer of at least 2"),
        ({"inference__temperature": 1}, "NUTS has no option 'temperature'.* chains, warmup"),
        ({"inference": 3}, "inference must be a name"),
        ({"inference": {"alpha": 1}}, "needs the key 'method'"),
        ({"inference__warmup": 2.5}, "warmup must be an integer of at least 1"),
        ({"inference__log_noise_prior": -3}, "log_noise_prior must be a pair"),
        ({"inference__epochs": 5}, "NUTS has no option 'epochs'"),
        ({"latent_dim": 3}, "at most 2 latent inputs, got 3"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        BNNLVRegressor(**QUICK).set_params(**settings).fit(*make_data())
