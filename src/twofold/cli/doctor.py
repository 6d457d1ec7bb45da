"""``twofold doctor``: versions and devices of this installation, and a short self-test, in which
every check has a known answer."""

import importlib.metadata
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from twofold.cli.run import Run
from twofold.cli.terminal import UNSOUND, to_table

if TYPE_CHECKING:
    import jax

    from twofold import BNNLVRegressor

# A requirement of the package's metadata that belongs to an extra.
OF_EXTRA = re.compile(r"([\w.-]+).*;.*extra == ['\"]([\w-]+)['\"]")
# Of an extra with more packages no versions are shown.
FEW = 3
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
    """Each check by its description, with its fault, or None."""
    faults: dict[str, str | None] = {}
    for check in CHECKS:
        faults[str(check.__doc__)] = None
        try:
            check()
        except Exception as error:
            faults[str(check.__doc__)] = f"{type(error).__name__}: {error}"
    return faults


def describe_installation(cache_folder: Path) -> dict[str, Any]:
    """Versions, extras, devices, memory, precision and the compile cache."""
    import jax
    import jax.numpy as jnp

    from twofold.core.memory import physical
    from twofold.core.persistence import versions

    devices = jax.devices()
    kinds = ", ".join(sorted({f"{one.platform}: {one.device_kind}" for one in devices}))
    limit = (devices[0].memory_stats() or {}).get("bytes_limit")
    precision = getattr(jax.config, "jax_default_matmul_precision", None)
    files = [file for file in cache_folder.glob("**/*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    there = next(one for one in (cache_folder, *cache_folder.parents) if one.exists())
    facts = (
        versions()
        | describe_extras()
        | {
            "devices": f"{len(devices)} × {kinds}",
            "cores": os.cpu_count(),
            "memory": f"{physical() / GIB:.1f} GiB",
            "device memory for JAX": f"{limit / GIB:.1f} GiB" if limit else "",
            "precision": f"{jnp.zeros(0).dtype} (float64 with dtype='float64')",
            "precision of products": precision or "the device's default",
            "compile cache": f"{cache_folder} ({len(files)} files, {size / 2**20:.0f} MiB)",
            "disk free there": f"{shutil.disk_usage(there).free / GIB:.1f} GiB",
        }
    )
    return {name: fact for name, fact in facts.items() if fact != ""}


def describe_extras() -> dict[str, str]:
    """For each extra of the package its versions, or the command that installs what is missing."""
    packages: dict[str, list[str]] = {}
    for requirement in importlib.metadata.requires("twofold") or []:
        if found := OF_EXTRA.match(requirement):
            packages.setdefault(found[2], []).append(found[1])
    facts = {}
    for extra, names in packages.items():
        installed = {name: _version(name) for name in names}
        missing = [name for name, version in installed.items() if version is None]
        shown = ", ".join(f"{name} {version}" for name, version in installed.items())
        facts[f"extra {extra}"] = (
            f"{', '.join(missing)} not installed: pip install 'twofold[{extra}]'"
            if missing
            else shown
            if len(names) <= FEW
            else f"{len(names)} packages installed"
        )
    return facts


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


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
    mean = model.predict(np.array([[-0.5], [0.5]]))
    _expect(np.abs(mean - [-1.0, 1.0]).max() < 0.3, f"predicted {mean} instead of about ±1")


def check_split() -> None:
    """total = epistemic + aleatoric, by variance and by entropy"""
    model, x = small_model()
    for by in ("variance", "entropy"):
        split = model.decompose(x[:20], by=by)
        apart = np.abs(split.total - split.epistemic - split.aleatoric).max()
        _expect(apart < 1e-4 * max(1.0, np.abs(split.total).max()), f"{by}: apart by {apart:g}")


def check_storage() -> None:
    """a model predicts the same after saving and loading"""
    from twofold import load

    model, x = small_model()
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.twofold")
        same = load(Path(folder) / "model.twofold").predict(x) == model.predict(x)
    _expect(bool(same.all()), "the predictions differ")


def check_gradients() -> None:
    """gradients of the risk-sensitive cost agree with finite differences"""
    import jax
    import jax.numpy as jnp

    from twofold.plant.cost import criterion

    costs = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4, 5)), jnp.float32)

    def cost(factor: "jax.Array") -> "jax.Array":
        return criterion(factor * costs, jnp.float32(2.0), jnp.float32(0.5))

    step = 1e-2
    slope = (cost(jnp.float32(1 + step)) - cost(jnp.float32(1 - step))) / (2 * step)
    apart = abs(float(jax.grad(cost)(jnp.float32(1.0)) - slope))
    _expect(apart < 1e-2 * max(1.0, abs(float(slope))), f"apart by {apart:g}")


def check_double_precision() -> None:
    """float64 is available"""
    import jax

    with jax.enable_x64(True):
        _expect(float(jax.numpy.float64(1.0) + 1e-12) > 1.0, "1 + 1e-12 is 1")


def _expect(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)


CHECKS: tuple[Callable[[], None], ...] = (
    check_prediction, check_split, check_storage, check_gradients, check_double_precision
)  # fmt: skip
