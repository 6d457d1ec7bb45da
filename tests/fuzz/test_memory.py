"""Memory is estimated well enough that what is refused could not have been had."""

import inspect
import warnings

import jax
import numpy as np
import pytest

from twofold import Alpha, BNNLVRegressor, Ensemble
from twofold.core.numerics import pad
from twofold.estimators import memory, regressor
from twofold.inference import loop
from twofold.model.spec import BNNLV
from twofold.uncertainty.predictive import in_chunks

# The estimate is made from sizes alone; what the compiler fuses, and what it keeps twice, differs
# between methods, so that a factor of three either way is what can be promised.
FACTOR = 3.0

FITS = [
    ({"inference": Ensemble(members=8, batch_size=500)}, 500),
    ({"inference": Ensemble(members=4), "hidden_layer_sizes": (200, 200)}, 200),
    ({"inference": Ensemble(members=2)}, 100_000),
    ({"inference": Alpha(draws=200, batch_size=400)}, 400),
    ({"inference": Alpha(draws=5)}, 100_000),
]


def compiled_bytes(model, shape, rows):
    """What the compiled loop of a fit needs: its arguments, its results and its own arrays."""
    method = model.inference
    setup = method.set_up(shape, np.array([rows]), model.dtype)
    room = memory.padded_size(rows)
    padded = pad(np.zeros((rows, shape.inputs)), np.zeros((rows, shape.outputs)), room, model.dtype)
    data = jax.tree.map(lambda leaf: jax.numpy.stack([leaf] * method.runs), padded)
    keys = jax.random.split(jax.random.key(0), method.runs)
    problems = method.problems([method] * method.runs, data)
    states = loop.init(setup.algorithm, keys, problems)
    program = loop.advance.lower(
        setup.algorithm, keys, states, problems, setup.schedule, np.int32(0), np.int32(1)
    )
    return memory.program_bytes(program.compile())


@pytest.mark.examples(None, 1)
@pytest.mark.parametrize(("settings", "rows"), FITS)
def test_the_memory_of_a_fit(fuzz, settings, rows):
    model = BNNLVRegressor(**{"random_state": 0, "verbose": False} | settings)
    shape = BNNLV(2, 1, tuple(model.hidden_layer_sizes), 1, 1.0, 2.0)
    with fuzz.case():
        estimate, measured = (
            memory.fit_bytes(model, shape, rows),
            compiled_bytes(model, shape, rows),
        )
    assert measured / FACTOR < estimate < measured * FACTOR, f"{estimate:.3g} for {measured:.3g}"


class Measured(Exception):
    """The bytes of a prediction that was compiled, and is not run."""


def measured_chunks(function, columns, *rest):
    """``in_chunks`` that compiles its program for the first chunk, and goes no further."""
    raw = function.func.__wrapped__
    static = {"model", "estimator", "joint", "by"} & set(inspect.signature(raw).parameters)

    def compiled(*arrays):
        lowered = jax.jit(raw, static_argnames=sorted(static)).lower(*function.args, *arrays)
        numbers = sum(leaf.size for leaf in jax.tree.leaves(lowered.out_info)) / len(arrays[0])
        # On the host what is given, every chunk's results in double precision, and all of them
        # joined.
        held = sum(column.nbytes for column in columns)
        held += 2 * memory.DOUBLE * len(columns[0]) * numbers
        raise Measured(memory.program_bytes(lowered.compile()) + held)

    return in_chunks(compiled, columns, *rest)


MODELS = {
    "usual": ({}, 1),
    "three outputs": ({}, 3),
    "wide": ({"hidden_layer_sizes": (200, 200), "inference": Ensemble(members=30)}, 1),
    "many latent draws": ({"inference": "alpha", "n_latent_draws": 1000}, 1),
    "many weight draws": ({"inference": "alpha", "n_weight_draws": 1000, "n_latent_draws": 10}, 1),
    "double": ({"dtype": "float64"}, 1),
    "no latent input": ({"latent_dim": 0}, 1),
}
PREDICTIONS = {
    "predict": lambda model, X, y: model.predict(X),
    "variance": lambda model, X, y: model.decompose(X, by="variance"),
    "entropy": lambda model, X, y: model.decompose(X),
    "log_likelihood": lambda model, X, y: model.log_likelihood(X, y),
    "moments": lambda model, X, y: model.conditional_moments(X),
    "sample": lambda model, X, y: model.sample(X, 50),
}


