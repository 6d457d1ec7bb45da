"""``twofold doctor``: versions and devices of this installation, and a short self-test."""

import importlib.metadata
import os
import re
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from numpy.testing import assert_allclose, assert_array_equal

from twofold.cli.run import Run
from twofold.cli.terminal import UNSOUND, to_table
from twofold.core.persistence import version_of, versions

if TYPE_CHECKING:
    from twofold import BNNLVRegressor

# A requirement of the package's metadata that belongs to an extra.
OF_EXTRA = re.compile(r"([\w.-]+).*;.*extra == ['\"]([\w-]+)['\"]")
GIB = 2**30
ROWS = 120


def doctor(run: Run) -> None:
    """Show versions, devices, memory, precision and the compile cache; run a short self-test.

    The exit code is 3 if the self-test fails.

    Example: twofold doctor
    """
    from twofold.core.sharding import enable_compile_cache

    installation = describe_installation(enable_compile_cache())
    checks = run_self_test()
    facts = to_table(["", ""], [[name, str(value)] for name, value in installation.items()])
    outcomes = [[name, "passed" if fault is None else fault] for name, fault in checks.items()]
    content = {"installation": installation, "checks": checks}
    run.show(content, facts, to_table(["self-test", "outcome"], outcomes))
    if any(checks.values()):
        raise typer.Exit(UNSOUND)


def run_self_test() -> dict[str, str | None]:
    """Run all checks; maps the description of each to its error, or None."""
    faults: dict[str, str | None] = dict.fromkeys(str(check.__doc__) for check in CHECKS)
    for check in CHECKS:
        try:
            check()
        except Exception as error:
            fault = f"{type(error).__name__}: {' '.join(str(error).split())}"
            faults[str(check.__doc__)] = fault
    return faults


def describe_installation(cache_folder: Path) -> dict[str, Any]:
    """Versions, extras, devices, memory, precision and the compile cache."""
    import jax

    from twofold.core.memory import physical

    devices = jax.devices()
    kinds = ", ".join(sorted({f"{one.platform}: {one.device_kind}" for one in devices}))
    limit = (devices[0].memory_stats() or {}).get("bytes_limit")
    files = [file for file in cache_folder.glob("**/*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    facts = {
        "devices": f"{len(devices)} × {kinds}",
        "cores": os.cpu_count(),
        "memory": f"{physical() / GIB:.1f} GiB",
        "device memory for JAX": f"{limit / GIB:.1f} GiB" if limit else "all of the above",
        "precision": f"{jax.numpy.zeros(0).dtype} (float64 with dtype='float64')",
        "compile cache": f"{cache_folder} ({len(files)} files, {size / 2**20:.0f} MiB)",
    }
    return versions() | describe_extras() | facts


def describe_extras() -> dict[str, str]:
    """Versions of each extra's packages, or the command that installs them."""
    matches = map(OF_EXTRA.match, importlib.metadata.requires("twofold") or [])
    pairs = [(one[2], one[1]) for one in matches if one]
    facts = {}
    for extra in dict.fromkeys(extra for extra, _ in pairs):
        found = {one: version_of(one, "") for owner, one in pairs if owner == extra}
        missing = ", ".join(name for name, version in found.items() if not version)
        installed = ", ".join(f"{name} {version}" for name, version in found.items())
        remedy = f"{missing} not installed: pip install 'twofold[{extra}]'"
        facts[f"extra {extra}"] = remedy if missing else installed
    return facts


@cache
def small_model() -> "tuple[BNNLVRegressor, np.ndarray]":
    """A model of a line with growing noise."""
    from twofold import BNNLVRegressor, Ensemble

    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (ROWS, 1))
    y = 2.0 * x[:, 0] + (0.2 + 0.2 * x[:, 0]) * rng.normal(size=ROWS)
    method = Ensemble(members=8, updates=600)
    model = BNNLVRegressor((10,), inference=method, random_state=0, verbose=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(x, y), x


def check_prediction() -> None:
    """a model can be fitted and predicts"""
    model, _ = small_model()
    assert_allclose(model.predict(np.array([[-0.5], [0.5]])), [-1.0, 1.0], rtol=0.0, atol=0.3)


def check_split() -> None:
    """total = epistemic + aleatoric, by variance and by entropy"""
    model, x = small_model()
    for by in ("variance", "entropy"):
        split = model.decompose(x[:20], by=by)
        assert_allclose(split.epistemic + split.aleatoric, split.total, rtol=1e-4, atol=1e-4)


def check_storage() -> None:
    """a model predicts the same after saving and loading"""
    from twofold import load

    model, x = small_model()
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.twofold")
        assert_array_equal(load(Path(folder) / "model.twofold").predict(x), model.predict(x))


def check_gradients() -> None:
    """gradients of the risk-sensitive cost agree with finite differences"""
    import jax.numpy as jnp
    from jax.test_util import check_grads

    from twofold.plant.cost import criterion

    costs = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4, 5)), jnp.float32)
    weights = jnp.float32(2.0), jnp.float32(0.5)
    check_grads(lambda factor: criterion(factor * costs, *weights), (1.0,), order=1, modes=["rev"])


CHECKS: list[Callable[[], None]] = [check_prediction, check_split, check_storage, check_gradients]
