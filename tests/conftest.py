"""Fixtures with more than one user."""

import os
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.inference import alpha, loop

# Almost all of the tests' time is compilation; the optimiser's share of it gains nothing at their
# sizes, and XLA's newer emitters of fused loops take twice as long as its older ones. JAX reads
# this when its first program is compiled, also in processes that tests start.
FAST_COMPILATION = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)
os.environ.setdefault("XLA_FLAGS", FAST_COMPILATION)

# Files that take longest, so that none of them is begun when the other processes have ended
# (`make test` has `--no-loadscope-reorder`: files with many tests would go first).
LONGEST_FIRST = [
    "estimators/test_regressor.py",
    "test_examples.py",
    "inference/test_hmc.py",
    "inference/test_ensemble.py",
    "estimators/test_chains.py",
    "paper/test_toys.py",
    "cli/test_policy.py",
    "campaign/test_faults.py",
    "core/sharding/test_processes.py",
    "core/jobs/test_ray.py",
]


def pytest_collection_modifyitems(items):
    place = {Path(__file__).parent / name: at for at, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


# Linux gives a process 65,530 memory maps. Every compiled program takes some, and a process that
# has none left is aborted.
MOST_MAPS = 25_000
MAPS = Path("/proc/self/maps")


@pytest.fixture(autouse=True, scope="module")
def room_for_programs():
    """Forget compiled programs, between modules, before there are too many of them."""
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()


@pytest.fixture(autouse=True, scope="session")
def records_elsewhere(tmp_path_factory):
    """Records of commands that are tried here must not lie among a person's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def x64():
    """Everything inside the test in float64, so that an identity shows to its last digits."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def normal(rng):
    """``normal(*shape)``: standard normal numbers as a JAX array in the test's precision."""
    return lambda *shape: jnp.asarray(rng.normal(size=shape))


class Members(NamedTuple):
    """What ``base`` wants to know of members fitted together with the α-energy."""

    algorithm: loop.Algorithm
    keys: jax.Array
    problems: alpha.Problem
    schedule: alpha.Schedule

    def start(self):
        return loop.init(self.algorithm, self.keys, self.problems)

    def fit(self):
        """The last states, and each epoch's energies and skipped updates, ``[E, S]``."""
        epochs = int(self.schedule.epochs)
        chunks = list(loop.run(*self[:2], self.start(), *self[2:], 0, epochs))
        energies = np.concatenate([chunk.energies for chunk in chunks])
        return chunks[-1].states, energies, np.concatenate([chunk.skipped for chunk in chunks])


@pytest.fixture(scope="session")
def members():
    """``members(config, problems, keys, epochs, learning_rate, decay)``, a list of problems."""

    def build(config, problems, keys, epochs, learning_rate=1e-2, decay=0.0):
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *problems)
        dtype = stacked.data.x.dtype
        batches = -(-int(stacked.data.size.max()) // config.batch_size)
        rates = jnp.asarray(learning_rate, dtype), jnp.asarray(decay, dtype)
        schedule = alpha.Schedule(jnp.int32(epochs), jnp.int32(batches), *rates)
        return Members(alpha.build(config), keys, stacked, schedule)

    return build
