"""Fits in stages: members with and without z, the choice between them, and chains from the members.

All decisions are by rows that the members kept out (``inference.stopped``).
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from twofold.core.memory import TooLargeError
from twofold.core.numerics import Padded
from twofold.estimators.training import Outcome
from twofold.inference import langevin, stopped
from twofold.inference.langevin import STEPS, Langevin, Walk
from twofold.inference.loop import Chains, Result
from twofold.inference.stopped import Network, StoppedEnsemble, summarise
from twofold.model.spec import BNNLV, SampledPosterior

FIRST_STAGE = 500
MOST_STEPS = 8_000
LAST_STAGE = 2**31 - 1  # no stage begins after so many steps
WORTH_IT = 0.005
SURE = 2.0


class Staged(NamedTuple):
    """What is kept of one data set: its model, the result, and the members' energies."""

    model: BNNLV
    result: Result
    energies: np.ndarray


class Members(NamedTuple):
    """The stopped members of one data set."""

    model: BNNLV
    best: Network
    views: np.ndarray
    scores: np.ndarray
    energies: np.ndarray


Train = Callable[..., Outcome]


def kept_out(method: StoppedEnsemble, members: Members, draws: Network, data: Any, what: str):
    """Log-density of each row by the members, or chains, that kept it out."""
    found = stopped.scores_of_kept_out(
        members.model, method.nodes, method.held_out, what, draws, members.views, data
    )
    scores = np.asarray(found, np.float64)[: int(data.size)]
    weight = None if data.weight is None else np.asarray(data.weight, np.float64)[: len(scores)]
    return stopped.weigh_scores(scores, weight)


def fit_members(
    method: StoppedEnsemble, model: BNNLV, data: Padded, sizes: np.ndarray, keys: Any, train: Train
) -> tuple[list[Members], bool]:
    """Stopped members of each data set, and whether Ctrl-C ended their run."""
    setup = method.set_up(model, sizes, str(data.x.dtype))
    outcome = train("members", model, setup, keys, data, method.runs)
    states = jax.device_get(outcome.states)
    found = []
    for index in range(len(sizes)):
        own = slice(index * method.runs, (index + 1) * method.runs)
        best = jax.tree.map(lambda leaf, own=own: leaf[own], states.best)
        # When the run ended depends on the clock; from here on nothing has changed.
        last = int(np.max(states.best_epoch[own])) * stopped.PATIENCE + stopped.FEWEST_WAITED
        views, energies = states.view[own], outcome.energies[:last, own]
        members = Members(model, best, views, np.empty(0), energies)
        scores = kept_out(method, members, _single(best), _one(data, index), "held out")
        found.append(members._replace(scores=scores))
    return found, outcome.stopped


def choose(candidates: Sequence[Members]) -> Members:
    """The simplest; a later one only where its rows kept out are surely predicted better."""
    best = candidates[0]
    for other in candidates[1:]:
        gain = summarise(other.scores - best.scores)
        if gain.score > SURE * gain.standard_error:
            best = other
    return best


def _single(network: Network) -> Network:
    """With an axis of one draw behind that of the members."""
    return jax.tree.map(lambda leaf: leaf[:, None], network)


def _one(data: Padded, index: int) -> Padded:
    return jax.tree.map(lambda leaf: leaf[index], data)


def _stack(parts: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *parts)