def check_predictions(fuzz, patch, kind, calls, rows):
    """The estimate of each is no less than the very program takes, and within the factor that
    refusals count on: what the compiler keeps in one place after another it cannot know."""
    settings, outputs = MODELS[kind]
    model = BNNLVRegressor(random_state=0, verbose=False, **settings)
    model.set_params(inference__epochs=1)
    X, y = np.random.default_rng(0).normal(size=(2, max(rows, 64), 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[:64], y[:64, :outputs])
    estimates = []
    patch.setattr(memory, "refuse_beyond", lambda needed, *_: estimates.append(needed))
    for module in (regressor, decomposition):
        patch.setattr(module, "in_chunks", measured_chunks)
    for name in calls:
        with fuzz.case(), pytest.raises(Measured) as caught:
            PREDICTIONS[name](model, X[:rows], y[:rows, :outputs])
        measured, estimate = caught.value.args[0], estimates.pop()
        assert 1 <= estimate / measured < memory.SURELY, f"{name}: {estimate:.3g}, {measured:.3g}"


@pytest.mark.parametrize("rows", [1, 3000])
def test_the_memory_of_a_usual_prediction(fuzz, monkeypatch, rows):
    check_predictions(fuzz, monkeypatch, "usual", ["predict", "entropy", "sample"], rows)


@pytest.mark.examples(None, 1)
@pytest.mark.parametrize("rows", [1, 300, 20_000])
@pytest.mark.parametrize("kind", MODELS)
def test_the_memory_of_a_prediction(fuzz, monkeypatch, kind, rows):
    check_predictions(fuzz, monkeypatch, kind, PREDICTIONS, rows)


LARGE = [
    {"inference": Alpha(batch_size=2**30, draws=2**30)},
    {"hidden_layer_sizes": (2**20, 2**20)},
    {"inference": Ensemble(members=2**30)},
    {"inference": Ensemble(nodes=2**31 - 1)},
    {"inference": Ensemble(epochs=2**31 - 1)},
]


# What a laptop has: a request must be refused there whatever the computer of the tests has.
LAPTOP = 2**34


@pytest.mark.parametrize("settings", LARGE)
def test_fits_beyond_all_memory_are_refused_beforehand(fuzz, tiny, data, settings, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: LAPTOP)
    with fuzz.case(memory.TooLargeError, names="GiB"):
        BNNLVRegressor(**tiny | settings).fit(*data)
        raise RuntimeError("it was not refused")


def test_a_compiled_program_that_needs_too_much_is_refused_before_it_runs(
    fuzz, tiny, data, monkeypatch
):
    monkeypatch.setattr(memory, "check_fit", lambda *_: None)
    monkeypatch.setattr(memory, "available", lambda: 1_000)
    with fuzz.case(memory.TooLargeError, names="GiB"):
        BNNLVRegressor(**tiny).fit(*data)
        raise RuntimeError("it was not refused")


@pytest.mark.parametrize("call", ["sample", "predict", "decompose", "moments"])
def test_predictions_beyond_all_memory_are_refused_beforehand(
    fuzz, fitted, data, call, monkeypatch
):
    X = np.zeros((1_000, 2))
    calls = {
        "sample": lambda: fitted.sample(X, 2**30),
        "predict": lambda: fitted.predict(X),
        "decompose": lambda: fitted.decompose(X),
        "moments": lambda: fitted.conditional_moments(X),
    }
    if call != "sample":
        monkeypatch.setattr(memory, "available", lambda: 10_000)
    with fuzz.case(memory.TooLargeError, names="GiB"):
        calls[call]()
        raise RuntimeError("it was not refused")


def test_what_is_available_is_what_the_computer_has(fuzz, tmp_path, monkeypatch):
    with fuzz.case():
        whole = memory.available()
        assert 2**27 < whole < 2**50
        limit = tmp_path / "memory.max"
        monkeypatch.setattr(memory, "CONTAINER_LIMIT", limit)
        limit.write_text("12345678\n")
        assert memory.available() == 12345678
        limit.write_text("max\n")
        assert memory.available() >= whole
