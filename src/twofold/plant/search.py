"""Policy search: minimise J by stochastic gradients through roll-outs (paper, §5).

An update draws starts from the log, M sets of weights from the posterior and N noise sequences for
each; all policies that are searched together see the same draws, so that they differ by their
risk weights β and γ and by where they began, and not by luck. It is an ``Algorithm`` like those of
``inference``, with policies as members, so that the same loop runs, resumes and stops it.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from twofold.core import memory
from twofold.core.arrays import Array, Float, Int, Key, Keys
from twofold.core.numerics import Standardizer
from twofold.core.persistence import claim_folder
from twofold.estimators.training import Checkpoint, NonFiniteEnergyError, Plan, train, whole_fits
from twofold.inference.loop import Algorithm, Info, Schedule, bind, learning_rate
from twofold.inference.method import check_flag, check_integer, check_positive, layers
from twofold.model.spec import Draws, Posterior
from twofold.plant import policy
from twofold.plant.cost import centroids, criterion, distances
from twofold.plant.log import Start, Window
from twofold.plant.lost import explain_lost
from twofold.plant.policy import LearnedPolicy, load_policy
from twofold.plant.rollout import (
    DTYPE,
    DynamicsModel,
    Noise,
    Scales,
    Task,
    Trace,
    draw_noise,
    particles,
    values_and_gradients,
)

POLICY_STREAM, DRAW_STREAM = 0, 1
CENTROIDS = 500
LAST_EPOCHS = 3
MOST_BYTES = 8 * 2**30
CLAIM, CHECKPOINT = "search.json", "search.checkpoint"
Pair = tuple[float, float]
Member = tuple[Pair, int]  # with the seed that it begins from


@dataclass(frozen=True)
class SearchSettings:
    """How long and how finely to search; the defaults are a few minutes on two cores.

    ``horizon`` T, ``weight_draws`` M, ``noise_draws`` N and ``starts`` are sizes of an update;
    ``PAPER`` has the paper's. Few starts an update make gradients that contradict one another where
    the plant's behaviour depends on where it begins. ``clip`` bounds the norm of the gradient of J
    per step, in units of the deviation of the costs.
    """

    horizon: int = 50
    weight_draws: int = 20
    noise_draws: int = 5
    starts: int = 8
    epochs: int = 20
    updates: int = 100
    learning_rate: float = 5e-3
    learning_rate_decay: bool = True
    hidden: tuple[int, ...] = (20, 20)
    clip: float = 10.0

    def __post_init__(self):
        for name in ("horizon", "weight_draws", "noise_draws", "starts", "epochs", "updates"):
            check_integer(name, getattr(self, name), 1)
        for name in ("learning_rate", "clip"):
            check_positive(name, getattr(self, name))
        check_flag("learning_rate_decay", self.learning_rate_decay)
        object.__setattr__(self, "hidden", layers("hidden", self.hidden))


PAPER = SearchSettings(100, 50, 25, 1, epochs=750, learning_rate=1e-4, learning_rate_decay=False)


@dataclass(frozen=True)
class Config:
    """What is fixed when updates are compiled: sizes as in ``SearchSettings``; ``distance`` chooses
    the nearest-neighbour baseline's criterion."""

    task: Task
    horizon: int
    weight_draws: int
    noise_draws: int
    starts: int
    updates: int = 100
    clip: float = 10.0
    distance: bool = False

    def __post_init__(self):
        if self.horizon < 1:
            raise ValueError(f"horizon must be at least 1, got {self.horizon}")
        if not self.distance:
            check_draws(self.weight_draws, self.noise_draws)


class RiskWeights(NamedTuple):
    """β and γ of each policy."""

    epistemic: Float[Array, "*S"]
    aleatoric: Float[Array, "*S"]


class Plant(NamedTuple):
    """What all policies share: the model, where roll-outs start, and the randomness.

    ``centroids`` are those of the nearest-neighbour baseline, and empty for all others.
    """

    key: Key
    posterior: Posterior
    scales: Scales
    starts: Window | Start
    schedule: Schedule
    centroids: Float[Array, "C F"]


