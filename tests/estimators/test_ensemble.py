"""The regressor as an ensemble, and with its latent input integrated out."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import twofold
from twofold import Alpha, BNNLVRegressor, Ensemble, fit_many

QUICK = {
    "hidden_layer_sizes": (6,),
    "inference": Ensemble(members=5, nodes=6, updates=300),
    "latent_dim": 0,
    "n_latent_draws": 20,
    "random_state": 0,
}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def make_data(size=60, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (size, 1))
    return x, 10.0 + 3.0 * x[:, 0] + 0.5 * rng.normal(size=size)


@pytest.fixture(scope="module")
def fitted():
    return BNNLVRegressor(**QUICK).fit(*make_data())


def test_it_predicts_and_knows_less_far_from_the_data(fitted):
    x, y = make_data(seed=1)
    assert fitted.score(x, y) > 0.9
    split = fitted.decompose(np.array([[0.0], [6.0]]), by="variance")
    assert split.epistemic[1] > 4 * split.epistemic[0]
    assert fitted.posterior_.weights.shape == (5, fitted.model_.num_weights)
    assert fitted.out_of_bag_.rows == 30 and fitted.diagnostics_ is None


def test_a_saved_model_predicts_the_same(fitted, tmp_path):
    x, y = make_data(seed=1)
    fitted.save(tmp_path / "model")
    loaded = twofold.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(x), fitted.predict(x))
    np.testing.assert_array_equal(loaded.log_likelihood(x, y), fitted.log_likelihood(x, y))


def test_a_stopped_run_continues_exactly(fitted, tmp_path):
    path = tmp_path / "run.checkpoint"
    first = BNNLVRegressor(**QUICK, checkpoint=path).fit(*make_data())
    again = BNNLVRegressor(**QUICK, checkpoint=path).fit(*make_data())
    np.testing.assert_array_equal(again.posterior_.weights, first.posterior_.weights)
    np.testing.assert_array_equal(first.posterior_.weights, fitted.posterior_.weights)


def test_ensembles_of_several_data_sets_train_side_by_side(fitted):
    data = [make_data(), make_data(40, seed=3)]
    together = [BNNLVRegressor(**QUICK), BNNLVRegressor(**QUICK)]
    fit_many(together, [x for x, _ in data], [y for _, y in data])
    x = make_data(seed=1)[0]
    np.testing.assert_allclose(together[0].predict(x), fitted.predict(x), rtol=1e-2)


def test_a_mean_field_with_its_latent_input_integrated_out():
    x, y = make_data(100)
    model = BNNLVRegressor(
        (6,),
        inference=Alpha(nodes=8, epochs=600, draws=10),
        random_state=0,
        n_weight_draws=50,
        n_latent_draws=20,
    ).fit(x, y)
    assert model.score(*make_data(seed=1)) > 0.9
    assert np.all(model.decompose(x[:5]).epistemic >= 0)


def test_two_latent_inputs_are_integrated_out():
    model = BNNLVRegressor(
        **QUICK | {"latent_dim": 2, "inference": replace(QUICK["inference"], updates=100)}
    ).fit(*make_data())
    assert model.score(*make_data(seed=1)) > 0.5
    assert model.integration_error_ >= 0


def test_noise_too_narrow_for_the_nodes_is_pointed_out():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (200, 1))
    y = rng.uniform(-1, 1, 200)  # Noise that the latent input must carry, with hard edges.
    settings = QUICK | {"latent_dim": 1, "inference": Alpha(nodes=2, epochs=400, draws=5)}
    with pytest.warns(ConvergenceWarning, match="latent input is integrated out with an error of"):
        model = BNNLVRegressor(**settings).fit(x, y)
    assert model.integration_error_ > 0.1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"inference__members": 1}, "members must be an integer of at least 2"),
        ({"inference__chains": 4}, "Ensemble has no option 'chains'"),
        ({"latent_dim": 3}, "at most 2 latent inputs, got 3"),
        ({"inference__folds": 1}, "folds must be an integer of at least 2"),
        ({"inference": {"method": "langevin", "energy_error": -1}}, "energy_error must be a posi"),
        ({"inference": {"method": "langevin", "adjusted": 1}}, "adjusted must be True or False"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        BNNLVRegressor(**QUICK).set_params(**settings).fit(*make_data())
