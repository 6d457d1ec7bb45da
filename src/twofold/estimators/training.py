"""Run an inference method to its end with progress, checkpoints and a graceful Ctrl-C."""

import warnings
from typing import Any, NamedTuple

import jax
import numpy as np

from twofold.estimators.checkpoint import Checkpoint, Resumed
from twofold.estimators.progress import ProgressBar, graceful_interrupt
from twofold.inference import base
from twofold.inference.base import Algorithm
from twofold.typing import Keys


class NonFiniteEnergyError(ArithmeticError):
    """The energy stopped being a number, so there is nothing to learn from."""


class InterruptedFitWarning(UserWarning):
    """The fit was stopped by Ctrl-C; the model keeps what it had learned."""


class Outcome(NamedTuple):
    """Final states of all members, and energies per datum ``[epochs, S]``."""

    states: Any
    energies: np.ndarray


def train(
    algorithm: Algorithm,
    keys: Keys,
    problems: Any,
    schedule: Any,
    epochs: int,
    batches: int,
    verbose: bool | str,
    checkpoint: Checkpoint | None,
) -> Outcome:
    """Advance all members to ``epochs``, resuming from the checkpoint where there is one."""
    members = keys.shape[0]
    run = Resumed(
        base.init(algorithm, keys, problems),
        0,
        np.empty((0, members)),
        np.empty((0, members), np.int64),
    )
    if checkpoint is not None:
        run = checkpoint.load(like=run.states) or run
    with ProgressBar(verbose, epochs, batches, run.epoch) as bar, graceful_interrupt() as interrupt:
        for chunk in base.run(algorithm, keys, run.states, problems, schedule, run.epoch, epochs):
            energies = np.concatenate([run.energies, chunk.energies])
            skipped = np.concatenate([run.skipped, chunk.skipped])
            run = Resumed(chunk.states, chunk.epoch, energies, skipped)
            bar.update(run.epoch, float(chunk.energies[-1].mean()))
            done = run.epoch == epochs or interrupt.requested
            if checkpoint is not None and (done or checkpoint.due()):
                checkpoint.save(run)
            if interrupt.requested:
                break
    _report(run, epochs, batches)
    return Outcome(jax.block_until_ready(run.states), run.energies)


def _report(run: Resumed, epochs: int, batches: int) -> None:
    if run.epoch < epochs:
        warnings.warn(
            f"stopped by Ctrl-C after {run.epoch:,} of {epochs:,} epochs; the model keeps what it "
            "has learned so far",
            InterruptedFitWarning,
            stacklevel=4,
        )
    lost = np.flatnonzero(run.skipped[-1] >= batches)
    if lost.size:
        raise NonFiniteEnergyError(
            f"the energy is no longer finite (member(s) {lost.tolist()}, epoch {run.epoch}); "
            "lower learning_rate, use dtype='float64', or look for extreme values in the data"
        )
    if run.skipped.any():
        warnings.warn(
            f"{run.skipped.sum():,} updates had a non-finite energy and were skipped; "
            "if the fit is poor, lower learning_rate or use dtype='float64'",
            RuntimeWarning,
            stacklevel=4,
        )
