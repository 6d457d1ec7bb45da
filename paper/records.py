"""Records of full runs: ``results/<name>.json``, written by a command, never by hand."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from twofold.core import persistence
from twofold.core.persistence import device, to_plain, versions

PROVENANCE = ("command", "commit", "versions", "device", "seconds", "settings", "seeds")


def command() -> str:
    """The command line that made the record."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    script = Path(sys.argv[0])
    program = "twofold" if script.name == "twofold" else f"python {os.path.relpath(script)}"
    program = f"python -m {module.parent}" if module and module.parent else program
    words = list(sys.argv[1:])
    if "--output" in words:  # the output folder is not part of the command
        place = words.index("--output")
        del words[place : place + 2]
    return " ".join([program, *words])


def commit() -> str:
    """The commit of the source, with ``+`` if the working tree differs.

    ``$TWOFOLD_COMMIT`` takes precedence, for a source copied without its history; for an installed
    package it is the version.
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


class Context(NamedTuple):
    """Settings of a run: full or smoke size, folder for unfinished work, folder for results, and
    executor of jobs."""

    smoke: bool
    work: Path
    output: Path
    executor: str | None = None

    def folder_with(self, file: str) -> Path:
        """The folder with a file of an earlier run: the folder for results, or ``results/``."""
        return self.output if (self.output / file).exists() else Path("results")


def standard_error(values: Any) -> float:
    """Standard error of the mean; 0 for a single value."""
    values = np.asarray(values, float)
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


class Record:
    """Collects the metrics of one run and writes them with the information needed to repeat it."""

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
        self.add(f"{name}/mean", np.asarray(values, float).mean())
        self.add(f"{name}/se", standard_error(values))

    def add_means(self, place: str, of_seeds: Sequence[Mapping[str, float]]) -> None:
        """``add_mean`` of each quantity in the numbers of all seeds, under ``place``."""
        for name in of_seeds[0]:
            if all(name in one for one in of_seeds):
                self.add_mean(f"{place}/{name}", [one[name] for one in of_seeds])

    def write(self, folder: Path) -> Path:
        """Write ``folder/<name>.json`` atomically."""
        return self.write_to(folder / f"{self.name}.json")

    def write_to(self, path: Path) -> Path:
        """Write the record to a file of another name."""
        return _write(path, self._document())

    def merge(self, folder: Path, keep: Callable[[str], bool]) -> Path:
        """Like ``write``, but keep metrics of earlier runs (other commands, other devices) that
        match ``keep``, with the provenance of those runs in ``kept_from``."""
        return _merge(self._document(), folder / f"{self.name}.json", keep)

    def _document(self) -> dict[str, Any]:
        return {
            "command": command(),
            "commit": commit(),
            "versions": versions(),
            "device": device(),
            "seconds": round(time.perf_counter() - self._started, 1),
            "settings": to_plain(self._settings),
            "seeds": self._seeds,
            "metrics": self.metrics,
        }


def join(part: Path, folder: Path) -> Path:
    """Merge a record written elsewhere into the one of the same name in ``folder``."""
    document = json.loads(part.read_text())
    return _merge(document, folder / part.name, lambda name: name not in document["metrics"])


def _merge(document: dict[str, Any], path: Path, keep: Callable[[str], bool]) -> Path:
    earlier = json.loads(path.read_text()) if path.exists() else {"metrics": {}}
    kept = {name: value for name, value in earlier["metrics"].items() if keep(name)}
    if kept:
        document["metrics"] = kept | document["metrics"]
        provenance = {name: earlier[name] for name in PROVENANCE if name in earlier}
        sources = [provenance, *listed(earlier.get("kept_from", []))]
        document["kept_from"] = [s for s in sources if not _repeats(document, s)]
    return _write(path, document)


def _write(path: Path, document: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    persistence.write_text(path, json.dumps(document, indent=2, allow_nan=False) + "\n")
    return path


def listed(sources: Any) -> list[dict[str, Any]]:
    """Sources as a list; records of older versions have a single one."""
    return [sources] if isinstance(sources, dict) else sources


def recorded_commands(document: dict[str, Any]) -> list[str]:
    """The commands that wrote a record."""
    sources = [document, *listed(document.get("kept_from", []))]
    return list(dict.fromkeys(one["command"].partition(" --peer-python")[0] for one in sources))


def _repeats(document: dict[str, Any], source: dict[str, Any]) -> bool:
    """Whether a run repeats an earlier one."""
    return all(document[name] == source[name] for name in ("command", "device"))
