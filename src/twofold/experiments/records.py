"""Records of full runs: ``results/<name>.json``, written by a command, never by hand."""

import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np

from twofold import persistence

PROVENANCE = ("command", "commit", "versions", "device", "seconds", "settings", "seeds")
LIBRARIES = (
    "twofold",
    "jax",
    "jaxlib",
    "optax",
    "blackjax",
    "numpy",
    "scipy",
    "scikit-learn",
    "tinygp",
)


class Record:
    """Collects the metrics of one run and writes them with what is needed to repeat it."""

    def __init__(self, name: str, settings: dict[str, Any], seeds: list[int]):
        self.name = name
        self.metrics: dict[str, float] = {}
        self._settings = settings
        self._seeds = seeds
        self._started = time.perf_counter()

    def add(self, name: str, value: float | int) -> None:
        """Store one number under a slash-separated name."""
        self.metrics[name] = float(value)

    def add_mean(self, name: str, values: Any) -> None:
        """Store ``name/mean`` and ``name/se``, the standard error of the mean."""
        values = np.asarray(values, dtype=float)
        self.add(f"{name}/mean", values.mean())
        self.add(f"{name}/se", values.std(ddof=1) / np.sqrt(len(values)))

    def write(self, folder: Path) -> Path:
        """Write ``folder/<name>.json`` atomically."""
        return _write(folder / f"{self.name}.json", self._document())

    def merge(self, folder: Path, keep: Callable[[str], bool]) -> Path:
        """As ``write``, keeping those metrics of earlier runs (other commands, other devices) that
        ``keep`` names, with where those runs came from in ``kept_from``."""
        return _merge(self._document(), folder / f"{self.name}.json", keep)

    def _document(self) -> dict[str, Any]:
        return {
            "command": command(),
            "commit": commit(),
            "versions": versions(),
            "device": device(),
            "seconds": round(time.perf_counter() - self._started, 1),
            "settings": self._settings,
            "seeds": self._seeds,
            "metrics": self.metrics,
        }


def join(part: Path, folder: Path) -> Path:
    """Let a record of the same name that was written elsewhere join the one in ``folder``."""
    document = json.loads(part.read_text())
    document["command"] = _from_root(document["command"])
    return _merge(document, folder / part.name, lambda name: name not in document["metrics"])


def _merge(document: dict[str, Any], path: Path, keep: Callable[[str], bool]) -> Path:
    earlier = json.loads(path.read_text()) if path.exists() else {"metrics": {}}
    kept = {name: value for name, value in earlier["metrics"].items() if keep(name)}
    if kept:
        document["metrics"] = kept | document["metrics"]
        own = {name: earlier[name] for name in PROVENANCE if name in earlier}
        sources = [own, *listed(earlier.get("kept_from", []))]
        document["kept_from"] = [s for s in sources if not _repeats(document, s)]
    return _write(path, document)


def _write(path: Path, document: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    persistence.write_text(path, json.dumps(document, indent=2, allow_nan=False) + "\n")
    return path


def listed(sources: Any) -> list[dict[str, Any]]:
    """Records of older versions name one source only."""
    return [sources] if isinstance(sources, dict) else sources


def _repeats(document: dict[str, Any], source: dict[str, Any]) -> bool:
    """Whether a run did again what an earlier one had done."""
    return all(document[name] == source[name] for name in ("command", "device"))


def command() -> str:
    """The command line that made the record."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    program = f"python -m {module.parent}" if module and module.parent else _program()
    words = list(sys.argv[1:])
    if "--output" in words:  # where the result was put is nobody's business
        place = words.index("--output")
        del words[place : place + 2]
    return _from_root(" ".join([program, *words]))


def _from_root(command: str) -> str:
    """A command as it is given in the repository's root, wherever that lies."""
    return re.sub(r"(?<=\s)/\S*/(?=benchmarks/)", "", command)


def _program() -> str:
    own = Path(sys.argv[0]).name == "twofold"
    return "twofold" if own else f"python {sys.argv[0]}"


def commit() -> str:
    """The source's commit, with ``+`` where the working tree differs.

    ``$TWOFOLD_COMMIT`` has the first word, for a source that was copied without its history; of an
    installed package it is the version.
    """
    if "TWOFOLD_COMMIT" in os.environ:
        return os.environ["TWOFOLD_COMMIT"]
    try:
        answer = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=12"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return f"version-{persistence.LIBRARY_VERSION}"
    return answer.stdout.strip()


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
    kind = jax.devices()[0]
    cores = f", {os.cpu_count()} cores" if kind.platform == "cpu" else ""
    return f"{kind.platform}: {kind.device_kind}{cores}"