class State(NamedTuple):
    """Policies on their way."""

    weights: Float[Array, "*S P"]
    moments: Any


def optimiser(config: Config) -> optax.GradientTransformation:
    """Adam behind a clipped gradient, for a learning rate that is multiplied later."""
    return optax.chain(optax.clip_by_global_norm(config.clip), optax.scale_by_adam())


def objective(
    config: Config, risk_weights: RiskWeights, plant: Plant, trace: Trace
) -> Float[Array, "S"]:
    """The criterion of each policy, a mean over starts, and per step, so that horizons compare."""
    if config.distance:
        risk = distances(trace.reached, plant.centroids)
        return jnp.mean(trace.costs + risk_weights.epistemic[:, None] * risk, axis=(0, 1, 3))
    steps, draws, policies, _ = trace.costs.shape
    apart = trace.costs.reshape(steps, draws, policies, config.starts, config.noise_draws)
    of_starts = jax.vmap(criterion, in_axes=(2, None, None, None))
    of_policies = jax.vmap(of_starts, in_axes=(2, 0, 0, None))
    found = of_policies(apart, *risk_weights, plant.scales.cost)
    return jnp.mean(found, axis=1) / steps


def init(config: Config, key: Key, problem: RiskWeights) -> State:
    """A random policy; those of the same key begin alike."""
    weights = policy.init(key, config.task.shape)
    return State(weights, optimiser(config).init(weights))


def step(
    config: Config,
    keys: Keys,
    state: State,
    problem: RiskWeights,
    plant: Plant,
    epoch: Int[Array, ""],
) -> tuple[State, Info]:
    """One epoch of updates of all policies."""

    def one_update(index: Array, carry: tuple[State, Array, Array]) -> tuple[State, Array, Array]:
        state, total, skipped = carry
        state, info = update(config, state, problem, plant, epoch * config.updates + index)
        return state, total + info.energy, skipped + info.skipped

    members = keys.shape[0]
    nothing = state, jnp.zeros(members), jnp.zeros(members, int)
    state, total, skipped = jax.lax.fori_loop(0, config.updates, one_update, nothing)
    return state, Info(total / (config.updates - skipped), skipped)


