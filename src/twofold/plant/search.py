"""Policy search: minimise J by stochastic gradients through roll-outs (paper, §5).

A search may get stuck in a local minimum, so that the policy of one pair (β, γ) is better by
another pair's criterion than that pair's own policy. Therefore a search has rounds: in the first,
each pair starts at its own random weights; after each round, every pair takes over the policy that
is best by its own criterion, if that is clearly better than its current one.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core import memory
from twofold.core.arrays import Float, Keys
from twofold.core.numerics import Standardizer
from twofold.core.persistence import claim_folder
from twofold.estimators.training import Checkpoint, NonFiniteEnergyError, Plan, train, whole_fits
from twofold.inference.loop import Schedule
from twofold.inference.method import check_flag, check_integer, check_layers, check_positive
from twofold.plant.cost import centroids
from twofold.plant.descent import Config, Plant, RiskWeights, build, compare, init
from twofold.plant.lost import explain_lost
from twofold.plant.policy import LearnedPolicy, load_policy
from twofold.plant.rollout import DTYPE, DynamicsModel

POLICY_STREAM, DRAW_STREAM = 0, 1
CENTROIDS = 500
LAST_EPOCHS = 3
MOST_BYTES = 8 * 2**30
# After a round, policies are compared on the draws of this many updates, which are not used in the
# search.
COMPARED, COMPARED_FROM = 8, 1_000_000_000
CLEARLY = 0.01  # fraction of the deviation of costs by which J must be lower to take over a policy
CLAIM, CHECKPOINT = "search.json", "search.checkpoint"
Pair = tuple[float, float]
Member = tuple[Pair, int]  # with the seed of its initial weights
MakeCheckpoint = Callable[[Sequence[Member], str], Checkpoint | None]


@dataclass(frozen=True)
class SearchSettings:
    """Settings of a policy search; the defaults take a few minutes on two cores.

    ``horizon`` T, ``weight_draws`` M, ``noise_draws`` N and ``starts`` are sizes of an update;
    ``PAPER`` has the paper's. With few starts per update, gradients are noisy if the plant's
    behaviour depends on the start. The ``epochs`` are divided among ``rounds``; with one round, no
    pair takes over another's policy. ``clip`` bounds the norm of the gradient of J per step, in
    units of the deviation of the costs.
    """

    horizon: int = 50
    weight_draws: int = 20
    noise_draws: int = 5
    starts: int = 8
    epochs: int = 20
    updates: int = 100
    rounds: int = 2
    learning_rate: float = 5e-3
    learning_rate_decay: bool = True
    hidden: tuple[int, ...] = (20, 20)
    clip: float = 10.0

    def __post_init__(self):
        sizes = "horizon", "weight_draws", "noise_draws", "starts", "epochs", "updates", "rounds"
        for name in sizes:
            check_integer(name, getattr(self, name), 1)
        for name in ("learning_rate", "clip"):
            check_positive(name, getattr(self, name))
        check_flag("learning_rate_decay", self.learning_rate_decay)
        object.__setattr__(self, "hidden", check_layers("hidden", self.hidden))

    @property
    def epochs_of_round(self) -> int:
        return -(-self.epochs // self.rounds)


PAPER = SearchSettings(
    100, 50, 25, 1, epochs=750, rounds=1, learning_rate=1e-4, learning_rate_decay=False
)


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
    """Search a policy for each pair (β, γ) and each seed, ordered by pair.

    ``notes["criterion"]`` of each is J per step, over the last epochs or, after several rounds, on
    draws not used in the search; ``best_of`` chooses by it.

    Parameters
    ----------
    risk_weights : pairs of numbers
        β, the weight of the epistemic risk, and γ, that of the aleatoric risk.
    folder : path or None
        Folder of the policies. An interrupted search resumes from there with bit-identical results;
        a finished one is read.
    seeds : integers
        Seeds of the initial policy weights. Starts, weight draws and noise are the same for all
        policies, and come from ``random_state``.
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
        return _search(config, plant, members, settings, lambda own, suffix: None, verbose)
    folder = Path(folder)
    identity = {"settings": asdict(settings), "random_state": random_state}
    identity |= {"distance": distance, "model": model.fingerprint}

    def identify(own: Sequence[Member]) -> dict[str, Any]:
        return identity | {"members": [[*pair, seed] for pair, seed in own]}

    def checkpoint(own: Sequence[Member], suffix: str) -> Checkpoint:
        return Checkpoint(folder / f"{CHECKPOINT}{suffix}", checkpoint_seconds, identify(own))

    claim_folder(folder, CLAIM, identify(members), {})
    names = [file_name(pair, seed if len(seeds) > 1 else None) for pair, seed in members]
    paths = [folder / f"{name}.policy" for name in names]
    if all(path.exists() for path in paths):
        return [load_policy(path) for path in paths]
    with whole_fits(f"finished parts are in {folder}; the same call resumes from there"):
        policies = _search(config, plant, members, settings, checkpoint, verbose)
    for path, own in zip(paths, policies, strict=True):
        own.save(path)
    return policies


