"""Any settings and any data: a fit, or an error that says which of them was wrong."""

import re
import warnings

import jax
import numpy as np
import pytest
from hypothesis import strategies as st
from sklearn.base import clone

from twofold import BNNLVRegressor
from twofold.estimators.training import NonFiniteEnergyError
from twofold.inference import METHODS

REFUSALS = (ValueError, TypeError, NonFiniteEnergyError)
pandas = pytest.importorskip("pandas")
sparse = pytest.importorskip("scipy.sparse")

odd_numbers = st.sampled_from(
    [0, 1, -1, 2**31, 2**63, 2**70, -(2**40), 1e-320, 1e300, -1e300, 0.5, np.nan, np.inf, -np.inf]
)
odd_things = st.one_of(
    odd_numbers,
    odd_numbers.map(np.float64),
    st.integers(),
    st.floats(),
    st.none(),
    st.booleans(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.complex_numbers(),
    st.sampled_from([np.array([1, 2]), np.zeros((0, 3)), object(), len, np.bool_(True), int]),
)
nested_things = st.recursive(
    odd_things,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.sampled_from(["members", "nodes", "x", 3]), inner, max_size=2),
    ),
    max_leaves=4,
)
PARAMETERS = sorted(set(BNNLVRegressor(inference="ensemble").get_params()) - {"checkpoint"})
# Would be fitted, as asked for, at the cost of a new program or of hours.
COSTLY = {"inference__updates": 30, "inference__members": 3, "inference__nodes": 3}
COSTLY |= {"hidden_layer_sizes": 3, "latent_dim": 1}


def costs_much(name, value):
    """Whether a value may be right, and is only too much for a quick test."""
    flat = np.atleast_1d(np.array(value, dtype=object)).ravel() if name in COSTLY else []
    numbers = [one for one in flat if isinstance(one, int | np.integer)]
    return isinstance(value, dict) or any(COSTLY[name] < one < 2**31 for one in numbers)


@pytest.mark.examples(40, 1500)
def test_settings(fuzz, tiny, data):
    @fuzz.given(st.sampled_from(PARAMETERS), nested_things)
    def check(name, value):
        if costs_much(name, value) or (name == "inference__updates" and value is None):
            return
        with fuzz.case(*REFUSALS, names=f"{name.split('__')[-1]} finite seed memory"):
            model = BNNLVRegressor(**tiny).set_params(**{name: value}).fit(*data)
            assert np.isfinite(model.predict(data[0])).all()


options = st.sampled_from(
    "members folds nodes log_noise_prior chains samples steps energy_error adjusted warmup "
    "annealing thin leapfrog_steps max_doublings target_acceptance".split()
)


@pytest.mark.examples(30, 500)
def test_options_of_the_inference_methods(fuzz, tiny, data):
    @fuzz.given(st.sampled_from(list(METHODS)), options, odd_things)
    def check(method, name, value):
        from twofold.campaign.definition import check_model_settings

        names = f"{name} {method} option latent memory deviation"
        with fuzz.case(*REFUSALS, names=names):
            check_model_settings(tiny | {"inference": {"method": method, name: value}})


def kinds_of(table):
    """The same numbers as a user may have them."""
    return [
        table,
        table.tolist(),
        np.asfortranarray(table),
        np.ma.masked_invalid(table),
        table.astype(object),
        table.astype(np.float32),
        table.astype(np.complex128),
        table.astype(str),
        pandas.DataFrame(table),
        pandas.DataFrame(table, columns=["a"] * table.shape[1]),
        pandas.DataFrame(table, columns=list("äß☃")[: table.shape[1]]).astype("category"),
        pandas.DataFrame(table).convert_dtypes(),
        sparse.csr_matrix(np.nan_to_num(table)),
        table[:, 0],
        table[None],
        table[:0],
        table[:, :0],
        table[:1],
        np.round(np.nan_to_num(np.clip(table, -9, 9))).astype(np.int8),
        table > 0,
        {"a": table},
        "table",
        None,
        3.0,
        [[1.0], [1.0, 2.0]],
        iter(table),
    ]


