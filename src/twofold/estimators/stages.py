"""Stages of chains, whose number depends on held-out scores."""

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from twofold.estimators.latent import SIGNIFICANT_ERRORS
from twofold.estimators.members import Members, Task, add_draw_axis, join, pick, repeat, score_rows
from twofold.inference import langevin
from twofold.inference.ensemble import SCORE, STOP, TRAIN, Network, OutOfBag, summarise
from twofold.inference.langevin import FIRST_STEP, LATE_FACTOR, STEPS, Langevin, Problem

LAST_STAGE = 2**31 - 1
WORTHWHILE_GAIN, REPORTED_GAIN = 0.0075, 0.05  # nats per row


class StageResult(NamedTuple):
    """Chains of one data set after a stage: positions, step sizes, draws, scores of held-out rows
    (of all, and of those not used for early stopping) and the draws with these scores, number of
    steps planned for the stage on all rows, and gain of the last stage on held-out rows."""

    start: Network
    step_size: np.ndarray
    draws: Network
    scores: np.ndarray
    fair_scores: np.ndarray
    scored: Network
    steps: int
    gain: OutOfBag | None = None


def run_stage(
    task: Task, members: Sequence[Members], chains: Sequence[StageResult], number: int, steps: int
) -> tuple[list[StageResult], bool]:
    """Run one more stage of the chains of data sets that share a model (the last stage uses all
    rows); also returns whether Ctrl-C ended it."""
    method: Langevin = task.method
    model, runs = members[0].model, method.chains
    settings = method.nodes, method.samples, method.energy_error, method.adjusted
    config, last = langevin.Config(model, *settings), number == LAST_STAGE
    roles = (TRAIN, STOP, SCORE) if last else (TRAIN,)
    counted: Any = np.concatenate([one.held_out(*roles) for one in members])
    start, step_size = join([(one.start, one.step_size) for one in chains])
    late_factor: Any = np.full(len(counted), LATE_FACTOR if last else 1.0, task.data.x.dtype)
    problem = Problem(repeat(task.data, runs), counted, start, step_size, late_factor)
    keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(task.keys, number)
    setup = langevin.set_up(config, max(1, steps // STEPS), len(members))
    name, title = ("chains", "on all rows") if last else (f"held out {number}", "on training rows")
    outcome = task.train(name, f"sampling {title}", model, setup, keys, problem)
    if number and outcome.stopped and 2 * outcome.epoch < setup.epochs:
        return list(chains), True  # draws are kept from the middle of a stage on
    results = []
    for index, (member, before) in enumerate(zip(members, chains, strict=True)):
        at = slice(index * runs, (index + 1) * runs)
        states = jax.tree.map(lambda leaf, at=at: np.asarray(leaf[at]), outcome.states)
        draws = Network(states.weights, states.log_noise)
        end = Network(states.weights[:, -1], states.log_noise[:, -1])
        after = before._replace(start=end, step_size=np.exp(states.log_step), draws=draws)
        if not last:
            score = partial(score_rows, method.nodes, member, draws, pick(task.data, index))
            after = after._replace(
                scores=score(STOP, SCORE), fair_scores=score(SCORE), scored=draws
            )
        results.append(after)
    return results, outcome.stopped


def begin_chains(task: Task, members: Sequence[Members]) -> tuple[list[StageResult | None], bool]:
    """Chains on the rows that the members trained on, extended while held-out scores improve; None
    if the scores are worse than those of the members. Members of an earlier fit have seen all rows,
    so they have no scores and are no baseline."""
    stages = task.method.stages(members[0].model, int(np.max(task.data.size)))
    first = np.full(task.method.chains, FIRST_STEP, task.data.x.dtype)
    latest, stopped = [], False
    for member in members:
        draws, scores = add_draw_axis(member.best), member.scores
        latest.append(StageResult(member.best, first, draws, scores, scores, draws, stages[-2]))
    for number, length in enumerate(stages):
        before = latest
        latest, stopped = run_stage(task, members, before, number, length)
        if number:
            pairs = zip(before, latest, strict=True)
            latest = [new._replace(gain=summarise(new.scores - old.scores)) for old, new in pairs]
        if stopped or (number and not any(map(is_worthwhile, before, latest))):
            break
        latest = [one._replace(steps=max(one.steps, 2 * length)) for one in latest]
    results = zip(members, latest, strict=True)
    return [chains if is_kept(member, chains) else None for member, chains in results], stopped


def is_worthwhile(before: StageResult, after: StageResult) -> bool:
    """Whether the next stage is expected to be worthwhile, extrapolating the decreasing gains."""
    gain, error, _ = after.gain or (0.0, 0.0, 0)
    previous = before.gain.score if before.gain else gain
    expected = gain * min(1.0, gain / previous) if previous > 0.0 else gain
    return gain > error and expected > WORTHWHILE_GAIN


def warn_if_unfinished(
    method: Langevin, chosen: Sequence[Members], chains: Sequence[StageResult | None], rows: int
) -> None:
    """Warn if held-out scores were still improving in the longest stage."""
    gains, steps = [], 0
    for member, chain in zip(chosen, chains, strict=True):
        longest = 2 * method.stages(member.model, rows)[-1]
        if chain is not None and chain.gain is not None and chain.steps == longest:
            gains.append(chain.gain.score)
            steps = max(steps, 2 * longest)
    if gains and max(gains) > REPORTED_GAIN:
        sentence = "predictions of held-out rows were still improving when the chains ended (by "
        sentence += f"{max(gains):.2f} nats per row in the last stage); for a longer run, use "
        sentence += f"inference=Langevin(steps={steps})"
        warnings.warn(sentence, ConvergenceWarning, stacklevel=6)


def is_kept(members: Members, chains: StageResult) -> bool:
    """Whether to keep the chains: unless they score significantly worse than the members on rows
    that were not used for early stopping. The epistemic part of the members is often a third of
    that of the chains, so chains are not dropped by chance."""
    if not len(members.scores):
        return True
    loss = summarise(members.scores - chains.fair_scores)
    return not loss.score > SIGNIFICANT_ERRORS * loss.standard_error
