"""Records of full runs: ``results/<name>.json``, written by a command, never by hand."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from twofold.core import persistence
from twofold.core.provenance import command, commit, device, from_root, versions

PROVENANCE = ("command", "commit", "versions", "device", "seconds", "settings", "seeds")


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
    document["command"] = from_root(document["command"])
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
