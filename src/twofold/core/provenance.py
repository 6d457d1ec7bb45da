"""Where a result comes from: the command, the source's version, the libraries, the device."""

import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from twofold.core import persistence

LIBRARIES = "twofold jax jaxlib optax blackjax numpy scipy scikit-learn tinygp".split()


def command() -> str:
    """The command line that made the record."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    script = Path(sys.argv[0])
    program = "twofold" if script.name == "twofold" else f"python {os.path.relpath(script)}"
    program = f"python -m {module.parent}" if module and module.parent else program
    words = list(sys.argv[1:])
    if "--output" in words:  # where the result was put is nobody's business
        place = words.index("--output")
        del words[place : place + 2]
    return " ".join([program, *words])


def commit() -> str:
    """The source's commit, with ``+`` where the working tree differs.

    ``$TWOFOLD_COMMIT`` has the first word, for a source that was copied without its history; of an
    installed package it is the version.
    """
    if "TWOFOLD_COMMIT" in os.environ:
        return os.environ["TWOFOLD_COMMIT"]
    try:
        words = ["git", "describe", "--always", "--dirty=+", "--abbrev=12"]
        stated = subprocess.check_output(
            words, cwd=Path(__file__).parent, text=True, stderr=subprocess.DEVNULL
        )
    except (OSError, subprocess.CalledProcessError):
        return f"version-{persistence.LIBRARY_VERSION}"
    return stated.strip()


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that decide the numbers."""
    found = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except ImportError:
            found[library] = "not installed"
    return found


def device() -> str:
    """The kind of device JAX computes on."""
    import jax

    kind = jax.devices()[0]
    cores = f", {os.cpu_count()} cores" if kind.platform == "cpu" else ""
    return f"{kind.platform}: {kind.device_kind}{cores}"
