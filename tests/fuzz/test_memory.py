"""Memory is estimated well enough that what is refused could not have been had."""

import jax
import numpy as np
import pytest

from twofold import BNNLVRegressor
from twofold.data import pad
from twofold.estimators import memory
from twofold.estimators.methods import METHODS
from twofold.inference import base
from twofold.model.bnn import BNNLV

# The estimate is made from sizes alone; what the compiler fuses, and what it keeps twice, differs
# between methods, so that a factor of three either way is what can be promised.
FACTOR = 3.0

FITS = [
    ({"inference_options": {"members": 8}, "batch_size": 500}, 500),
    ({"inference_options": {"members": 4}, "hidden_layer_sizes": (200, 200)}, 200),
    ({"inference_options": {"members": 2}}, 100_000),
    ({"inference": "alpha", "draws": 200, "batch_size": 400}, 400),
    ({"inference": "alpha", "draws": 5}, 100_000),
]


def compiled_bytes(model, shape, rows):
    """What the compiled loop of a fit needs: its arguments, its results and its own arrays."""
    method = METHODS[model.inference]([model], shape, np.array([rows]))
    room = memory.padded_size(rows)
    padded = pad(np.zeros((rows, shape.inputs)), np.zeros((rows, shape.outputs)), room, model.dtype)
    data = jax.tree.map(lambda leaf: jax.numpy.stack([leaf] * method.members), padded)
    keys = jax.random.split(jax.random.key(0), method.members)
    problems = method.problems(data)
    states = base.init(method.algorithm, keys, problems)
    program = base.advance.lower(
        method.algorithm, keys, states, problems, method.schedule, np.int32(0), np.int32(1)
    )
    found = program.compile().memory_analysis()
    return (
        found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes
        - found.alias_size_in_bytes
    )  # fmt: skip


@pytest.mark.examples(None, 1)
@pytest.mark.parametrize(("settings", "rows"), FITS)
def test_the_memory_of_a_fit(fuzz, settings, rows):
    model = BNNLVRegressor(**{"epochs": 1, "random_state": 0, "verbose": False} | settings)
    shape = BNNLV(2, 1, tuple(model.hidden_layer_sizes), 1, 1.0, 2.0)
    with fuzz.case():
        estimate, measured = (
            memory.fit_bytes(model, shape, rows),
            compiled_bytes(model, shape, rows),
        )
    assert measured / FACTOR < estimate < measured * FACTOR, f"{estimate:.3g} for {measured:.3g}"


LARGE = [
    {"batch_size": 2**30, "draws": 2**30, "inference": "alpha", "inference_options": None},
    {"hidden_layer_sizes": (2**20, 2**20)},
    {"inference_options": {"members": 2**30}},
    {"inference_options": {"nodes": 2**31 - 1}},
    {"epochs": 2**31 - 1},
]


# What a laptop has: a request must be refused there whatever the computer of the tests has.
LAPTOP = 2**34


@pytest.mark.parametrize("settings", LARGE)
def test_fits_beyond_all_memory_are_refused_beforehand(fuzz, tiny, data, settings, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: LAPTOP)
    with fuzz.case(memory.TooLargeError, names="GiB"):
        BNNLVRegressor(**tiny | settings).fit(*data)
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
