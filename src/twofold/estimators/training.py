"""Run an inference method to its end with progress, checkpoints and a graceful Ctrl-C."""

import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from twofold.core import memory, sharding
from twofold.core.arrays import Keys
from twofold.core.persistence import FileFormatError, WorkFile
from twofold.inference import loop
from twofold.inference.loop import Algorithm

SMALLER = "use smaller settings, a smaller batch_size first of all, or fewer rows"


class NonFiniteEnergyError(ArithmeticError):
    """The energy stopped being a number, so there is nothing to learn from."""


class InterruptedFitWarning(UserWarning):
    """The fit was stopped by Ctrl-C; the model keeps what it had learned."""


class StoppedFit(KeyboardInterrupt):
    """Ctrl-C ended a fit early, and with it what needed the fit whole."""


@contextmanager
def whole_fits(kept: str = "incomplete fit discarded") -> Iterator[None]:
    """Inside, a fit that Ctrl-C ends early ends all; ``kept`` says what is left of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", InterruptedFitWarning)
        try:
            yield
        except InterruptedFitWarning as stopped:
            raise StoppedFit(f"stopped by Ctrl-C; {kept}") from stopped


class Resumed(NamedTuple):
    """A run as it was: the states after ``epoch`` epochs and all energies so far."""

    states: Any
    epoch: int
    energies: np.ndarray
    skipped: np.ndarray


class Checkpoint:
    """The state of a run in a file, written at most every ``seconds``; ``identity`` tells which run
    the file belongs to."""

    def __init__(self, path: str | Path, seconds: float, identity: dict[str, Any]):
        self._file = WorkFile(path, "checkpoint", identity)
        self._file.check_writable()
        self.path = self._file.path
        self._seconds = seconds
        self._written = time.monotonic()

    def load(self, like: Any) -> Resumed | None:
        """The stored run, shaped as ``like``; None if there is no file yet."""
        stored = self._file.read()
        if stored is None:
            return None
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
        if jax.process_index() == 0:
            arrays |= {"energies": run.energies, "skipped": run.skipped}
            self._file.write(arrays, {"epoch": run.epoch})
        self._written = time.monotonic()

    def _refuse_other_state(self, expected: list[Any], found: list[Any]) -> None:
        """States of other versions hold other things; members may be fewer, for none are added to
        fill devices."""
        same = [
            leaf is not None and (leaf.shape[1:], leaf.dtype) == (like.shape[1:], like.dtype)
            for like, leaf in zip(expected, found, strict=True)
        ]
        if not all(same):
            raise FileFormatError(
                f"the checkpoint {self.path} was written by another version of twofold; delete the "
                "file to start again"
            )


class Plan(NamedTuple):
    """How long to train, each member's batches per epoch, and what a person wants of it.

    ``unit`` is what a person would call an epoch, ``title`` what is done, ``energy`` what is shown.
    """

    epochs: int
    batches: np.ndarray
    unit: str
    verbose: bool | str
    checkpoint: Checkpoint | None
    title: str = "fitting"
    energy: str = "energy"


class Outcome(NamedTuple):
    """Final states of all members, and energies per datum ``[epochs, S]``."""

    states: Any
    energies: np.ndarray


def train(
    algorithm: Algorithm, keys: Keys, problems: Any, schedule: Any, plan: Plan, times: int = 1
) -> Outcome:
    """Advance all members to the plan's end, resuming from the checkpoint where there is one.

    Each of the ``problems`` is that of ``times`` members in a row; they may be a function of the
    epoch, for data that pass by in blocks. The members are spread over all devices; what is stored
    and returned does not show it.
    """
    members = keys.shape[0]
    mesh = sharding.devices_for(members)
    keys, schedule = sharding.spread(mesh, keys), sharding.copied(mesh, schedule)
    passing = callable(problems)
    first = sharding.spread(mesh, problems(0) if passing else problems, times)
    run = _start(algorithm, keys, first, plan.checkpoint, mesh, members, plan.title)
    # The same program as the first chunk's: it is compiled once.
    one = np.int32(1)
    lowered = loop.advance.lower(algorithm, keys, run.states, first, schedule, one, one, mesh)
    memory.check_program(lowered.compile(), plan.title, SMALLER)
    batches = int(plan.batches.max())
    labels = plan.title, plan.unit, plan.energy
    bar = ProgressBar(plan.verbose, plan.epochs, labels, batches, run.epoch)
    with bar, graceful_interrupt() as interrupt:
        given = (lambda epoch: sharding.spread(mesh, problems(epoch), times)) if passing else first
        span = run.epoch, plan.epochs
        for chunk in loop.run(algorithm, keys, run.states, given, schedule, *span, mesh):
            energies = np.concatenate([run.energies, chunk.energies[:, :members]])
            skipped = np.concatenate([run.skipped, chunk.skipped[:, :members]])
            run = Resumed(chunk.states, chunk.epoch, energies, skipped)
            _refuse_non_finite(run, plan.batches)
            bar.update(run.epoch, float(energies[-1].mean()))
            stopped = bool(sharding.agreed(interrupt.requested))
            done = run.epoch == plan.epochs or stopped
            if plan.checkpoint is not None and sharding.agreed(done or plan.checkpoint.due()):
                whole = run._replace(states=sharding.cut(mesh, run.states, members))
                _keep(plan.checkpoint, whole)
            if stopped:
                break
    _report(run, plan)
    return Outcome(sharding.cut(mesh, run.states, members), run.energies)


def _start(
    algorithm: Algorithm,
    keys: Keys,
    problems: Any,
    checkpoint: Checkpoint | None,
    mesh: Mesh | None,
    members: int,
    title: str,
) -> Resumed:
    program = loop.init.lower(algorithm, keys, problems, mesh).compile()
    memory.check_program(program, title, SMALLER)
    states = loop.init(algorithm, keys, problems, mesh)
    stored = None if checkpoint is None else checkpoint.load(like=states)
    if stored is not None:
        return stored._replace(states=sharding.spread(mesh, stored.states))
    nothing = np.empty((0, members))
    return Resumed(states, 0, nothing, nothing.astype(np.int64))


def _keep(checkpoint: Checkpoint, run: Resumed) -> None:
    """A file that cannot be written must not cost what has been learned."""
    try:
        checkpoint.save(run)
    except OSError as error:
        warnings.warn(
            f"the checkpoint {checkpoint.path} could not be written ({error}); the fit goes on, "
            "but cannot be continued from here if it is stopped",
            RuntimeWarning,
            stacklevel=5,
        )


def _refuse_non_finite(run: Resumed, batches: np.ndarray) -> None:
    """An epoch in which a member could not take a single step is the end of the run."""
    lost = np.flatnonzero(run.skipped[-1] >= batches)
    if lost.size:
        raise NonFiniteEnergyError(
            f"the energy is no longer finite (member(s) {lost.tolist()}, epoch {run.epoch}); "
            "lower learning_rate (chains: raise target_acceptance), use dtype='float64', or look "
            "for extreme values in the data"
        )


def _report(run: Resumed, plan: Plan) -> None:
    if run.epoch < plan.epochs:
        warnings.warn(
            f"stopped by Ctrl-C after {run.epoch:,} of {plan.epochs:,} {plan.unit}; the model "
            "keeps what it has learned so far",
            InterruptedFitWarning,
            stacklevel=5,
        )
    if run.skipped.any():
        warnings.warn(
            f"{run.skipped.sum():,} updates had a non-finite energy and were skipped; "
            "if the fit is poor, lower learning_rate or use dtype='float64'",
            RuntimeWarning,
            stacklevel=5,
        )


def _shown(verbose: bool | str) -> bool:
    return sys.stderr.isatty() if verbose == "auto" else bool(verbose)


class ProgressBar:
    """A bar with the energy, the speed and the time left; silent when not wanted."""

    def __init__(
        self,
        verbose: bool | str,
        epochs: int,
        labels: tuple[str, str, str],
        batches: int,
        done: int,
    ):
        title, unit, energy = labels
        self._batches = batches
        self._bar = Progress(
            TextColumn(title),
            BarColumn(),
            TextColumn("{task.completed:,}/{task.total:,} " + unit),
            TextColumn(energy + " {task.fields[energy]}"),
            TextColumn("{task.fields[speed]} updates/s"),
            TimeRemainingColumn(compact=True),
            console=Console(file=sys.stderr),
            disable=not _shown(verbose),
        )
        self._task = self._bar.add_task("", total=epochs, completed=done, energy="–", speed="–")

    def __enter__(self) -> "ProgressBar":
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def update(self, epoch: int, energy: float) -> None:
        """Show the state after ``epoch`` epochs."""
        speed = self._bar.tasks[0].speed
        shown_speed = f"{speed * self._batches:,.0f}" if speed else "–"
        self._bar.update(self._task, completed=epoch, energy=f"{energy:.3f}", speed=shown_speed)


@contextmanager
def row_progress(
    verbose: bool | str, what: str, rows: int, at_once: int
) -> Iterator[Callable[[int], None]]:
    """A bar over rows for work of several chunks; gives a function to call with the rows done."""
    bar = Progress(
        TextColumn(what),
        BarColumn(),
        TextColumn("{task.completed:,}/{task.total:,} rows"),
        TimeRemainingColumn(compact=True),
        console=Console(file=sys.stderr),
        disable=not _shown(verbose) or rows <= at_once,
    )
    with bar:
        task = bar.add_task("", total=rows)
        yield lambda done: bar.update(task, completed=done)


class Interrupt:
    """Whether Ctrl-C has been pressed."""

    requested = False


@contextmanager
def graceful_interrupt() -> Iterator[Interrupt]:
    """Turn the first Ctrl-C into a request to stop; a second one stops at once.

    Signals reach the main thread only; elsewhere Ctrl-C keeps its usual meaning.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return

    def on_signal(number, frame):
        interrupt.requested = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, on_signal) or signal.SIG_DFL
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