def file_name(pair: Pair, seed: int | None = None) -> str:
    """The name of a policy's file, without extension; with the seed if there are several."""
    beta, gamma = pair
    return f"beta-{beta:.12g}_gamma-{gamma:.12g}" + ("" if seed is None else f"_seed-{seed}")


def best_of(policies: Sequence[LearnedPolicy]) -> list[LearnedPolicy]:
    """For each pair (β, γ), the policy with the lowest final criterion; all used the same draws."""
    best: dict[Pair, LearnedPolicy] = {}
    for one in policies:
        known = best.setdefault(one.risk_weights, one)
        if one.notes["criterion"] < known.notes["criterion"]:
            best[one.risk_weights] = one
    return list(best.values())


def policy_bytes(config: Config) -> int:
    """Memory for the roll-outs of one policy: for the backward pass, each step stores the policy's
    inputs, the observation, and one byte per ReLU or four per tanh."""
    model, shape = config.task.model, config.task.shape
    units = sum(shape.hidden) + sum(model.sizes) * (1 if model.activation == "relu" else 4)
    kept = 4 * (2 * shape.features + model.sizes[0]) + units
    rollouts = config.weight_draws * config.noise_draws * config.starts
    return config.horizon * rollouts * kept


def policies_at_once(config: Config) -> int:
    """Number of policies that fit into memory at once; all groups use the same draws."""
    return max(1, MOST_BYTES // policy_bytes(config))


def check_risk_weights(risk_weights: Any) -> list[Pair]:
    """Check pairs of finite, non-negative numbers."""
    pairs = np.asarray(list(risk_weights), float)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or len(pairs) == 0:
        raise ValueError(f"risk_weights must be pairs (beta, gamma), got {risk_weights!r}")
    if not np.isfinite(pairs).all() or (pairs < 0).any():
        raise ValueError(f"beta and gamma must be finite and at least 0, got {risk_weights!r}")
    return [(float(beta), float(gamma)) for beta, gamma in pairs]


def _search(
    config: Config,
    plant: Plant,
    members: Sequence[Member],
    settings: SearchSettings,
    checkpoint: MakeCheckpoint,
    verbose: bool | str,
) -> list[LearnedPolicy]:
    keys = jnp.stack([jax.random.fold_in(jax.random.key(POLICY_STREAM), s) for _, s in members])
    problem = RiskWeights(*jnp.asarray([pair for pair, _ in members], DTYPE).T)
    if settings.rounds > 1:  # a single policy has no other to take over
        keys = jax.vmap(jax.random.fold_in)(keys, jnp.arange(len(members)))
    for number in range(settings.rounds):
        own = plant._replace(key=jax.random.fold_in(plant.key, number)) if number else plant
        title = "searching" + (f", round {number + 1} of {settings.rounds}" if number else "")
        batches = np.full(len(members), settings.updates)
        plan = Plan(settings.epochs_of_round, batches, "epochs", verbose, None, title, "criterion")
        suffix = f".{number}" * bool(number)
        found = _run_round(config, own, members, keys, problem, plan, checkpoint, suffix)
        weights, values, stopped = found
        if settings.rounds > 1:
            weights, values = take_best(config, plant, members, problem, weights)
            problem = problem._replace(begin=jnp.asarray(weights))
        if stopped:
            break
    standardizer = Standardizer(*map(np.asarray, plant.scales.features))
    fixed = config.task.embedding, config.task.shape, standardizer
    return [
        LearnedPolicy(*fixed, row, *pair, seed, {"criterion": float(value)})
        for (pair, seed), row, value in zip(members, weights, values, strict=True)
    ]


def _run_round(
    config: Config,
    plant: Plant,
    members: Sequence[Member],
    keys: Keys,
    problem: RiskWeights,
    plan: Plan,
    checkpoint: MakeCheckpoint,
    suffix: str,
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Run a round, with as many members at once as fit into memory; returns weights and J of all
    members, and whether Ctrl-C ended it."""
    at_once = policies_at_once(config)
    memory.refuse_beyond(
        min(at_once, len(members)) * policy_bytes(config),
        f"roll-outs of {config.horizon:,} steps",
        "use a shorter horizon, or fewer weight_draws, noise_draws or starts",
    )
    weights, values, stopped = list[np.ndarray](), list[np.ndarray](), False
    for first in range(0, len(members), at_once):
        rows = slice(first, first + at_once)
        own, group = members[rows], jax.tree.map(lambda leaf, rows=rows: leaf[rows], problem)
        name = suffix if len(own) == len(members) else f".{first}{suffix}"
        one = plan._replace(batches=plan.batches[rows], checkpoint=checkpoint(own, name))
        try:
            found = train(build(config), keys[rows], group, plant, one)
        except NonFiniteEnergyError as error:
            begun = init(config, keys[first], jax.tree.map(lambda leaf: leaf[0], group)).weights
            raise NonFiniteEnergyError(
                f"roll-outs of policies from (β, γ) = {own[0][0]} on have no finite criterion: "
                + explain_lost(config, plant, begun)
            ) from error
        stopped = len(found.energies) < plan.epochs
        if stopped and first + at_once < len(members):
            raise KeyboardInterrupt("stopped by Ctrl-C before all policies had started")
        weights.append(np.asarray(found.states.weights))
        values.append(found.energies[-LAST_EPOCHS:].mean(axis=0))
    return np.concatenate(weights), np.concatenate(values), stopped


def take_best(
    config: Config,
    plant: Plant,
    members: Sequence[Member],
    problem: RiskWeights,
    weights: Float[np.ndarray, "S P"],
) -> tuple[Float[np.ndarray, "S P"], Float[np.ndarray, "S"]]:
    """For each member, the weights that are best by its criterion among all members with its seed
    (its own unless others are clearly better), and J, on common draws not used in the search."""
    numbers, at_once = COMPARED_FROM + jnp.arange(COMPARED), policies_at_once(config)
    given = config, problem._replace(begin=None), plant
    groups = (weights[first : first + at_once] for first in range(0, len(weights), at_once))
    parts = [compare(*given, group, numbers) for group in groups]
    values = np.nan_to_num(np.concatenate(parts, axis=1), nan=np.inf)
    seeds = np.array([seed for _, seed in members])
    values[seeds[:, None] != seeds] = np.inf
    own, every = np.diag(values), np.arange(len(values))
    best = values.argmin(axis=1)
    clear = values[every, best] < own - CLEARLY * float(plant.scales.cost)
    best = np.where(clear | ~np.isfinite(own), best, every)
    return weights[best], values[every, best]


def _plant(
    model: DynamicsModel, settings: SearchSettings, random_state: int, distance: bool
) -> Plant:
    scales = model.scales
    known = np.zeros((0, model.features.shape[1]))
    if distance:
        seen = jax.tree.map(np.asarray, scales.features).transform(model.features)
        known = centroids(seen, CENTROIDS, random_state)
    lengths = settings.epochs_of_round, settings.updates
    rates = settings.learning_rate, settings.learning_rate_decay
    schedule = Schedule(*map(jnp.int32, lengths), *map(DTYPE, rates))
    key = jax.random.fold_in(jax.random.key(DRAW_STREAM), random_state)
    found = model.embedding.starts(model.log, settings.horizon)
    starts = jax.tree.map(partial(jnp.asarray, dtype=DTYPE), found)
    return Plant(key, model.posterior, scales, starts, schedule, jnp.asarray(known, DTYPE))
