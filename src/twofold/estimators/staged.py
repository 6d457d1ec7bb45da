"""Fits in stages: members without and with z, the choice between them, and chains from the members.

All decisions are made on rows that the members held out (``inference.ensemble``). A latent input is
tried only if the residuals of the chains without it are not Gaussian (``latent_evidence``), and is
kept only if it predicts held-out rows better than those chains: a z that merely compensates for too
short chains costs more than it gains.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from twofold.core.memory import TooLargeError
from twofold.core.numerics import Padded
from twofold.estimators.latent import SIGNIFICANT, latent_evidence, needs_latent
from twofold.estimators.members import (
    Members,
    Task,
    add_draw_axis,
    fit_members,
    pick,
    score_as_mixture,
)
from twofold.estimators.out_of_bag import HeldOut
from twofold.estimators.stages import (
    LAST_STAGE,
    StageResult,
    begin_chains,
    run_stage,
    warn_if_unfinished,
)
from twofold.inference import ensemble, loop
from twofold.inference.ensemble import SCORE, STOP, Network, summarise
from twofold.inference.langevin import Langevin
from twofold.inference.loop import Result
from twofold.model.spec import BNNLV, SampledPosterior


class Staged(NamedTuple):
    """The fit of one data set: model, result, the members' energies, and the rows they held out."""

    model: BNNLV
    result: Result
    energies: np.ndarray
    held_out: HeldOut


@dataclass
class Fits:
    """Parallel fits of several data sets through all stages; ``stopped`` by Ctrl-C."""

    task: Task
    roles: list[np.ndarray]
    chosen: list[Members]
    chains: list[StageResult | None]
    stopped: bool = False

    def begin(self, group: Sequence[int]) -> None:
        """Start the chains of a group of data sets that share a model."""
        if self.stopped or not group or not isinstance(self.task.method, Langevin):
            return
        try:
            members = [self.chosen[i] for i in group]
            begun, self.stopped = begin_chains(self.task.select(group), members)
        except TooLargeError as error:
            sentence = f"{error}; the fit keeps the ensemble, without chains"
            warnings.warn(sentence, RuntimeWarning, stacklevel=6)
            return
        for index, chain in zip(group, begun, strict=True):
            self.chains[index] = chain

    def try_latent(self, model: BNNLV) -> None:
        """Fit with z if the residual noise is not Gaussian; keep z if it helps."""
        if self.stopped:
            return
        tried, helped = [], []
        for index, (members, chain) in enumerate(zip(self.chosen, self.chains, strict=True)):
            networks = members.best if chain is None else chain.start
            if latent_evidence(members, networks, pick(self.task.data, index)) < SIGNIFICANT:
                tried.append(index)
        if not tried:
            return
        roles = [self.roles[i] for i in tried]
        fitted, self.stopped = fit_members(self.task.select(tried), model, roles)
        for index, latent in zip(tried, fitted, strict=True):
            chain = self.chains[index]
            before = self.chosen[index].scores if chain is None else chain.fair_scores
            if needs_latent(before, latent):
                self.chosen[index], self.chains[index] = latent, None
                helped.append(index)
        self.begin(helped)

    def finish(self, model: BNNLV) -> None:
        """Run the chains of a model on all rows."""
        pairs = enumerate(zip(self.chosen, self.chains, strict=True))
        begun = {i: chain for i, (m, chain) in pairs if m.model == model and chain is not None}
        if self.stopped or not begun:
            return
        members, chains = [self.chosen[i] for i in begun], list(begun.values())
        last = LAST_STAGE, max(chain.steps for chain in chains)
        finished, self.stopped = run_stage(self.task.select(list(begun)), members, chains, *last)
        for index, chain in zip(begun, finished, strict=True):
            self.chains[index] = chain


def fit_staged(
    task: Task,
    models: Sequence[BNNLV],
    seeds: Sequence[int],
    starts: Sequence[Network] | None = None,
    groups: Sequence[np.ndarray | None] | None = None,
) -> list[Staged]:
    """Fit each data set: members and chains without z, with z if needed, and then the chains that
    predict held-out rows better, on all rows.

    ``models`` is one model, or one without and one with z. ``starts`` are the final states of an
    earlier fit of the same model, from which chains continue. ``groups`` labels the rows of each
    data set that are held out together.
    """
    method, runs, room, sizes = task.method, task.method.runs, task.data.x.shape[1], task.data.size
    roles = [
        ensemble.assign_roles(seed, runs, task.ensemble.folds, int(rows), room, group)
        for seed, rows, group in zip(seeds, sizes, groups or [None] * len(seeds), strict=True)
    ]
    stopped = False
    if starts is None:
        chosen, stopped = fit_members(task, models[0], roles)
    else:
        unscored = np.empty(0), np.empty((0, runs))
        chosen = [Members(models[0], *p, *unscored) for p in zip(starts, roles, strict=True)]
    not_begun: list[StageResult | None] = [None for _ in seeds]
    fits = Fits(task, roles, chosen, not_begun, stopped)
    fits.begin(range(len(seeds)))
    for latent in models[1:]:
        fits.try_latent(latent)
    for model in models:
        fits.finish(model)
    if isinstance(method, Langevin) and not fits.stopped:
        warn_if_unfinished(method, fits.chosen, fits.chains, int(np.max(sizes)))
    return [
        _summarise(method, members, chain, pick(task.data, index))
        for index, (members, chain) in enumerate(zip(fits.chosen, fits.chains, strict=True))
    ]


def _summarise(method: Any, members: Members, final: StageResult | None, data: Padded) -> Staged:
    """The result for a data set: its chains, or its members if there are none."""
    roles: tuple[int, ...] = (SCORE,)
    draws = scored = add_draw_axis(members.best)
    chains = None
    if final is not None:
        draws, scored, roles = final.draws, final.scored, (STOP, SCORE)
        divergences: Any = np.zeros(method.runs, int)
        chains = loop.Chains(*draws, divergences)
    posterior = SampledPosterior.of_chains(*draws)
    scores = members.scores  # empty if they have seen all rows
    if final is not None or len(scores):
        scores = score_as_mixture(method.nodes, members, scored, data, *roles)
    result = Result(posterior, method.nodes, chains=chains, out_of_bag=summarise(scores))
    held_out = HeldOut(scored, members.held_out(*roles), scores)
    return Staged(members.model, result, members.energies.mean(axis=1), held_out)
