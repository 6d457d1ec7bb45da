"""``twofold doctor``: what this installation is made of, and whether it works."""

import os
import shutil
from pathlib import Path
from typing import Any

import typer

from twofold.cli.errors import UNSOUND
from twofold.cli.output import AsJson, show_json, show_table

EXTRAS = {
    "gp": "tinygp",
    "rl": "gymnasium",
    "parquet": "pyarrow",
    "onnx": "onnx",
    "wind": "rosco",
}
GIB = 2**30


def doctor(as_json: AsJson = False) -> None:
    """Show versions, devices, memory, precision and the compile cache, and run a short self-test.

    Ends with exit code 3 if the self-test fails.

    Example: twofold doctor
    """
    from twofold.core.compilation import enable_compile_cache

    cache = enable_compile_cache()
    found = {**_software(), **_hardware(), **_cache(cache)}
    checks = self_test()
    if as_json:
        show_json({"installation": found, "checks": checks})
    else:
        show_table(["", ""], [[name, str(value)] for name, value in found.items()])
        show_table(
            ["self-test", "outcome"],
            [[name, "fine" if fault is None else fault] for name, fault in checks.items()],
        )
    if any(checks.values()):
        raise typer.Exit(UNSOUND)


def self_test() -> dict[str, str | None]:
    """Each check by its name, with what is wrong, or None."""
    from twofold.cli import checks

    found: dict[str, str | None] = {}
    for check in checks.CHECKS:
        try:
            check()
            found[str(check.__doc__)] = None
        except Exception as error:
            found[str(check.__doc__)] = f"{type(error).__name__}: {error}"
    return found


def _software() -> dict[str, Any]:
    from importlib.util import find_spec

    from twofold.core.provenance import versions

    extras = [name for name, module in EXTRAS.items() if find_spec(module)]
    absent = [name for name in EXTRAS if name not in extras]
    found: dict[str, Any] = dict(versions())
    found["extras"] = ", ".join(extras) or "none"
    if absent:
        found["extras not installed"] = ", ".join(absent)
    return found


def _hardware() -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    devices = jax.devices()
    kinds = ", ".join(sorted({f"{one.platform}: {one.device_kind}" for one in devices}))
    stats = devices[0].memory_stats() or {}
    found: dict[str, Any] = {"devices": f"{len(devices)} × {kinds}", "cores": os.cpu_count()}
    found["memory"] = f"{_memory() / GIB:.1f} GiB"
    if "bytes_limit" in stats:
        found["device memory for JAX"] = f"{stats['bytes_limit'] / GIB:.1f} GiB"
    found["precision"] = f"{jnp.zeros(0).dtype} (float64 with dtype='float64')"
    precision = getattr(jax.config, "jax_default_matmul_precision", None)
    found["precision of products"] = precision or "the device's default"
    return found


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _cache(folder: Path) -> dict[str, Any]:
    files = list(folder.glob("**/*")) if folder.is_dir() else []
    size = sum(file.stat().st_size for file in files if file.is_file())
    free = shutil.disk_usage(next(p for p in (folder, *folder.parents) if p.exists())).free
    return {
        "compile cache": f"{folder} ({len(files)} files, {size / 2**20:.0f} MiB)",
        "disk free there": f"{free / GIB:.1f} GiB",
    }
