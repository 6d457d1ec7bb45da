"""Fixtures of pages."""

import numpy as np
import pytest

from twofold import BNNLVRegressor


@pytest.fixture
def count_calls(monkeypatch):
    """``count_calls("decompose", ...)``: a list that gets a name and the rows of every call."""

    def watch(*names):
        calls = []

        def record(name, method):
            def call(self, x, *arguments, **settings):
                calls.append((name, np.asarray(x, float).tobytes()))
                return method(self, x, *arguments, **settings)

            return call

        for name in names:
            monkeypatch.setattr(BNNLVRegressor, name, record(name, getattr(BNNLVRegressor, name)))
        return calls

    return watch
