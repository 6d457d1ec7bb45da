"""Fits in stages: members without and with z, the choice between them, and chains from the members.

All decisions are made on rows that the members held out (``inference.ensemble``). A latent input is
tried only where the members without it leave residuals that are not Gaussian: ``latent_evidence``.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.stats import chi2

from twofold.core.memory import TooLargeError
from twofold.core.numerics import Padded
from twofold.estimators.training import Outcome
from twofold.inference import ensemble, langevin
from twofold.inference.ensemble import SCORE, STOP, TRAIN, Ensemble, Network, Share, summarise
from twofold.inference.langevin import FIRST_STEP, STEPS, Langevin, Walk
from twofold.inference.loop import Chains, Result
from twofold.model.spec import BNNLV, SampledPosterior

LAST_STAGE = 2**31 - 1
WORTH_IT = 0.02
SURE = 2.0
SIGNIFICANT = 0.01


class Staged(NamedTuple):
    """What is kept of one data set: its model, the result, and the members' energies."""

    model: BNNLV
    result: Result
    energies: np.ndarray


class Members(NamedTuple):
    """The members of one data set: their best networks, what each row is to each of them, the
    out-of-bag score of each row, and their energies."""

    model: BNNLV
    best: Network
    roles: np.ndarray
    scores: np.ndarray
    energies: np.ndarray

    def held_out(self, *roles: int) -> np.ndarray:
        """Which rows are of one of the roles to a member."""
        return np.isin(self.roles, roles)


Train = Callable[..., Outcome]


def score_rows(
    nodes: int, members: Members, draws: Network, data: Padded, *roles: int
) -> np.ndarray:
    """Log-density of each row by the members, or chains, to whom it is of these roles."""
    held_out = members.held_out(*roles)
    found = ensemble.out_of_bag_scores(members.model, nodes, draws, held_out, data)
    scores = np.asarray(found, np.float64)[: int(data.size)]
    weight = None if data.weight is None else np.asarray(data.weight, np.float64)[: len(scores)]
    return ensemble.weigh_scores(scores, weight)


def fit_members(
    method: Ensemble,
    model: BNNLV,
    data: Padded,
    roles: Sequence[np.ndarray],
    keys: Any,
    train: Train,
) -> tuple[list[Members], bool]:
    """The members of each data set, and whether Ctrl-C ended their run."""
    runs, sets = method.runs, range(len(roles))
    sizes = np.asarray(data.size)
    setup = method.set_up(model, sizes, str(data.x.dtype))
    start = jax.device_get(ensemble.draw_starts(model, str(data.x.dtype), keys))
    role: Any = np.concatenate(roles)
    order: Any = np.argsort(role, axis=1, kind="stable").astype(np.int32)
    share = Share(_repeat(data, runs), role, order, start)
    title = "fitting with a latent input" if model.latents else "fitting"
    outcome = train("members", title, model, setup, keys, share)
    states = jax.device_get(outcome.states)
    found = []
    for index in sets:
        own = slice(index * runs, (index + 1) * runs)
        best = jax.tree.map(lambda leaf, own=own: leaf[own], states.best)
        # When the run ended depends on the clock; after its last change a member's energy is none.
        last = 1 + int(np.max(states.best_epoch[own]))
        members = Members(model, best, roles[index], np.empty(0), outcome.energies[:last, own])
        scores = score_rows(method.nodes, members, _single(best), _one(data, index), SCORE)
        found.append(members._replace(scores=scores))
    return found, outcome.stopped


