"""Fits in stages: members without and with z, the choice between them, and chains from the members.

All decisions are made on rows that the members held out (``inference.ensemble``). A latent input is
tried only where the chains without it leave residuals that are not Gaussian (``latent_evidence``),
and must predict held-out rows better than these chains: a z that only makes up for what longer
chains would learn costs more than it brings.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.special import eval_legendre
from scipy.stats import chi2
from sklearn.exceptions import ConvergenceWarning

from twofold.core.memory import TooLargeError
from twofold.core.numerics import Padded
from twofold.estimators.training import Outcome
from twofold.inference import ensemble, langevin
from twofold.inference.ensemble import (
    SCORE,
    STOP,
    TRAIN,
    Ensemble,
    Network,
    OutOfBag,
    Share,
    summarise,
)
from twofold.inference.langevin import FIRST_STEP, STEPS, Langevin, Walk
from twofold.inference.loop import Chains, Result
from twofold.model.spec import BNNLV, SampledPosterior

LAST_STAGE = 2**31 - 1
WORTH_IT, WORTH_SAYING = 0.0075, 0.05  # nats a row
SURE = 2.0
SIGNIFICANT = 0.01
NEGLIGIBLE = 1e-6
ORDERS = (3, 4, 5, 6)  # the first two are what a network's mean and noise fit


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
UNSCORED = OutOfBag(0.0, 0.0, 0)


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


def latent_evidence(members: Members, networks: Network, data: Padded) -> float:
    """p-value of the hypothesis that the noise is Gaussian, given x and a network: that of each
    member, or where its chain has come to.

    Neyman's smooth test: under it the predictive distribution function at a held-out y is uniform.
    The third to sixth Legendre polynomials, which see skewness, tails and humps, and their products
    with functions of the inputs that span what is linear in them, which see where they differ over
    x, are then uncorrelated and have mean 0.
    """
    rows = int(data.size)
    held_out = members.held_out(STOP, SCORE)
    ranks = ensemble.out_of_bag_ranks(members.model, networks, held_out, data)
    ranks = np.asarray(ranks, np.float64)[:rows]
    known = np.isfinite(ranks).all(axis=1)
    u, x = 2.0 * ranks[known] - 1.0, np.asarray(data.x, np.float64)[:rows][known]
    if len(x) < 2:
        return 1.0
    shapes = [(2 * k + 1) ** 0.5 * eval_legendre(k, u) for k in ORDERS]
    basis, sizes, _ = np.linalg.svd(np.column_stack([np.ones(len(x)), x]), full_matrices=False)
    weights = len(x) ** 0.5 * basis[:, sizes > NEGLIGIBLE * sizes[0]]
    products = np.concatenate([weights[:, :, None] * shape[:, None] for shape in shapes], axis=1)
    statistic = float(np.sum(np.square(products.sum(axis=0)) / len(x)))
    return float(chi2.sf(statistic, products[0].size))


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
    """Chains of one data set after a stage: positions, step sizes, draws, the scores of the rows
    they hold out (of all of them, and of those that have not stopped their start), how many steps
    the stage on all rows is to have, and what the last stage has gained on held-out rows."""

    start: Network
    step_size: np.ndarray
    draws: Network
    scores: np.ndarray
    fair_scores: np.ndarray
    steps: int
    gain: OutOfBag | None = None


def run_stage(
    method: Langevin,
    members: Sequence[Members],
    chains: Sequence[Chained],
    data: Padded,
    keys: Any,
    train: Train,
    number: int,
    steps: int,
) -> tuple[list[Chained], bool]:
    """Chains of data sets that share a model after one more stage, the last one on all rows; and
    whether Ctrl-C ended it."""
    model, runs = members[0].model, method.chains
    settings = method.nodes, method.samples, method.energy_error, method.adjusted
    last = number == LAST_STAGE
    roles = (TRAIN, STOP, SCORE) if last else (TRAIN,)
    counted: Any = np.concatenate([one.held_out(*roles) for one in members])
    start = _join([one.start for one in chains])
    walk = Walk(_repeat(data, runs), counted, start, _join([one.step_size for one in chains]))
    own_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, number)
    config = langevin.Config(model, *settings)
    setup = langevin.set_up(config, max(1, steps // STEPS), len(members))
    name, title = ("chains", "all rows") if last else (f"held out {number}", "held-out rows")
    outcome = train(name, f"sampling, {title}", model, setup, own_keys, walk)
    if number and outcome.stopped and 2 * outcome.epoch < setup.epochs:
        return list(chains), True  # nothing worth keeping is drawn before the middle of a stage
    found = []
    for index, (own, before) in enumerate(zip(members, chains, strict=True)):
        at = slice(index * runs, (index + 1) * runs)
        states = jax.tree.map(lambda leaf, at=at: np.asarray(leaf[at]), outcome.states)
        draws = Network(states.weights, states.log_noise)
        end = Network(states.weights[:, -1], states.log_noise[:, -1])
        scores = before.scores, before.fair_scores
        if not last:
            score = partial(score_rows, method.nodes, own, draws, _one(data, index))
            scores = score(STOP, SCORE), score(SCORE)
        found.append(
            Chained(end, np.exp(states.log_step), draws, *scores, before.steps, before.gain)
        )
    return found, outcome.stopped


def begin_chains(
    method: Langevin, members: Sequence[Members], data: Padded, keys: Any, train: Train
) -> tuple[list[Chained | None], bool]:
    """Chains on the rows that the members trained on, as long as held-out rows gain by it; None
    where these are predicted worse than by the members. A start without scores has seen all rows,
    and is not compared with."""
    stages = method.stages(members[0].model, int(np.max(data.size)))
    first = np.full(method.chains, FIRST_STEP, data.x.dtype)
    latest, stopped = (
        [Chained(m.best, first, _single(m.best), m.scores, m.scores, stages[-2]) for m in members],
        False,
    )
    for number, length in enumerate(stages):
        before = latest
        latest, stopped = run_stage(method, members, before, data, keys, train, number, length)
        if number:
            pairs = zip(before, latest, strict=True)
            latest = [new._replace(gain=summarise(new.scores - old.scores)) for old, new in pairs]
        if stopped or (number and not any(map(_would_pay, before, latest))):
            break
        latest = [one._replace(steps=max(one.steps, 2 * length)) for one in latest]
    found = zip(members, latest, strict=True)
    return [chains if is_kept(own, chains) else None for own, chains in found], stopped


def _would_pay(before: Chained, after: Chained) -> bool:
    """Whether the next stage is expected to, if the gains of stages go on falling as they did."""
    gain, error, _ = after.gain or UNSCORED
    previous = before.gain.score if before.gain else gain
    expected = gain * min(1.0, gain / previous) if previous > 0.0 else gain
    return gain > error and expected > WORTH_IT


def _say_unfinished(
    method: Langevin, chosen: Sequence[Members], chains: Sequence[Chained | None], rows: int
) -> None:
    """A warning where even the longest stage has paid well."""
    gains, steps = [], 0
    for own, chain in zip(chosen, chains, strict=True):
        longest = 2 * method.stages(own.model, rows)[-1]
        if chain is not None and chain.gain is not None and chain.steps == longest:
            gains.append(chain.gain.score)
            steps = max(steps, 2 * longest)
    if gains and max(gains) > WORTH_SAYING:
        warnings.warn(
            f"predictions of held-out rows were still improving when the chains ended (by "
            f"{max(gains):.2f} nats a row in the last stage); a longer run may predict better: "
            f"inference=Langevin(steps={steps})",
            ConvergenceWarning,
            stacklevel=6,
        )


def is_kept(members: Members, chains: Chained) -> bool:
    """Whether chains are to be kept: unless they are clearly worse than their start, on rows that
    have not stopped it."""
    if not len(members.scores):
        return True
    loss = summarise(members.scores - chains.fair_scores)
    return not loss.score > loss.standard_error


def needs_latent(scores: np.ndarray, latent: Members) -> bool:
    """Whether held-out rows are predicted clearly better with z than by what was fitted without."""
    gain = summarise(latent.scores - scores)
    return gain.score > SURE * gain.standard_error


@dataclass
class Fits:
    """Fits of several data sets side by side, from stage to stage; ``stopped`` is Ctrl-C's."""

    method: Any
    quick: Ensemble
    data: Padded
    keys: Any
    train: Train
    roles: list[np.ndarray]
    chosen: list[Members]
    chains: list[Chained | None]
    stopped: bool = False

    def of(self, group: Sequence[int]) -> tuple[Padded, Any]:
        """Data and keys of some of them."""
        return _some(self.data, group), self.keys[_places(group, self.method.runs)]

    def begin(self, group: Sequence[int]) -> None:
        """The chains of some, which share a model."""
        if self.stopped or not group or not isinstance(self.method, Langevin):
            return
        own, (data, keys) = [self.chosen[i] for i in group], self.of(group)
        try:
            found, self.stopped = begin_chains(self.method, own, data, keys, self.train)
        except TooLargeError as error:
            sentence = f"{error}; the ensemble is kept as it is, without chains"
            warnings.warn(sentence, RuntimeWarning, stacklevel=6)
            return
        for index, chain in zip(group, found, strict=True):
            self.chains[index] = chain

    def try_latent(self, model: BNNLV) -> None:
        """With z, where the noise that is left is not Gaussian; kept where it helps."""
        if self.stopped:
            return
        tried, helped = [], []
        for index, (own, chain) in enumerate(zip(self.chosen, self.chains, strict=True)):
            networks = own.best if chain is None else chain.start
            if latent_evidence(own, networks, _one(self.data, index)) < SIGNIFICANT:
                tried.append(index)
        if not tried:
            return
        roles, (data, keys) = [self.roles[i] for i in tried], self.of(tried)
        found, self.stopped = fit_members(self.quick, model, data, roles, keys, self.train)
        for index, latent in zip(tried, found, strict=True):
            chain = self.chains[index]
            before = self.chosen[index].scores if chain is None else chain.fair_scores
            if needs_latent(before, latent):
                self.chosen[index], self.chains[index] = latent, None
                helped.append(index)
        self.begin(helped)

    def finish(self, model: BNNLV) -> None:
        """The chains of a model, on all rows."""
        own = enumerate(zip(self.chosen, self.chains, strict=True))
        begun = {i: chain for i, (m, chain) in own if m.model == model and chain is not None}
        if self.stopped or not begun:
            return
        members, (data, keys) = [self.chosen[i] for i in begun], self.of(list(begun))
        chains = list(begun.values())
        arguments = self.method, members, chains, data, keys, self.train
        steps = max(chain.steps for chain in chains)
        found, self.stopped = run_stage(*arguments, LAST_STAGE, steps)
        for index, chain in zip(begun, found, strict=True):
            self.chains[index] = chain


