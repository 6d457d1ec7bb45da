"""A misspelt name is answered with the one that was meant, and a strange one with nothing."""

import pytest

from twofold.core.naming import nearest


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("levle", "; did you mean 'level'?"),
        ("LEVEL", "; did you mean 'level'?"),
        ("pump", ""),
        (7, ""),
    ],
)
def test_the_nearest_name_is_asked_for(name, question):
    assert nearest(name, iter(["level", "heat"])) == question