def latent_evidence(members: Members, data: Padded) -> float:
    """p-value of the hypothesis that the noise is Gaussian, given x and a member.

    Neyman's smooth test: under it the predictive distribution function at a held-out y is uniform.
    The third and fourth Legendre polynomials, which see skewness and tails, and their products with
    each input, which see them where they differ over x, are then uncorrelated and have mean 0.
    """
    rows = int(data.size)
    held_out = members.held_out(STOP, SCORE)
    ranks = ensemble.out_of_bag_ranks(members.model, members.best, held_out, data)
    ranks = np.asarray(ranks, np.float64)[:rows]
    known = np.isfinite(ranks).all(axis=1)
    u, x = 2.0 * ranks[known] - 1.0, np.asarray(data.x, np.float64)[:rows][known]
    if len(x) < 2:
        return 1.0
    shapes = [7**0.5 * (5 * u**3 - 3 * u) / 2, 3 * (35 * u**4 - 30 * u**2 + 3) / 8]
    weights = np.column_stack([np.ones(len(x)), x])
    products = np.concatenate([weights[:, :, None] * shape[:, None] for shape in shapes], axis=1)
    statistic = float(np.sum(np.square(products.sum(axis=0)) / len(x)))
    return float(chi2.sf(statistic, products[0].size))


def choose(simple: Members, latent: Members) -> Members:
    """The members without z, unless held-out rows are predicted clearly better with it."""
    gain = summarise(latent.scores - simple.scores)
    return latent if gain.score > SURE * gain.standard_error else simple


def _single(network: Network) -> Network:
    """With an axis of one draw behind that of the members."""
    return jax.tree.map(lambda leaf: leaf[:, None], network)


def _one(data: Padded, index: int) -> Padded:
    return jax.tree.map(lambda leaf: leaf[index], data)


def _some(data: Padded, group: Sequence[int]) -> Padded:
    return jax.tree.map(lambda leaf: leaf[np.array(group)], data)


def _repeat(data: Padded, times: int) -> Padded:
    return jax.tree.map(lambda leaf: np.repeat(leaf, times, axis=0), data)