def update(
    config: Config, state: State, problem: RiskWeights, plant: Plant, number: Int[Array, ""]
) -> tuple[State, Info]:
    """One update; that of a policy whose gradient is not finite is counted and not made."""
    windows, draws, noise = draw(config, plant, number)
    of_trace = partial(objective, config, problem, plant)
    values, gradients = values_and_gradients(
        of_trace, config.task, plant.scales, state.weights, draws, noise, windows
    )
    fine = jnp.isfinite(values) & jnp.all(jnp.isfinite(gradients), axis=1)
    gradients = gradients / plant.scales.cost
    rate = learning_rate(plant.schedule, number / (plant.schedule.epochs * config.updates))
    directions, moments = jax.vmap(optimiser(config).update)(gradients, state.moments)
    after = State(state.weights - rate * directions, moments)

    def kept(new: Array, old: Array) -> Array:
        return jnp.where(fine.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    after = jax.tree.map(kept, after, state)
    return after, Info(jnp.where(fine, values, 0.0), 1 - fine.astype(int))


def draw(
    config: Config, plant: Plant, number: Int[Array, ""]
) -> tuple[Window | Start, Draws, Noise]:
    """Everything random about an update, from its number alone: shared by all policies."""
    start_key, draw_key, noise_key = jax.random.split(jax.random.fold_in(plant.key, number), 3)
    rows = jax.random.randint(start_key, (config.starts,), 0, plant.starts.observations.shape[0])
    sizes = config.horizon, config.weight_draws, config.starts * config.noise_draws
    return (
        particles(jax.tree.map(lambda leaf: leaf[rows], plant.starts), config.noise_draws),
        plant.posterior.sample(draw_key, config.weight_draws),
        draw_noise(noise_key, config.task.model, *sizes),
    )


def build(config: Config) -> Algorithm:
    """The search as an algorithm whose members are policies."""
    return bind(init, step, config, together=True)


def search_policies(
    model: DynamicsModel,
    risk_weights: Sequence[Pair],
    folder: str | Path | None = None,
    *,
    settings: SearchSettings = SearchSettings(),  # noqa: B008
    seeds: Sequence[int] = (0,),
    random_state: int = 0,
    distance: bool = False,
    checkpoint_seconds: float = 30.0,
    verbose: bool | str = "auto",
) -> list[LearnedPolicy]:
    """A policy for each pair (β, γ) and each seed, pairs first.

    ``notes["criterion"]`` of each is J per step over its last epochs; ``best_of`` chooses by it.

    Parameters
    ----------
    risk_weights : pairs of numbers
        β, the weight of the epistemic risk, and γ, that of the aleatoric risk.
    folder : path or None
        Where policies are kept. A search that was stopped or killed is resumed from there,
        exactly; one that is finished is read.
    seeds : integers
        Where policies begin. Starts, weight draws and noise are the same for all of them, and come
        from ``random_state``.
    distance : bool
        Search by the nearest-neighbour baseline instead, with β as the weight of the distance.
    """
    members = [(pair, seed) for pair in check_risk_weights(risk_weights) for seed in seeds]
    draws = settings.weight_draws if distance else model.draws_of(settings.weight_draws)
    same = {name: getattr(settings, name) for name in ("noise_draws", "starts", "updates", "clip")}
    task = model.task(settings.hidden)
    config = Config(task, settings.horizon, draws, distance=distance, **same)
    plant = _plant(model, settings, random_state, distance)
    if folder is None:
        return _search(config, plant, members, settings, lambda own, first: None, verbose)
    folder = Path(folder)
    identity = {
        "settings": asdict(settings),
        "random_state": random_state,
        "distance": distance,
        "model": model.fingerprint,
    }

    def identify(own: Sequence[Member]) -> dict[str, Any]:
        return identity | {"members": [[*pair, seed] for pair, seed in own]}

    def checkpoint(own: Sequence[Member], first: int) -> Checkpoint:
        name = CHECKPOINT if len(own) == len(members) else f"{CHECKPOINT}.{first}"
        return Checkpoint(folder / name, checkpoint_seconds, identify(own))

    claim_folder(folder, CLAIM, identify(members), {})
    names = [file_name(pair, seed if len(seeds) > 1 else None) for pair, seed in members]
    paths = [folder / f"{name}.policy" for name in names]
    if all(path.exists() for path in paths):
        return [load_policy(path) for path in paths]
    with whole_fits(f"{folder} keeps what there is, and the same call resumes from there"):
        policies = _search(config, plant, members, settings, checkpoint, verbose)
    for path, own in zip(paths, policies, strict=True):
        own.save(path)
    return policies


def file_name(pair: Pair, seed: int | None = None) -> str:
    """The name of a policy's file, without its ending; the seed where there are several."""
    beta, gamma = pair
    return f"beta-{beta:.12g}_gamma-{gamma:.12g}" + ("" if seed is None else f"_seed-{seed}")


def best_of(policies: Sequence[LearnedPolicy]) -> list[LearnedPolicy]:
    """Of each pair (β, γ) the policy whose search ended lowest; all saw the same draws."""
    best: dict[Pair, LearnedPolicy] = {}
    for one in policies:
        known = best.setdefault(one.risk_weights, one)
        if one.notes["criterion"] < known.notes["criterion"]:
            best[one.risk_weights] = one
    return list(best.values())


def policy_bytes(config: Config) -> int:
    """What the roll-outs of one policy take.

    For the way back a step keeps what the policy saw, the observation, and a byte for each ReLU or
    four for each tanh.
    """
    model, shape = config.task.model, config.task.shape
    units = sum(shape.hidden) + sum(model.sizes) * (1 if model.activation == "relu" else 4)
    kept = 4 * (2 * shape.features + model.sizes[0]) + units
    rollouts = config.weight_draws * config.noise_draws * config.starts
    return config.horizon * rollouts * kept


def policies_at_once(config: Config) -> int:
    """How many policies fit into memory; all see the same draws, in one go or several."""
    return max(1, MOST_BYTES // policy_bytes(config))


def check_risk_weights(risk_weights: Any) -> list[Pair]:
    """Pairs of finite numbers that are not negative."""
    pairs = np.asarray(list(risk_weights), float)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or len(pairs) == 0:
        raise ValueError(f"risk_weights must be pairs (beta, gamma), got {risk_weights!r}")
    if not np.isfinite(pairs).all() or (pairs < 0).any():
        raise ValueError(f"beta and gamma must be finite and at least 0, got {risk_weights!r}")
    return [(float(beta), float(gamma)) for beta, gamma in pairs]


def check_draws(weight_draws: int, noise_draws: int) -> None:
    """A variance, and so a risk, needs two draws."""
    for name, value in (("weight_draws", weight_draws), ("noise_draws", noise_draws)):
        if value < 2:
            raise ValueError(f"{name} must be at least 2, got {value}; a variance needs two")


def _search(
    config: Config,
    plant: Plant,
    members: Sequence[Member],
    settings: SearchSettings,
    checkpoint: Callable[[Sequence[Member], int], Checkpoint | None],
    verbose: bool | str,
) -> list[LearnedPolicy]:
    """All updates of all members, as many of them at once as fit into memory."""
    at_once = policies_at_once(config)
    memory.refuse_beyond(
        min(at_once, len(members)) * policy_bytes(config),
        f"roll-outs of {settings.horizon:,} steps",
        "use a shorter horizon, or fewer weight_draws, noise_draws or starts",
    )
    standardizer = Standardizer(*map(np.asarray, plant.scales.features))
    fixed = config.task.embedding, config.task.shape, standardizer
    policies: list[LearnedPolicy] = []
    for first in range(0, len(members), at_once):
        own = members[first : first + at_once]
        keys = jnp.stack([jax.random.fold_in(jax.random.key(POLICY_STREAM), s) for _, s in own])
        risk_weights = RiskWeights(*jnp.asarray([pair for pair, _ in own], DTYPE).T)
        batches, file = np.full(len(own), settings.updates), checkpoint(own, first)
        plan = Plan(settings.epochs, batches, "epochs", verbose, file, "searching", "criterion")
        try:
            found = train(build(config), keys, risk_weights, plant, plan)
        except NonFiniteEnergyError as error:
            first_weights = policy.init(keys[0], config.task.shape)[None]
            windows, draws, noise = draw(config, plant, jnp.int32(0))
            raise NonFiniteEnergyError(
                f"roll-outs of policies from (β, γ) = {own[0][0]} on have no finite criterion: "
                + explain_lost(
                    config.task, plant.scales, first_weights, draws, noise, windows, plant.starts
                )
            ) from error
        if len(found.energies) < settings.epochs and first + at_once < len(members):
            raise KeyboardInterrupt("stopped by Ctrl-C before all policies were begun")
        last = found.energies[-LAST_EPOCHS:].mean(axis=0)
        weights = np.asarray(found.states.weights)
        for row, (pair, seed), value in zip(weights, own, last, strict=True):
            notes = {"criterion": float(value)}
            policies.append(LearnedPolicy(*fixed, row, *pair, seed, notes))
    return policies


def _plant(
    model: DynamicsModel, settings: SearchSettings, random_state: int, distance: bool
) -> Plant:
    scales = model.scales
    known = np.zeros((0, model.features.shape[1]))
    if distance:
        seen = jax.tree.map(np.asarray, scales.features).of(model.features)
        known = centroids(seen, CENTROIDS, random_state)
    rates = (settings.learning_rate, settings.learning_rate_decay)
    schedule = Schedule(*map(jnp.int32, (settings.epochs, settings.updates)), *map(DTYPE, rates))
    key = jax.random.fold_in(jax.random.key(DRAW_STREAM), random_state)
    found = model.embedding.starts(model.log, settings.horizon)
    starts = jax.tree.map(partial(jnp.asarray, dtype=DTYPE), found)
    return Plant(key, model.posterior, scales, starts, schedule, jnp.asarray(known, DTYPE))
