"""What a person at a terminal sees and can do while a model is fitted."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


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