def fit_staged(
    method: Any,
    models: Sequence[BNNLV],
    data: Padded,
    seeds: Sequence[int],
    keys: Any,
    train: Train,
    starts: Sequence[Network] | None = None,
) -> list[Staged]:
    """Fit each data set: the members without z and their chains, those with z where there is need
    of it, and the chains of whichever predicts held-out rows better, on all rows.

    ``models`` is one model, or one without and one with z. ``starts`` is where the chains of an
    earlier fit of the same model ended: new ones continue from there.
    """
    quick, runs = method.members if isinstance(method, Langevin) else method, method.runs
    room = data.x.shape[1]
    roles = [
        ensemble.deal_roles(seed, runs, quick.folds, int(rows), room)
        for seed, rows in zip(seeds, data.size, strict=True)
    ]
    stopped = False
    if starts is None:
        chosen, stopped = fit_members(quick, models[0], data, roles, keys, train)
    else:
        unscored = np.empty(0), np.empty((0, runs))
        chosen = [Members(models[0], *p, *unscored) for p in zip(starts, roles, strict=True)]
    unbegun: list[Chained | None] = [None for _ in seeds]
    fits = Fits(method, quick, data, keys, train, roles, chosen, unbegun, stopped)
    fits.begin(range(len(seeds)))
    for latent in models[1:]:
        fits.try_latent(latent)
    for model in models:
        fits.finish(model)
    if isinstance(method, Langevin) and not fits.stopped:
        _say_unfinished(method, fits.chosen, fits.chains, int(np.max(data.size)))
    return [
        _of_members(quick, own) if chain is None else _of_chains(method, own, chain)
        for own, chain in zip(fits.chosen, fits.chains, strict=True)
    ]


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