def _join(parts: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


class Chained(NamedTuple):
    """Chains of one data set at their best stage: positions, step sizes, draws, score."""

    start: Network
    step_size: np.ndarray
    draws: Network
    score: float


def walk_on(
    method: Langevin, members: Sequence[Members], data: Padded, keys: Any, train: Train
) -> tuple[list[tuple[Network, np.ndarray] | None], bool]:
    """Chains from the members of data sets that share a model: for each the draws ``[K, R, …]`` and
    the scores of the rows kept out, None where chains are worse than their start; and whether
    Ctrl-C ended them."""
    model, quick, runs = members[0].model, method.members, method.chains
    config = langevin.Config(model, method.nodes, method.samples, method.energy_error)
    sets = range(len(members))
    own = [_one(data, index) for index in sets]
    repeated = _join([jax.tree.map(lambda leaf: np.stack([leaf] * runs), one) for one in own])
    rows = [_masks(method.members, m.views, d) for m, d in zip(members, own, strict=True)]
    first = np.full(runs, langevin.FIRST_STEP, data.x.dtype)
    best = []
    for m, d in zip(members, own, strict=True):
        start = summarise(kept_out(quick, m, _single(m.best), d, "judging")).score
        best.append(Chained(m.best, first, _single(m.best), start))
    first_of_all, latest, improved = list(best), list(best), [True] * len(members)
    most, length, taken, is_stopped = method.steps or MOST_STEPS, FIRST_STAGE, 0, False

    def stage(
        name: str, stream: int, counted: Any, starts: Sequence[Chained], steps: int
    ) -> Outcome:
        start = _join([one.start for one in starts])
        walk = Walk(repeated, counted, start, _join([one.step_size for one in starts]))
        epochs = max(1, steps // STEPS)
        own_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, stream)
        setup = langevin.set_up(config, epochs, len(members))
        return train(name, model, setup, own_keys, walk, 1)

    while taken < most and any(improved) and not is_stopped:
        steps = min(length, most - taken)
        outcome = stage(f"chains {taken}", taken, np.concatenate(rows), latest, steps)
        is_stopped, taken, length = outcome.stopped, taken + steps, 2 * length
        for index in sets:
            latest[index] = _chained(quick, members[index], own[index], outcome.states, index, runs)
            improved[index] = latest[index].score > best[index].score + WORTH_IT
            if latest[index].score > best[index].score:
                best[index] = latest[index]
    kept: dict[int, tuple[Network, np.ndarray]] = {}
    going = [index for index in sets if best[index] is not first_of_all[index]]
    for index in going:
        scores = kept_out(quick, members[index], best[index].draws, own[index], "held out")
        kept[index] = best[index].draws, scores
    if going and not is_stopped:
        every = np.stack([np.arange(d.x.shape[0]) < d.size for d in own for _ in range(runs)])
        length = max(FIRST_STAGE, taken // 2)
        outcome = stage("chains on all rows", LAST_STAGE, every, best, length)
        for index in going:
            last = _chained(quick, members[index], own[index], outcome.states, index, runs)
            kept[index] = last.draws, kept[index][1]
        is_stopped = outcome.stopped
    return [kept.get(index) for index in sets], is_stopped


def _masks(method: StoppedEnsemble, views: np.ndarray, data: Padded) -> np.ndarray:
    """The rows that each member learns from."""

    def mask(view: jax.Array) -> jax.Array:
        return stopped.member_rows(method.held_out, view, data).mask("learning")

    return np.asarray(jax.jit(jax.vmap(mask))(views))


def _chained(
    method: StoppedEnsemble, members: Members, data: Padded, states: Any, index: int, runs: int
) -> Chained:
    states = jax.tree.map(lambda leaf: np.asarray(leaf[index * runs : (index + 1) * runs]), states)
    draws = Network(states.weights, states.log_noise)
    last = Network(states.weights[:, -1], states.log_noise[:, -1])
    score = summarise(kept_out(method, members, draws, data, "judging")).score
    return Chained(last, np.exp(states.log_step), draws, score)


def fit_staged(
    method: Any,
    models: Sequence[BNNLV],
    data: Padded,
    sizes: np.ndarray,
    keys: Any,
    train: Train,
) -> list[Staged]:
    """Fit each data set: the members of each model, the choice among the models, the chains."""
    quick = method.members if isinstance(method, Langevin) else method
    found, is_stopped = [], False
    for model in models:
        members, is_stopped = fit_members(quick, model, data, sizes, keys, train)
        found.append(members)
        if is_stopped:
            break
    chosen = [choose(candidates) for candidates in zip(*found, strict=True)]
    results = [_of_members(quick, members) for members in chosen]
    if not isinstance(method, Langevin) or is_stopped:
        return results
    runs = method.chains
    for model in dict.fromkeys(members.model for members in chosen):
        group = [index for index, members in enumerate(chosen) if members.model == model]
        places = np.concatenate([np.arange(i * runs, (i + 1) * runs) for i in group])
        some = jax.tree.map(lambda leaf, group=group: leaf[np.array(group)], data)
        members = [chosen[index] for index in group]
        try:
            found_chains, is_stopped = walk_on(method, members, some, keys[places], train)
        except TooLargeError as error:
            sentence = f"{error}; the members are kept as they are, without chains"
            warnings.warn(sentence, RuntimeWarning, stacklevel=5)
            continue
        for index, own in zip(group, found_chains, strict=True):
            if own is not None:
                results[index] = _of_chains(method, chosen[index], *own)
        if is_stopped:
            break
    return results


def _of_members(method: StoppedEnsemble, members: Members) -> Staged:
    posterior = SampledPosterior(*members.best)
    result = Result(posterior, method.nodes, out_of_bag=summarise(members.scores))
    return Staged(members.model, result, members.energies.mean(axis=1))


def _of_chains(method: Langevin, members: Members, draws: Network, scores: np.ndarray) -> Staged:
    posterior = SampledPosterior(*(leaf.reshape(-1, leaf.shape[-1]) for leaf in draws))
    divergences: Any = np.zeros(method.chains, int)
    chains = Chains(*draws, divergences)
    result = Result(posterior, method.nodes, chains=chains, out_of_bag=summarise(scores))
    return Staged(members.model, result, members.energies.mean(axis=1))
