"""Model files whose checksum is right and whose content is not: refused, with file and field."""

import warnings

import numpy as np
import pytest

from twofold import Alpha, BNNLVRegressor, Ensemble, load
from twofold.core import persistence
from twofold.core.persistence import FileFormatError


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A model of each kind of posterior, with two inputs, as files."""
    folder, rng = tmp_path_factory.mktemp("models"), np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    methods = {
        "sampled": Ensemble(members=2, nodes=2, updates=20),
        "mean": Alpha(epochs=1, draws=2),
    }
    for name, method in methods.items():
        settings = {"hidden_layer_sizes": (3,), "latent_dim": 1, "inference": method}
        own = {"checkpoint": folder / "run.checkpoint"} if name == "mean" else {}
        model = BNNLVRegressor(**settings, **own, random_state=0, n_weight_draws=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, X[:, 0]).save(folder / name)
    return folder


@pytest.fixture
def forge(files, tmp_path):
    """``forge(which, changes of arrays, changes of metadata)``: a file with a right checksum."""

    def write(which, arrays=None, **metadata):
        stored = persistence.read(files / which, "model")
        content = stored.metadata | metadata
        for name, value in metadata.items():
            if isinstance(value, dict) and isinstance(stored.metadata[name], dict):
                content[name] = stored.metadata[name] | value
        both = stored.arrays | (arrays or {})
        kept = {name: array for name, array in both.items() if array is not None}
        content = {name: value for name, value in content.items() if value is not ...}
        persistence.write(tmp_path / "forged", "model", kept, content)
        return tmp_path / "forged"

    return write


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"model": {"hidden": "abc"}}, "hidden"),
        ({"model": {"hidden": [3.5]}}, "hidden"),
        ({"model": {"hidden": [-3]}}, "hidden must be at least 1"),
        ({"model": {"hidden": [10**9]}}, "posterior/"),
        ({"model": {"inputs": -1}}, "inputs"),
        ({"model": {"inputs": 3}}, "posterior/"),
        ({"model": {"inputs": True}}, "inputs"),
        ({"model": {"latents": None}}, "latents"),
        ({"model": {"weight_variance": "1"}}, "weight_variance"),
        ({"model": {"activation": "sine"}}, "activation"),
        ({"model": {"depth": 3}}, "depth"),
        ({"model": 3}, "model"),
        ({"model": ...}, "model"),
        ({"settings": ...}, "settings"),
        ({"settings": {"hidden_layer_sizes": "big"}}, "hidden_layer_sizes"),
        ({"settings": {"inference": "magic"}}, "magic"),
        ({"settings": {"inference": {"method": ["alpha"]}}}, "inference must be one of"),
        ({"settings": {"dtype": "float16"}}, "dtype"),
        ({"settings": {"n_weight_draws": -1}}, "n_weight_draws"),
        ({"settings": {"wings": 2}}, "wings"),
        ({"posterior": "Guess"}, "Guess"),
        ({"posterior": ["Guess"]}, "list"),
        ({"estimator": "Forest"}, "Forest"),
        ({"columns": ["a"]}, "columns"),
        ({"columns": 2}, "int"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**70}, "seed"),
        ({"seed": "0"}, "seed"),
        ({"y_ndim": 3}, "y_ndim"),
        ({"convergence": {"energy": "low"}}, "convergence"),
    ],
)
def test_wrong_metadata(forge, change, field):
    path = forge("mean", **change)
    with pytest.raises(FileFormatError, match=field) as caught:
        load(path)
    assert str(path) in str(caught.value) and len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("which", "name", "change"),
    [
        ("mean", "posterior/mean", None),
        ("mean", "posterior/mean", lambda a: a[:-1]),
        ("mean", "posterior/mean", lambda a: a[None]),
        ("mean", "posterior/mean", lambda a: a.astype(int)),
        ("mean", "posterior/mean", lambda a: a * np.nan),
        ("mean", "posterior/mean", lambda a: a.astype(float) + 1e300),
        ("mean", "posterior/variance", lambda a: -a),
        ("mean", "posterior/log_noise", lambda a: a + 1e6),
        ("mean", "posterior/log_noise", lambda a: a - 1e6),
        ("sampled", "posterior/weights", lambda a: a[:1]),
        ("sampled", "posterior/weights", lambda a: a[:0]),
        ("sampled", "posterior/weights", lambda a: a + np.inf),
        ("sampled", "posterior/log_noise", lambda a: a[:, :1]),
        ("sampled", "posterior/log_noise", lambda a: a + 1e6),
        ("sampled", "x/scale", lambda a: 0 * a),
        ("sampled", "x/scale", lambda a: -a),
        ("sampled", "x/mean", lambda a: a[:1]),
        ("sampled", "y/scale", lambda a: a * np.nan),
        ("sampled", "y/mean", None),
        ("sampled", "energies", None),
        ("sampled", "energies", lambda a: a[None]),
    ],
)
def test_wrong_arrays(files, forge, which, name, change):
    array = persistence.read(files / which, "model").arrays[name]
    path = forge(which, {name: None if change is None else change(array)})
    wrong = "posterior/(weights|log_noise)" if which == "sampled" and "post" in name else name
    with pytest.raises(FileFormatError, match=wrong) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_no_path_of_the_author_is_stored_or_believed(files, forge):
    stored = persistence.read(files / "mean", "model")
    assert str(files) not in str(stored.metadata)
    assert load(forge("mean", settings={"checkpoint": "/etc/x"})).checkpoint is None


def test_a_checkpoint_with_other_content_is_refused(files, tmp_path):
    arrays, metadata = persistence.read(files / "run.checkpoint", "checkpoint")
    X = np.random.default_rng(0).normal(size=(20, 2))
    path = tmp_path / "run.checkpoint"
    changes = [
        ({"energies": None}, {}),
        ({"skipped": arrays["skipped"][:, :0]}, {}),
        ({"state/0": arrays["state/0"][:0]}, {}),
        ({}, {"epoch": "1"}),
        ({}, {"epoch": 7}),
        ({"state/0": None}, {}),
    ]
    for other, about in changes:
        kept = {name: array for name, array in (arrays | other).items() if array is not None}
        persistence.write(path, "checkpoint", kept, metadata | about)
        model = BNNLVRegressor(
            (3,), latent_dim=1, inference=Alpha(epochs=1, draws=2), random_state=0,
            n_weight_draws=2, checkpoint=path,
        )  # fmt: skip
        with pytest.raises(FileFormatError, match="delete the file") as caught:
            model.fit(X, X[:, 0])
        assert str(path) in str(caught.value)
