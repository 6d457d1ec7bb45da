"""Run an inference method to completion with a progress bar, checkpoints and graceful Ctrl-C."""

import glob
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
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from twofold.core import memory, sharding
from twofold.core.arrays import Keys
from twofold.core.persistence import FileFormatError, WorkFile
from twofold.inference import loop
from twofold.inference.loop import Algorithm

LONG = 60.0  # remaining seconds that are announced if no bar is shown
SOON = 5.0  # seconds before the first estimate
KEPT = "the model keeps the state reached so far"
REDUCE = "reduce batch_size, other settings or the number of rows"


class NonFiniteEnergyError(ArithmeticError):
    """The energy is not finite, so training cannot continue."""


class InterruptedFitWarning(UserWarning):
    """The fit was stopped by Ctrl-C; the model keeps the state reached."""


class StoppedFit(KeyboardInterrupt):
    """Ctrl-C ended a fit early, and with it the work that needed the fit."""


@contextmanager
def whole_fits(kept: str = "incomplete fit discarded") -> Iterator[None]:
    """Within this context, Ctrl-C in a fit stops everything; ``kept`` says what is preserved."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", InterruptedFitWarning)
        try:
            yield
        except InterruptedFitWarning as stopped:
            raise StoppedFit(f"stopped by Ctrl-C; {kept}") from stopped


class Outcome(NamedTuple):
    """Progress of a run: states of all members after ``epoch`` epochs, energies per datum and
    skipped updates so far, ``[epochs, S]``, and whether Ctrl-C ended it."""

    states: Any
    epoch: int
    energies: np.ndarray
    skipped: np.ndarray
    stopped: bool = False


class Checkpoint:
    """A file with the state of the run of that ``identity``, written at most every ``seconds``."""

    def __init__(self, path: str | Path, seconds: float, identity: dict[str, Any]):
        self._file = WorkFile(path, "checkpoint", identity)
        self._file.check_writable()
        self._seconds = seconds
        self._written = time.monotonic()

    def load(self, like: Any, members: int) -> Outcome | None:
        """The stored run of ``members`` members, in the form of ``like``; None without a file."""
        stored = self._file.read()
        if stored is None:
            return None
        leaves, structure = jax.tree.flatten(like)
        states = {f"state/{i}": leaf for i, leaf in enumerate(leaves)}
        epoch = stored.metadata.get("epoch")
        wanted = {name: ((members, *x.shape[1:]), x.dtype) for name, x in states.items()}
        wanted |= {"energies": ((epoch, members), np.float64)}
        wanted |= {"skipped": ((epoch, members), np.int64)}
        shapes = {name: (array.shape, array.dtype) for name, array in stored.arrays.items()}
        # The state of another version may have other arrays.
        if shapes != wanted or not isinstance(epoch, int):
            raise FileFormatError(
                f"the checkpoint {self._file.path} was written by another version of twofold; "
                "delete the file to start again"
            )
        state = jax.tree.unflatten(structure, [jnp.asarray(stored.arrays[n]) for n in states])
        return Outcome(state, epoch, stored.arrays["energies"], stored.arrays["skipped"])

    def due(self) -> bool:
        """Whether enough time has passed since the last write."""
        return time.monotonic() - self._written >= self._seconds

    def save(self, run: Outcome) -> None:
        """Replace the file atomically; a failure to write does not end the fit."""
        leaves = jax.tree.leaves(run.states)
        arrays = {f"state/{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        arrays |= {"energies": run.energies, "skipped": run.skipped}
        try:
            if jax.process_index() == 0:
                self._file.write(arrays, {"epoch": run.epoch})
            self._written = time.monotonic()
        except OSError as error:
            sentence = f"the checkpoint {self._file.path} could not be written ({error}); the fit "
            sentence += "continues, but cannot be resumed from here"
            warnings.warn(sentence, RuntimeWarning, stacklevel=6)


def remove_checkpoint(path: Path) -> None:
    """Delete the checkpoint of a run, and those of its stages."""
    for one in (path, *path.parent.glob(f"{glob.escape(path.name)}.*-latent-dim-*")):
        one.unlink(missing_ok=True)


class Plan(NamedTuple):
    """Length of a run, batches per epoch of each member, and display options.

    ``unit`` names an epoch, ``title`` the activity and ``energy`` the displayed quantity;
    ``updates`` is their number per epoch (default: one per batch).
    """

    epochs: int
    batches: np.ndarray
    unit: str
    verbose: bool | str
    checkpoint: Checkpoint | None
    title: str = "fitting"
    energy: str = "energy"
    updates: int = 0


def train(
    algorithm: Algorithm, keys: Keys, problems: Any, schedule: Any, plan: Plan, times: int = 1
) -> Outcome:
    """Advance all members to the end of the plan, resuming from the checkpoint if there is one.

    Each of the ``problems`` is shared by ``times`` consecutive members; they may be a function of
    the epoch, for data in blocks. The members are sharded over all devices; stored and returned
    states are independent of the devices. Each program is compiled once, and its memory checked
    before it runs.
    """
    members, checkpoint = keys.shape[0], plan.checkpoint
    mesh = sharding.devices_for(members)
    keys, schedule = sharding.spread(mesh, keys), sharding.copied(mesh, schedule)
    passing = callable(problems)
    first = sharding.spread(mesh, problems(0) if passing else problems, times)
    lowered = loop.init.lower(algorithm, keys, first, mesh)
    memory.check_program(lowered.compile(), plan.title, REDUCE)
    traces = np.empty((0, members)), np.empty((0, members), np.int64)
    run = Outcome(loop.init(algorithm, keys, first, mesh), 0, *traces)
    if checkpoint is not None and (stored := checkpoint.load(run.states, members)) is not None:
        run = stored._replace(states=sharding.spread(mesh, stored.states))
    program, copies = loop.compile_run(algorithm, keys, run.states, first, schedule, mesh)
    memory.check_program(program, plan.title, REDUCE, copies)
    stopped, latest = False, None
    with ProgressBar(plan, run.epoch) as bar, catch_interrupt() as interrupt:
        given = (lambda epoch: sharding.spread(mesh, problems(epoch), times)) if passing else first
        span = run.epoch, plan.epochs
        for chunk in loop.run(algorithm, keys, run.states, given, schedule, *span, mesh):
            energies = np.concatenate([run.energies, chunk.energies[:, :members]])
            skipped = np.concatenate([run.skipped, chunk.skipped[:, :members]])
            run = Outcome(None, chunk.epoch, energies, skipped)
            # The run fails if a member could not take a single step in an epoch.
            lost = np.flatnonzero(skipped[-1] >= plan.batches)
            if lost.size:
                raise NonFiniteEnergyError(
                    f"the energy is no longer finite (member(s) {lost.tolist()}, epoch "
                    f"{run.epoch}); lower learning_rate (HMC, NUTS: raise target_acceptance), use "
                    "dtype='float64', or check the data for extreme values"
                )
            bar.update(run.epoch, float(energies[-1].mean()))
            stopped = bool(sharding.agreed(interrupt.is_set()))
            finished = algorithm.finished is not None and bool(
                algorithm.finished(chunk.states, run.epoch).all()
            )
            done = run.epoch == plan.epochs or stopped or finished
            if checkpoint is not None and sharding.agreed(done or checkpoint.due()):
                checkpoint.save(run._replace(states=sharding.cut(mesh, chunk.states, members)))
            latest = chunk
            if stopped or finished:
                break
    run = run._replace(stopped=stopped)
    _warn_of_problems(run, plan)
    states = run.states if latest is None else latest.states
    return run._replace(states=sharding.cut(mesh, states, members))


def _warn_of_problems(run: Outcome, plan: Plan) -> None:
    if run.stopped and run.epoch < plan.epochs:
        done = f"{run.epoch:,} of {plan.epochs:,} {plan.unit}"
        sentence = f"stopped by Ctrl-C after {done}; {KEPT}"
        warnings.warn(sentence, InterruptedFitWarning, stacklevel=6)
    if run.skipped.any():
        sentence = f"{run.skipped.sum():,} updates had a non-finite energy and were skipped; "
        sentence += "if the fit is poor, lower learning_rate or use dtype='float64'"
        warnings.warn(sentence, RuntimeWarning, stacklevel=6)


def _make_bar(verbose: bool | str, title: str, unit: str, *columns: str) -> Progress:
    shown = sys.stderr.isatty() if verbose == "auto" else bool(verbose)
    return Progress(
        TextColumn(title),
        BarColumn(),
        *map(TextColumn, ["{task.completed:,}/{task.total:,} " + unit, *columns]),
        TimeRemainingColumn(compact=True),
        console=Console(file=sys.stderr),
        disable=not shown,
    )


class ProgressBar:
    """A bar with energy, speed and remaining time; can be silent."""

    def __init__(self, plan: Plan, done: int):
        self._plan, self._begun = plan, time.monotonic()
        self._first: tuple[float, int] | None = None
        self._hidden = plan.verbose == "auto" and not sys.stderr.isatty()
        columns = plan.energy + " {task.fields[energy]}", "{task.fields[speed]} updates/s"
        self._bar = _make_bar(plan.verbose, plan.title, plan.unit, *columns)
        unknown: Any = {"energy": "–", "speed": "–"}
        self._task = self._bar.add_task("", total=plan.epochs, completed=done, **unknown)

    def __enter__(self) -> "ProgressBar":
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def update(self, epoch: int, energy: float) -> None:
        """Show the state; of a long run without a bar, print the remaining time once."""
        now, plan = time.monotonic(), self._plan
        if self._first is None:
            self._first = now, epoch  # the first chunk includes compilation
        elif self._hidden and now - self._first[0] >= SOON:
            left = (now - self._first[0]) / (epoch - self._first[1]) * (plan.epochs - epoch)
            if left > LONG:
                self._hidden, done = False, f"{epoch:,} of {plan.epochs:,} {plan.unit}"
                times = f"after {now - self._begun:,.0f} s, about {left / 60:,.0f} min left"
                print(f"{plan.title}: {done} {times}", file=sys.stderr)
        speed = self._bar.tasks[0].speed
        batches = plan.updates or int(plan.batches.max())
        shown = f"{speed * batches:,.0f}" if speed else "–"
        self._bar.update(self._task, completed=epoch, energy=f"{energy:.3f}", speed=shown)


@contextmanager
def show_row_progress(
    verbose: bool | str, what: str, rows: int, at_once: int
) -> Iterator[Callable[[int], None]]:
    """A progress bar for work in several chunks; yields a function of the number of rows done."""
    with _make_bar(verbose if rows > at_once else False, what, "rows") as bar:
        task = bar.add_task("", total=rows)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def catch_interrupt() -> Iterator[threading.Event]:
    """The first Ctrl-C sets the event, a second one interrupts; in the main thread only, which
    alone gets signals."""
    requested, before = threading.Event(), signal.getsignal(signal.SIGINT) or signal.SIG_DFL
    reachable = threading.current_thread() is threading.main_thread()

    def on_signal(number, frame):
        requested.set()
        signal.signal(signal.SIGINT, before)

    try:
        if reachable:
            signal.signal(signal.SIGINT, on_signal)
        yield requested
    finally:
        if reachable:
            signal.signal(signal.SIGINT, before)
