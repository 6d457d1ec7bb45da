"""``search``: policies for a grid of risk weights and seeds, in one program, resumable."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.data import Standardizer
from twofold.estimators import memory
from twofold.estimators.checkpoint import Checkpoint
from twofold.estimators.training import NonFiniteEnergyError, Outcome, Plan, train
from twofold.inference.schedule import Schedule
from twofold.plant import optimise as algorithm
from twofold.plant.baseline import centroids
from twofold.plant.dynamics import DTYPE, DynamicsModel
from twofold.plant.optimise import Config, Plant, Weights
from twofold.plant.policy import LearnedPolicy
from twofold.plant.windows import Window

POLICY_STREAM, DRAW_STREAM = 0, 1
CENTROIDS = 500
LAST_EPOCHS = 3
MOST_BYTES = 8 * 2**30


@dataclass(frozen=True)
class SearchSettings:
    """How long and how finely to search; the defaults are a few minutes on two cores.

    ``horizon`` T, ``weight_draws`` M, ``noise_draws`` N and ``starts`` are sizes of an update;
    ``PAPER`` has the paper's.
    """

    horizon: int = 50
    weight_draws: int = 20
    noise_draws: int = 5
    starts: int = 2
    epochs: int = 20
    updates: int = 100
    learning_rate: float = 1e-3
    learning_rate_decay: bool = True
    hidden: tuple[int, ...] = (20, 20)
    clip: float = 10.0

    def __post_init__(self):
        if self.epochs < 1:
            raise ValueError(f"epochs must be at least 1, got {self.epochs}")
        for name in ("learning_rate", "clip"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")


PAPER = SearchSettings(
    horizon=100,
    weight_draws=50,
    noise_draws=25,
    starts=1,
    epochs=750,
    learning_rate=1e-4,
    learning_rate_decay=False,
)


def search(
    model: DynamicsModel,
    weights: Sequence[tuple[float, float]],
    *,
    settings: SearchSettings = SearchSettings(),  # noqa: B008
    seeds: Sequence[int] = (0,),
    random_state: int = 0,
    distance: bool = False,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 30.0,
    verbose: bool | str = "auto",
) -> list[LearnedPolicy]:
    """A policy for each pair (β, γ) and each seed, pairs first.

    ``notes["criterion"]`` of each is J per step over its last epochs; ``best_of`` chooses by it.

    Parameters
    ----------
    weights : pairs of numbers
        β, the weight of the epistemic risk, and γ, that of the aleatoric risk.
    seeds : integers
        Where policies begin. Starts, weight draws and noise are the same for all of them, and come
        from ``random_state``.
    distance : bool
        Search by the nearest-neighbour baseline instead, with β as the weight of the distance.
    checkpoint : path or None
        A killed search that finds this file continues from there, exactly.
    """
    pairs = check_weights(weights)
    members = [(pair, seed) for pair in pairs for seed in seeds]
    config = _config(model, settings, distance)
    plant = _plant(model, settings, random_state, distance)
    identity = _identity(model, settings, random_state, distance)
    at_once = policies_at_once(config)
    memory.refuse_beyond(
        min(at_once, len(members)) * policy_bytes(config),
        f"roll-outs of {settings.horizon:,} steps",
        "use a shorter horizon, or fewer weight_draws, noise_draws or starts",
    )
    parts = []
    for first in range(0, len(members), at_once):
        own = members[first : first + at_once]
        file = None
        if checkpoint is not None:
            path = Path(checkpoint) if len(members) <= at_once else Path(f"{checkpoint}.{first}")
            listed = {**identity, "members": [[*pair, seed] for pair, seed in own]}
            file = Checkpoint(path, checkpoint_seconds, listed)
        parts.append(_search(config, plant, own, settings, file, verbose))
        if len(parts[-1].energies) < settings.epochs and first + at_once < len(members):
            raise KeyboardInterrupt("stopped by Ctrl-C before all policies were begun")
    found = np.concatenate([np.asarray(part.states.weights) for part in parts])
    last = np.concatenate([part.energies[-LAST_EPOCHS:].mean(axis=0) for part in parts])
    standardizer = Standardizer(*map(np.asarray, plant.scales[4:6]))
    fixed = model.embedding, config.task.shape, standardizer
    return [
        LearnedPolicy(*fixed, own, *pair, seed, {"criterion": float(value)})
        for own, (pair, seed), value in zip(found, members, last, strict=True)
    ]


def best_of(policies: Sequence[LearnedPolicy]) -> list[LearnedPolicy]:
    """Of each pair (β, γ) the policy whose search ended lowest; all saw the same draws."""
    best: dict[tuple[float, float], LearnedPolicy] = {}
    for policy in policies:
        pair = policy.epistemic_weight, policy.aleatoric_weight
        known = best.setdefault(pair, policy)
        if policy.notes["criterion"] < known.notes["criterion"]:
            best[pair] = policy
    return list(best.values())


def policy_bytes(config: Config) -> int:
    """What the roll-outs of one policy take.

    For the way back a step keeps what the policy saw, the observation, and a byte for each unit.
    """
    sizes = *config.task.model.sizes, *config.task.shape.hidden
    kept = 4 * (2 * config.task.shape.features + config.task.model.sizes[0]) + sum(sizes)
    rollouts = config.weight_draws * config.noise_draws * config.starts
    return config.horizon * rollouts * kept


def policies_at_once(config: Config) -> int:
    """How many policies fit into memory; all see the same draws, in one go or several."""
    return max(1, MOST_BYTES // policy_bytes(config))


def _search(
    config: Config,
    plant: Plant,
    members: list[tuple[tuple[float, float], int]],
    settings: SearchSettings,
    file: Checkpoint | None,
    verbose: bool | str,
) -> Outcome:
    """All updates of some policies."""
    keys = jnp.stack([jax.random.fold_in(jax.random.key(POLICY_STREAM), s) for _, s in members])
    wanted = Weights(*jnp.asarray([pair for pair, _ in members], DTYPE).T)
    batches = np.full(len(members), settings.updates)
    plan = Plan(settings.epochs, batches, "epochs", verbose, file, "searching", "criterion")
    try:
        return train(algorithm.build(config), keys, wanted, plant, plan)
    except NonFiniteEnergyError as error:
        raise NonFiniteEnergyError(
            f"roll-outs of a policy are no longer finite, of {len(members)} from (β, γ) = "
            f"{members[0][0]} on ({error}); bound what the model predicts with transforms, shorten "
            "the horizon, or lower learning_rate"
        ) from error


def check_weights(weights: Any) -> list[tuple[float, float]]:
    """Pairs of finite numbers that are not negative."""
    pairs = np.asarray(list(weights), float)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or len(pairs) == 0:
        raise ValueError(f"weights must be pairs (beta, gamma), got {weights!r}")
    if not np.isfinite(pairs).all() or (pairs < 0).any():
        raise ValueError(f"beta and gamma must be finite and at least 0, got {weights!r}")
    return [(float(beta), float(gamma)) for beta, gamma in pairs]


def _config(model: DynamicsModel, settings: SearchSettings, distance: bool) -> Config:
    return Config(
        model.task(tuple(settings.hidden)),
        settings.horizon,
        settings.weight_draws if distance else model.draws_of(settings.weight_draws),
        settings.noise_draws,
        settings.starts,
        settings.updates,
        settings.clip,
        distance,
    )


def _plant(
    model: DynamicsModel, settings: SearchSettings, random_state: int, distance: bool
) -> Plant:
    scales = model.scales
    known = np.zeros((0, model.features.shape[1]))
    if distance:
        seen = (model.features - np.asarray(scales.feature_mean)) / np.asarray(scales.feature_scale)
        known = centroids(seen, CENTROIDS, random_state)
    return Plant(
        jax.random.fold_in(jax.random.key(DRAW_STREAM), random_state),
        model.posterior,
        scales,
        Window(*map(jnp.asarray, model.starts)),
        Schedule(
            jnp.int32(settings.epochs),
            jnp.int32(settings.updates),
            jnp.asarray(settings.learning_rate, DTYPE),
            jnp.asarray(settings.learning_rate_decay, DTYPE),
        ),
        jnp.asarray(known, DTYPE),
    )


def _identity(
    model: DynamicsModel, settings: SearchSettings, random_state: int, distance: bool
) -> dict[str, Any]:
    return {
        "settings": {**asdict(settings), "hidden": list(settings.hidden)},
        "random_state": random_state,
        "distance": distance,
        "model": model.fingerprint,
    }
