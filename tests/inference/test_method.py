"""Methods by their names, and the forms in which a user may give one."""

import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError

import pytest

from twofold import HMC, NUTS, Alpha, Ensemble, Langevin
from twofold.inference.method import (
    METHODS,
    method_class,
    nest_options,
    resolve_method,
    to_mapping,
)


@pytest.mark.parametrize("name", METHODS)
def test_a_name_means_the_defaults(name):
    method = resolve_method(name)
    assert method.name == name and method == method_class(name)()


@pytest.mark.parametrize(
    "method",
    [Alpha(encoder=[3, 2]), Ensemble(folds=3), Langevin(), HMC(log_noise_prior=[-1, 2]), NUTS()],
)
def test_a_method_survives_files_and_pickles(method):
    assert resolve_method(method) is method
    assert resolve_method(to_mapping(method)) == method
    assert pickle.loads(pickle.dumps(method)) == method
    assert hash(method) == hash(resolve_method(to_mapping(method)))


def test_a_method_is_frozen():
    with pytest.raises(FrozenInstanceError):
        Alpha().alpha = 0.5


@pytest.mark.parametrize(
    ("inference", "message"),
    [
        ("alfa", "'ensemble', 'alpha'.* got 'alfa'; did you mean 'alpha'"),
        ({"alpha": 0.5}, "needs the key 'method'"),
        ({"method": 3}, "inference must be one of .* got 3"),
        ({"method": "alpha", "alhpa": 1}, "no option 'alhpa'; did you mean 'alpha'.*draws, nodes"),
        ({"method": "alpha", "alpha": 0}, "alpha must lie in .* got 0; .*alpha=1e-6"),
        ({"method": "alpha", "epochs": "x"}, "epochs must be an integer of at least 1, got 'x'"),
        (Alpha, "a method such as"),
        (None, "inference must be a name"),
    ],
)
def test_what_is_no_method_is_refused(inference, message):
    with pytest.raises(ValueError, match=message):
        resolve_method(inference)


def test_options_may_stand_beside_the_other_settings():
    assert nest_options({"latent_dim": 0}) == {"latent_dim": 0}
    nested = nest_options({"inference": "alpha", "epochs": 3, "latent_dim": 0})
    assert nested == {"inference": {"method": "alpha", "epochs": 3}, "latent_dim": 0}
    assert nest_options({"chains": 4}) == {"inference": {"method": "langevin", "chains": 4}}
    both = nest_options({"inference": Alpha(alpha=0.5), "epochs": 3})
    assert resolve_method(both["inference"]) == Alpha(alpha=0.5, epochs=3)


def test_names_are_known_without_jax():
    code = "import sys; from twofold.inference import METHODS; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
