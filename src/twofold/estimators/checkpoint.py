"""Training states on disk, so that a killed run continues exactly where it stopped."""

import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core import persistence


class Resumed(NamedTuple):
    """A run as it was: the states after ``epoch`` epochs and all energies so far."""

    states: Any
    epoch: int
    energies: np.ndarray
    skipped: np.ndarray


class Checkpoint:
    """Writes at most every ``seconds``; ``identity`` says which run the file belongs to."""

    def __init__(self, path: str | Path, seconds: float, identity: dict[str, Any]):
        self.path = Path(path)
        self._refuse_bad_place()
        self._seconds = seconds
        self._identity = identity
        self._written = time.monotonic()

    def load(self, like: Any) -> Resumed | None:
        """The stored run, shaped as ``like``; None where there is no file yet."""
        if not self.path.exists():
            return None
        stored = persistence.read(self.path, "checkpoint")
        self._refuse_other_run(stored.metadata["identity"])
        leaves, structure = jax.tree.flatten(like)
        found = [stored.arrays.get(f"state/{i}") for i in range(len(leaves))]
        self._refuse_other_state(leaves, found)
        states = jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in found])
        energies, skipped = stored.arrays["energies"], stored.arrays["skipped"]
        return Resumed(states, stored.metadata["epoch"], energies, skipped)

    def due(self) -> bool:
        """Whether enough time has passed since the last write."""
        return time.monotonic() - self._written >= self._seconds

    def save(self, run: Resumed) -> None:
        """Replace the file atomically."""
        leaves = jax.tree.leaves(run.states)
        arrays = {f"state/{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        arrays |= {"energies": run.energies, "skipped": run.skipped}
        metadata = {"identity": self._identity, "epoch": run.epoch}
        if jax.process_index() == 0:
            persistence.write(self.path, "checkpoint", arrays, metadata)
        self._written = time.monotonic()

    def _refuse_bad_place(self) -> None:
        """Find out before training, not after it, that nothing can be written here."""
        folder = self.path.absolute().parent
        if self.path.is_dir():
            raise IsADirectoryError(f"checkpoint must be a file, but {self.path} is a directory")
        if not folder.is_dir():
            raise FileNotFoundError(f"checkpoint's directory {folder} does not exist; create it")
        if not os.access(folder, os.W_OK):
            raise PermissionError(f"checkpoint's directory {folder} is not writable")

    def _refuse_other_state(self, expected: list[Any], found: list[Any]) -> None:
        """States of other versions hold other things; members may be fewer, for none are added to
        fill devices."""
        same = [
            leaf is not None and (leaf.shape[1:], leaf.dtype) == (like.shape[1:], like.dtype)
            for like, leaf in zip(expected, found, strict=True)
        ]
        if not all(same):
            raise persistence.FileFormatError(
                f"the checkpoint {self.path} was written by another version of twofold; delete the "
                "file to start anew"
            )

    def _refuse_other_run(self, stored: dict[str, Any]) -> None:
        changed = [
            f"{name} was {stored.get(name)!r}, now {value!r}"
            for name, value in self._identity.items()
            if stored.get(name) != value
        ]
        if changed:
            raise ValueError(
                f"the checkpoint {self.path} belongs to another run: {'; '.join(changed)}. "
                "Delete the file to start anew, or give this run a path of its own"
            )
