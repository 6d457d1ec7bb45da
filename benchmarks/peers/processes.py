"""Fits of other libraries, each in a process of its own and in the environment of its library."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

SCRIPT = Path(__file__).with_name("regress.py")


def interpreter(environment: str | None) -> str:
    """The Python of an environment; an error that says how to make it."""
    if environment is None:
        return sys.executable
    path = Path(".peers") / environment / "bin" / "python"
    if not path.exists():
        raise FileNotFoundError(f"no environment at {path.parent.parent}; run: make peers")
    return str(path)


def predict_apart(
    adapter: str, options: dict[str, Any], environment: str | None, table: dict[str, Any], name: str
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """What a library predicts in a process of its own, and its seconds."""
    with tempfile.TemporaryDirectory(prefix="twofold-regression-") as folder:
        given, found = Path(folder) / "table.npz", Path(folder) / "found.npz"
        np.savez(given, **table)
        words = [adapter, str(given), str(found), json.dumps(options)]
        command = [interpreter(environment), str(SCRIPT.resolve()), *words]
        done = subprocess.run(
            command, env=child_environment(environment), capture_output=True, text=True
        )
        if done.returncode:
            *before, last = done.stderr.strip().splitlines() or ["no message"]
            raise RuntimeError("\n".join([f"{adapter} on {name} failed: {last}", *before[-20:]]))
        with np.load(found) as file:
            return dict(file), json.loads(done.stdout.strip().splitlines()[-1])


def child_environment(environment: str | None) -> dict[str, str]:
    """Without programs that an earlier fit has compiled and, for others, this project's folders."""
    dropped = ["JAX_COMPILATION_CACHE_DIR", *(["PYTHONPATH"] if environment else [])]
    return {name: value for name, value in os.environ.items() if name not in dropped}
