import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.core import cores


@pytest.fixture
def three_cores(monkeypatch):
    monkeypatch.setattr(cores, "available", lambda: 3)


@pytest.mark.parametrize("entries", [1, 2, 3, 4, 5, 7, 8, 15])
def test_shares_are_equally_long_and_hold_every_entry_once(three_cores, entries):
    shares = cores.shares_for(entries)
    assert len(shares) <= 3
    assert len({share.rows.stop - share.rows.start for share in shares}) == 1
    fresh = [np.arange(entries)[share.rows][share.repeated :] for share in shares]
    np.testing.assert_array_equal(np.concatenate(fresh), np.arange(entries))


def test_what_is_split_is_joined_again(three_cores):
    shares = cores.shares_for(7)
    tree = {"a": jnp.arange(7), "b": jnp.arange(14.0).reshape(7, 2)}
    joined = cores.join(cores.split(tree, shares), shares)
    jax.tree.map(np.testing.assert_array_equal, joined, tree)
    trace = jnp.arange(21).reshape(3, 7)
    parts = [trace[:, share.rows] for share in shares]
    np.testing.assert_array_equal(cores.join(parts, shares, axis=1), trace)


def test_shares_run_at_the_same_time(three_cores):
    together = threading.Barrier(3, timeout=10.0)

    def wait(number):
        together.wait()
        return number

    assert cores.run_each(wait, [(0,), (1,), (2,)]) == [0, 1, 2]


def test_a_failing_share_fails_the_run(three_cores):
    def fail(number):
        if number:
            raise ArithmeticError(f"share {number}")
        return number

    with pytest.raises(ArithmeticError, match="share 1"):
        cores.run_each(fail, [(0,), (1,)])