def _join(parts: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


class Chained(NamedTuple):
    """Chains of one data set after a stage: positions, step sizes, draws, and the scores of the
    rows they hold out: of all of them, and of those that have not stopped their start."""

    start: Network
    step_size: np.ndarray
    draws: Network
    scores: np.ndarray
    fair_scores: np.ndarray


def sample_chains(
    method: Langevin, members: Sequence[Members], data: Padded, keys: Any, train: Train
) -> tuple[list[Chained | None], bool]:
    """Chains from the members of data sets that share a model, None where they predict held-out
    rows worse than their start; and whether Ctrl-C ended them. A start without scores has seen all
    rows, and is not compared with."""
    model, runs, sets = members[0].model, method.chains, range(len(members))
    settings = method.nodes, method.samples, method.energy_error, method.adjusted
    config = langevin.Config(model, *settings)
    own, repeated = [_one(data, index) for index in sets], _repeat(data, runs)
    first = np.full(runs, FIRST_STEP, data.x.dtype)
    latest = [Chained(m.best, first, _single(m.best), m.scores, m.scores) for m in members]

    def run_stage(name: str, title: str, stream: int, counted: Any, steps: int) -> bool:
        start = _join([one.start for one in latest])
        walk = Walk(repeated, counted, start, _join([one.step_size for one in latest]))
        own_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, stream)
        setup = langevin.set_up(config, max(1, steps // STEPS), len(members))
        outcome = train(name, f"sampling, {title}", model, setup, own_keys, walk)
        for index in sets:
            states = jax.tree.map(
                lambda leaf, at=slice(index * runs, (index + 1) * runs): np.asarray(leaf[at]),
                outcome.states,
            )
            draws = Network(states.weights, states.log_noise)
            last = Network(states.weights[:, -1], states.log_noise[:, -1])
            scores = latest[index].scores, latest[index].fair_scores
            if stream != LAST_STAGE:
                score = partial(score_rows, method.nodes, members[index], draws, own[index])
                scores = score(STOP, SCORE), score(SCORE)
            latest[index] = Chained(last, np.exp(states.log_step), draws, *scores)
        return outcome.stopped

    training = np.concatenate([m.held_out(TRAIN) for m in members])
    stages, stopped = method.stages(model, int(np.max(data.size))), False
    last = 2 * stages[1]
    for number, length in enumerate(stages):
        before = list(latest)
        stopped = run_stage(f"chains {number}", "held-out rows", number, training, length)
        if stopped or (number and not any(map(_improved, before, latest))):
            break
        last = max(last, 2 * length)
    kept = [is_kept(*pair) for pair in zip(members, latest, strict=True)]
    if any(kept) and not stopped:
        every = np.concatenate([m.held_out(TRAIN, STOP, SCORE) for m in members])
        stopped = run_stage("chains", "all rows", LAST_STAGE, every, last)
    return [one if keep else None for one, keep in zip(latest, kept, strict=True)], stopped


def _improved(before: Chained, after: Chained) -> bool:
    """Whether a stage has paid."""
    if not len(before.scores):
        return True
    return summarise(after.scores - before.scores).score > WORTH_IT


def is_kept(members: Members, chains: Chained) -> bool:
    """Whether chains are to be kept: unless they are clearly worse than their start, on rows that
    have not stopped it."""
    if not len(members.scores):
        return True
    loss = summarise(members.scores - chains.fair_scores)
    return not loss.score > loss.standard_error


def fit_staged(
    method: Any,
    models: Sequence[BNNLV],
    data: Padded,
    seeds: Sequence[int],
    keys: Any,
    train: Train,
    starts: Sequence[Network] | None = None,
) -> list[Staged]:
    """Fit each data set: the members of each model, the choice among the models, the chains.

    ``models`` is one model, or one without and one with z. ``starts`` is where the chains of an
    earlier fit of the same model ended: new ones continue from there.
    """
    quick, runs = method.members if isinstance(method, Langevin) else method, method.runs
    room, sets = data.x.shape[1], range(len(seeds))
    roles = [
        ensemble.deal_roles(seed, runs, quick.folds, int(rows), room)
        for seed, rows in zip(seeds, data.size, strict=True)
    ]
    if starts is not None:
        chosen, stopped = [], False
        for start, own in zip(starts, roles, strict=True):
            chosen.append(Members(models[0], start, own, np.empty(0), np.empty((0, runs))))
    else:
        chosen, stopped = fit_members(quick, models[0], data, roles, keys, train)
    tried = []
    if len(models) > 1 and not stopped:
        tried = [i for i in sets if latent_evidence(chosen[i], _one(data, i)) < SIGNIFICANT]
    if tried:
        own_keys = keys[_places(tried, runs)]
        own_roles = [roles[i] for i in tried]
        latent, stopped = fit_members(
            quick, models[1], _some(data, tried), own_roles, own_keys, train
        )
        for index, other in zip(tried, latent, strict=True):
            chosen[index] = choose(chosen[index], other)
    results = [_of_members(quick, members) for members in chosen]
    if not isinstance(method, Langevin) or stopped:
        return results
    for model in dict.fromkeys(members.model for members in chosen):
        group = [index for index, members in enumerate(chosen) if members.model == model]
        members, own_keys = [chosen[index] for index in group], keys[_places(group, runs)]
        try:
            chains, stopped = sample_chains(method, members, _some(data, group), own_keys, train)
        except TooLargeError as error:
            sentence = f"{error}; the ensemble is kept as it is, without chains"
            warnings.warn(sentence, RuntimeWarning, stacklevel=5)
            continue
        for index, found in zip(group, chains, strict=True):
            if found is not None:
                results[index] = _of_chains(method, chosen[index], found)
        if stopped:
            break
    return results


def _places(group: Sequence[int], runs: int) -> np.ndarray:
    """The places of the members of some data sets."""
    return np.concatenate([np.arange(index * runs, (index + 1) * runs) for index in group])


def _of_members(method: Ensemble, members: Members) -> Staged:
    posterior = SampledPosterior(*members.best)
    result = Result(posterior, method.nodes, out_of_bag=summarise(members.scores))
    return Staged(members.model, result, members.energies.mean(axis=1))


def _of_chains(method: Langevin, members: Members, found: Chained) -> Staged:
    posterior = SampledPosterior(*(leaf.reshape(-1, leaf.shape[-1]) for leaf in found.draws))
    divergences: Any = np.zeros(method.chains, int)
    chains = Chains(*found.draws, divergences)
    result = Result(posterior, method.nodes, chains=chains, out_of_bag=summarise(found.scores))
    return Staged(members.model, result, members.energies.mean(axis=1))
