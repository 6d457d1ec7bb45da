"""With what a result is made: the libraries and the device."""

import os
import platform
from importlib.metadata import version

LIBRARIES = "twofold jax jaxlib optax blackjax numpy scipy scikit-learn tinygp".split()


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
