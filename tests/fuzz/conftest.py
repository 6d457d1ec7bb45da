"""Every property of this folder runs at two sizes, and every case is counted.

``@pytest.mark.examples(few, many)`` says how many cases a property is tried with in the quick tests
and in the slow ones. With ``$TWOFOLD_FAULTS`` the counts of each test are added to that file, one
JSON object a line (``benchmarks/faults.py`` reads them); ``$TWOFOLD_FUZZ_SEED`` draws other cases.
"""

import contextlib
import hashlib
import io
import json
import os
import signal
import sys
import time
import warnings
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from twofold import Ensemble
from twofold.cli import app as cli

SEED = int(os.environ.get("TWOFOLD_FUZZ_SEED", "0"))
# A case takes milliseconds; one that compiles, a few seconds; one that waits for a lock, a minute.
PATIENCE = 120
LONGEST_MESSAGE = 2_000


class HangError(BaseException):
    """A case took longer than anything here should."""


class Fuzz:
    """Tries cases and counts what came of them."""

    def __init__(self, examples: int):
        self.examples = examples
        self.counts = Counter(dict.fromkeys(("cases", "refused", "crashes", "hangs", "losses"), 0))

    def given(self, *strategies, examples=None):
        """Try a function with examples of the strategies, at once."""
        few = settings(
            max_examples=examples or self.examples,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        return lambda check: seed(SEED)(few(given(*strategies)(check)))()

    @contextmanager
    def case(self, *allowed, names=""):
        """One case: it may succeed, or be refused by one of ``allowed``, in a sentence that has one
        of the words of ``names``; anything else is a crash."""
        self.counts["cases"] += 1
        try:
            with _limit(PATIENCE), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        except HangError:
            self.counts["hangs"] += 1
            raise
        except allowed as error:
            self.counts["refused"] += 1
            _check_sentence(error, names)
        except AssertionError:
            raise
        except Exception:
            self.counts["crashes"] += 1
            raise

    @contextmanager
    def unchanged(self, *paths):
        """What is stored in files and folders must be as it was."""
        before = [_digest(Path(path)) for path in paths]
        yield
        if before != [_digest(Path(path)) for path in paths]:
            self.lost(f"one of {paths} has changed")

    def lost(self, what):
        """Count and report stored data that are not as they were."""
        self.counts["losses"] += 1
        raise AssertionError(what)


def _check_sentence(error, names):
    text = str(error)
    assert text and len(text) <= LONGEST_MESSAGE, f"{type(error).__name__}: {len(text)} characters"
    words = names.split()
    assert not words or any(word.lower() in text.lower() for word in words), (
        f"{type(error).__name__} names none of {words}: {text}"
    )


@contextmanager
def _limit(seconds):
    """Stop the block after so long; what no signal reaches the benchmark's own limit does."""

    def stop(*_):
        raise HangError(f"a case took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _digest(path):
    if path.is_dir():
        return {str(one): _digest(one) for one in sorted(path.rglob("*")) if one.is_file()}
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def pytest_configure(config):
    config.addinivalue_line("markers", "examples(few, many): cases of a property, quick and slow")


def pytest_generate_tests(metafunc):
    if "fuzz" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("examples")
    few, many = marker.args if marker else (1, None)
    sizes = [] if few is None else [pytest.param(few, id="few")]
    sizes += [] if many is None else [pytest.param(many, id="many", marks=pytest.mark.slow)]
    metafunc.parametrize("fuzz", sizes, indirect=True)


@pytest.fixture
def fuzz(request):
    """The counting fuzzer of a test."""
    made, begun = Fuzz(request.param), time.perf_counter()
    yield made
    assert made.counts["cases"], "no case was tried"
    place = os.environ.get("TWOFOLD_FAULTS")
    if place:
        seconds = time.perf_counter() - begun
        line = {"test": request.node.name, "seconds": round(seconds, 1)}
        with Path(place).open("a") as file:
            file.write(json.dumps(line | dict(made.counts)) + "\n")


HOW = "flip flip flip put cut insert repeat swap turn extend empty zero blank".split()


@st.composite
def _edits(draw):
    how = draw(st.sampled_from(HOW))
    places = draw(st.lists(st.floats(0, 1, exclude_max=True), min_size=2, max_size=6))
    some = draw(st.binary(min_size=1, max_size=8))

    def edit(content: bytes) -> bytes:
        at = sorted(int(place * len(content)) for place in places)
        first, last, bytes_ = at[0], at[-1], bytearray(content)
        if how == "flip":
            for place, value in zip(at, some, strict=False):
                bytes_[place] ^= value or 1
            return bytes(bytes_)
        if how == "swap":
            one, other = content[first : first + 32], content[last : last + 32]
            bytes_[first : first + 32], bytes_[last : last + 32] = other, one
            return bytes(bytes_)
        return {
            "put": content[:first] + some + content[first + len(some) :],
            "cut": content[:first],
            "insert": content[:first] + some + content[first:],
            "repeat": content[:last] + content[first:],
            "turn": content[last:] + content[first:last] + content[:first],
            "extend": content + some,
            "empty": b"",
            "zero": content[:first] + bytes(last - first) + content[last:],
            "blank": content[:first] + bytes(64) + content[first + 64 :],
        }[how]

    return edit


@pytest.fixture(scope="session")
def edits():
    """Functions that change some bytes: flip, put, cut, insert, repeat, swap, extend or zero them.

    Short stretches are zeroed or trade places, and long ones.
    """
    return _edits()


def _run(words):
    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["twofold", *words]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
        code = 0
    except SystemExit as stopped:
        code = stopped.code or 0
    finally:
        sys.argv = before
    return code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="session")
def run_command():
    """A function of words: exit code, stdout and stderr of ``twofold`` with them."""
    return _run


TINY = {
    "hidden_layer_sizes": (3,),
    "inference": Ensemble(members=2, nodes=2, updates=20),
    "latent_dim": 1,
    "n_latent_draws": 3,
    "n_weight_draws": 2,
    "random_state": 0,
    "verbose": False,
}


@pytest.fixture(scope="session")
def tiny():
    """Settings of a model that is fitted in milliseconds."""
    return dict(TINY)


@pytest.fixture(scope="session")
def data():
    """Eight rows of two inputs and an output."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(8, 2)), rng.normal(size=8)


@pytest.fixture(scope="session")
def fitted(tiny, data):
    """A fitted model."""
    from twofold import BNNLVRegressor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return BNNLVRegressor(**tiny).fit(*data)
