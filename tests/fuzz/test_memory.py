"""What is refused for its memory could not have been had, and is refused before it is tried."""

import numpy as np
import pytest

from twofold import NUTS, Alpha, BNNLVRegressor, Ensemble, Langevin
from twofold.core import memory
from twofold.estimators import fitting


class Enough(Exception):
    """All has been asked for that is to be known; nothing is run."""


@pytest.fixture
def asked(monkeypatch):
    """The bytes that are asked for, one after another."""
    found = []
    monkeypatch.setattr(memory, "refuse_beyond", lambda needed, *_, **__: found.append(needed))
    return found


FITS = [
    ({"inference": Ensemble(members=8, batch_size=500)}, 500),
    ({"inference": Ensemble(members=4), "hidden_layer_sizes": (200, 200)}, 200),
    ({"inference": Ensemble(members=2, nodes=100)}, 100_000),
    ({"inference": Alpha(draws=200, batch_size=400)}, 400),
    ({"inference": Langevin(chains=2, samples=50)}, 200),
    ({"inference": NUTS(chains=2, samples=500)}, 200),
]


@pytest.mark.examples(None, 1)
@pytest.mark.parametrize(("settings", "rows"), FITS)
def test_what_a_fit_needs_at_least_is_no_more_than_its_program_takes(
    fuzz, settings, rows, asked, monkeypatch
):
    def stop(*_):
        raise Enough

    monkeypatch.setattr("twofold.estimators.training.ProgressBar", stop)
    x = np.random.default_rng(0).normal(size=(rows, 2))
    model = BNNLVRegressor(random_state=0, verbose=False, **settings)
    with fuzz.case(), pytest.raises(Enough):
        model.fit(x, x[:, 0])
    least, *programs = asked
    assert 0 < least <= max(programs)


LARGE = [
    {"inference": Alpha(batch_size=2**30, draws=2**30)},
    {"hidden_layer_sizes": (2**20, 2**20)},
    {"inference": Ensemble(members=2**30)},
    {"inference": Ensemble(nodes=2**31 - 1)},
    {"inference": Ensemble(updates=2**31 - 1)},
]


# What a laptop has: a request must be refused there whatever the computer of the tests has.
LAPTOP = 2**34


@pytest.mark.parametrize("settings", LARGE)
def test_fits_beyond_all_memory_are_refused_beforehand(fuzz, tiny, data, settings, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: LAPTOP)
    with fuzz.case(memory.TooLargeError, names="GiB"):
        BNNLVRegressor(**tiny | settings).fit(*data)
        raise RuntimeError("it was not refused")


def test_a_program_of_training_that_needs_too_much_is_refused_before_it_runs(
    fuzz, tiny, data, monkeypatch
):
    monkeypatch.setattr(fitting, "check_memory", lambda *_: None)
    monkeypatch.setattr(memory, "available", lambda: 1_000)
    with fuzz.case(memory.TooLargeError, names="GiB"):
        BNNLVRegressor(**tiny).fit(*data)
        raise RuntimeError("it was not refused")


X = np.zeros((1_000, 2))
PREDICTIONS = {
    "sample": lambda model: model.sample(X, 50),
    "predict": lambda model: model.predict(X),
    "decompose": lambda model: model.decompose(X),
    "moments": lambda model: model.conditional_moments(X),
    "log_likelihood": lambda model: model.log_likelihood(X, X[:, 0]),
}


@pytest.mark.parametrize("call", PREDICTIONS)
def test_predictions_beyond_all_memory_are_refused_beforehand(fuzz, fitted, call, monkeypatch):
    """For want of room for the draws, for the program of a chunk, or for all results."""
    with monkeypatch.context() as patch:
        found = []
        patch.setattr(memory, "refuse_beyond", lambda needed, *_, **__: found.append(needed))
        PREDICTIONS[call](fitted)
    draws, program, results = found
    assert draws < program
    limits = ("available", draws - 1), ("available", program - 1), ("physical", results - 1)
    for name, limit in limits:
        with monkeypatch.context() as patch:
            patch.setattr(memory, name, lambda limit=limit: limit)
            with fuzz.case(memory.TooLargeError, names="GiB"):
                PREDICTIONS[call](fitted)
                raise RuntimeError("it was not refused")


def test_more_draws_than_any_computer_holds(fuzz, fitted):
    with fuzz.case(memory.TooLargeError, names="GiB"):
        fitted.sample(X, 2**30)
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
