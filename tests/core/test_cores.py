import threading
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.core import cores


@pytest.fixture
def three_cores(monkeypatch):
    monkeypatch.setattr(cores, "count_cores", lambda: 3)


@pytest.mark.parametrize("entries", [1, 2, 3, 4, 5, 7, 8, 15])
def test_portions_are_equally_long_and_hold_every_entry_once(three_cores, entries):
    portions = cores.portions_for(entries)
    assert len(portions) <= 3
    assert len({portion.rows.stop - portion.rows.start for portion in portions}) == 1
    fresh = [np.arange(entries)[portion.rows][portion.repeated :] for portion in portions]
    np.testing.assert_array_equal(np.concatenate(fresh), np.arange(entries))


def test_what_is_split_is_joined_again(three_cores):
    portions = cores.portions_for(7)
    tree = {"a": jnp.arange(7), "b": jnp.arange(14.0).reshape(7, 2)}
    joined = cores.join(cores.split(tree, portions), portions)
    jax.tree.map(np.testing.assert_array_equal, joined, tree)
    trace = jnp.arange(21).reshape(3, 7)
    parts = [trace[:, portion.rows] for portion in portions]
    np.testing.assert_array_equal(cores.join(parts, portions, axis=1), trace)


def test_a_device_of_another_kind_and_several_devices_have_all_entries(three_cores, monkeypatch):
    monkeypatch.setattr(jax, "devices", lambda: [SimpleNamespace(platform="gpu")])
    assert len(cores.portions_for(8)) == 1
    monkeypatch.setattr(jax, "devices", lambda: [SimpleNamespace(platform="cpu")] * 2)
    assert len(cores.portions_for(8)) == 1


def test_a_few_entries_leave_many_cores_to_divided_operations(monkeypatch):
    monkeypatch.setattr(cores, "count_cores", lambda: 64)
    assert len(cores.portions_for(8)) == 1
    assert len(cores.portions_for(16)) == 16


def test_portions_run_at_the_same_time():
    together = threading.Barrier(3, timeout=10.0)

    def wait(number):
        together.wait()
        return number

    assert cores.run_each(wait, [(0,), (1,), (2,)]) == [0, 1, 2]


def test_a_failing_portion_fails_the_run():
    def fail(number):
        if number:
            raise ArithmeticError(f"portion {number}")
        return number

    with pytest.raises(ArithmeticError, match="portion 1"):
        cores.run_each(fail, [(0,), (1,)])
