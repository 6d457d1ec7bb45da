"""The record of one command: what it was asked, with which versions, how long it took, what came.

It lies beside what the command wrote; of a command that writes no file of its own it is kept in
``$XDG_STATE_HOME/twofold/runs`` (``~/.local/state`` by default).
"""

import hashlib
import json
import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from twofold.cli.errors import CommandError
from twofold.cli.output import plain, say

ENDING = ".record.json"
DIGEST_BYTES = 2**20


class Run:
    """Collects what a record holds while a command is at work."""

    def __init__(self, ctx: typer.Context, seed: int | None = None):
        self._name = "-".join(ctx.command_path.split()[1:])
        self._settings = {name: plain(value) for name, value in ctx.params.items()}
        self._seeds = [] if seed is None else [seed]
        self._begun, self._clock = datetime.now(UTC), time.perf_counter()
        self._reads: dict[str, str] = {}
        self._times: dict[str, float] = {}
        self.metrics: dict[str, float] = {}
        if ctx.params.get("config") is not None:
            self.reads(ctx.params["config"])

    def reads(self, path: Path) -> str:
        """Note a file that the result depends on; returns the SHA-256 of its bytes."""
        try:
            digest = digest_of(path)
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}") from error
        self._reads[str(path)] = digest
        return digest

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Note how long a part takes."""
        begun = time.perf_counter()
        yield
        self._times[what] = round(time.perf_counter() - begun, 3)

    def write(self, wrote: Path | None = None) -> Path:
        """Write the record beside what was written, or to the folder of runs.

        One that cannot be written is said, and costs no result.
        """
        from twofold.core import persistence

        path = self._place(wrote)
        text = json.dumps(self._document(wrote), indent=2, ensure_ascii=False) + "\n"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            persistence.write_text(path, text)
        except OSError as error:
            say(f"note: the record {path} could not be written: {error}")
        return path

    def _place(self, wrote: Path | None) -> Path:
        if wrote is None:
            state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
            stamp = self._begun.strftime("%Y%m%dT%H%M%S.%f")
            return state / "twofold" / "runs" / f"{stamp}-{self._name}-{os.getpid()}.json"
        if wrote.is_dir():
            return wrote / "record.json"
        return wrote.with_name(wrote.name + ENDING)

    def _document(self, wrote: Path | None) -> dict[str, Any]:
        from twofold.core.provenance import device, versions

        return {
            "command": command(),
            "folder": str(Path.cwd()),
            "begun": self._begun.isoformat(timespec="seconds"),
            "versions": versions(),
            "device": device(),
            "seconds": round(time.perf_counter() - self._clock, 1),
            "times": self._times,
            "settings": self._settings,
            "seeds": self._seeds,
            "reads": self._reads,
            "wrote": None if wrote is None else str(wrote),
            "metrics": plain(self.metrics),
        }


def digest_of(path: Path) -> str:
    """SHA-256 of a file's bytes, or of those of a folder's files in the order of their names."""
    digest = hashlib.sha256()
    parts = sorted(part for part in path.iterdir() if part.is_file()) if path.is_dir() else [path]
    for part in parts:
        with part.open("rb") as file:
            while chunk := file.read(DIGEST_BYTES):
                digest.update(chunk)
    return digest.hexdigest()


def command() -> str:
    """The command line that repeats the run."""
    return shlex.join(["twofold", *sys.argv[1:]])