KINDS = 26
magnitudes = st.sampled_from([0.0, 1.0, -1.0, 1e300, -1e300, 1e-300, 1e308, 1e200, 1e150, 5e-324])
cells = st.one_of(
    st.floats(-10, 10),
    st.floats(-10, 10),
    magnitudes,
    st.sampled_from([np.nan, np.inf, -np.inf, 1e30, 1e-30]),
)


@st.composite
def tables(draw, rows=8, widths=(1, 2)):
    """A table of numbers, mostly of one magnitude, at times with an odd cell or column."""
    width = draw(st.sampled_from(widths))
    generator = np.random.default_rng(draw(st.integers(0, 99)))
    table = generator.normal(size=(rows, width)) * draw(
        st.sampled_from([1.0, 1.0, 1e-300, 1e300, 1e30, 1e-30, 1e150])
    )
    if draw(st.booleans()):
        place = draw(st.integers(0, rows - 1)), draw(st.integers(0, width - 1))
        table[place] = draw(cells)
    if draw(st.booleans()):
        table[:, draw(st.integers(0, width - 1))] = draw(magnitudes)
    kind = draw(st.integers(0, KINDS - 1)) if draw(st.booleans()) else 0
    return kinds_of(table)[kind]


def said(call):
    """What is not a number comes with a warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = call()
    split = hasattr(found, "total")
    numbers = (found.total, found.epistemic, found.aleatoric) if split else jax.tree.leaves(found)
    own = [one for one in caught if re.search("NaN|no finite", str(one.message))]
    assert own or all(np.isfinite(part).all() for part in numbers), "NaN, and nobody said so"


WORDS = "X y input array feature sample dtype convert float number shape energy column data row"


@pytest.mark.examples(30, 1200)
def test_data_to_fit(fuzz, tiny):
    @fuzz.given(tables(), tables(widths=(1, 1, 1, 2)))
    def check(X, y):
        with fuzz.case(*REFUSALS, names=WORDS):
            model = BNNLVRegressor(**tiny).fit(X, y)
            said(lambda: model.predict(X, return_std=True))


CALLS = {
    "predict": lambda model, X, y: model.predict(X, return_std=True),
    "variance": lambda model, X, y: model.decompose(X, by="variance"),
    "entropy": lambda model, X, y: model.decompose(X),
    "sample": lambda model, X, y: model.sample(X, 3),
    "log_likelihood": lambda model, X, y: model.log_likelihood(X, y),
    "conditional_moments": lambda model, X, y: model.conditional_moments(X),
}


@pytest.mark.examples(30, 1500)
def test_data_to_predict(fuzz, fitted):
    before = fitted.predict(np.zeros((3, 2)))

    @fuzz.given(st.sampled_from(sorted(CALLS)), tables(widths=(1, 2, 2, 2)), tables(widths=(1, 2)))
    def check(call, X, y):
        with fuzz.case(*REFUSALS, names=WORDS):
            said(lambda: CALLS[call](fitted, X, y))
        if not (fitted.predict(np.zeros((3, 2))) == before).all():
            fuzz.lost("the model predicts otherwise than before")


@pytest.mark.examples(20, 300)
def test_arguments_of_predictions(fuzz, fitted, data):
    @fuzz.given(
        st.sampled_from(["n_samples", "random_state", "by", "joint", "estimator"]), nested_things
    )
    def check(name, value):
        sampling = name in ("n_samples", "random_state")
        # A function is taken for what it is, and fails as it fails.
        if callable(value) or (
            name == "n_samples" and isinstance(value, int) and 3 < value < 2**31
        ):
            return
        with fuzz.case(ValueError, TypeError, names=f"{name} joint memory"):
            (fitted.sample if sampling else fitted.decompose)(data[0], **{name: value})


def test_a_refused_fit_leaves_the_model_as_it_was(fuzz, fitted, data):
    before, model = fitted.predict(data[0]), clone(fitted).fit(*data)
    with fuzz.case(ValueError, names="X"):
        model.fit(np.full((8, 3), np.nan), data[1])
    if not (model.predict(data[0]) == before).all():
        fuzz.lost("a refused fit has changed the model")
