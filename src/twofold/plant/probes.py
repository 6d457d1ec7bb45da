"""Functions of a user's told apart by their values, at places that the log reaches and beyond."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core import persistence
from twofold.plant.cost import Cost
from twofold.plant.embedding import Embedding
from twofold.plant.log import Log

NUMBER = 4096
# Ranges of the log, so many times as wide: a limit that no logged value comes near is a
# difference too.
WIDENING = 10.0


def probes(log: Log) -> tuple[np.ndarray, np.ndarray]:
    """Observations and actions, uniform over widened ranges and always the same."""
    rng = np.random.default_rng(0)
    seen = np.concatenate([episode.observations for episode in log.episodes])
    low, high = seen.min(axis=0), seen.max(axis=0)
    middle, half = 0.5 * (low + high), 0.5 * WIDENING * np.maximum(high - low, 1e-3)
    observations = rng.uniform(middle - half, middle + half, (NUMBER, len(middle)))
    actions = rng.uniform(log.action_low, log.action_high, (NUMBER, len(log.action_low)))
    return observations, actions


def cost_fingerprint(cost: Cost, log: Log) -> str:
    """The same for two costs that agree on the log and on all probes."""
    with jax.enable_x64(True):
        beyond = jax.jit(jax.vmap(cost))(*map(jnp.asarray, probes(log)))
        return persistence.fingerprint(*cost.of(log), np.asarray(beyond))


def embedding_fingerprint(embedding: Embedding, log: Log) -> str:
    """The same for two embeddings that see, predict and know the same."""
    described = repr(
        (
            embedding.observations,
            embedding.actions,
            embedding.lags,
            embedding.action_lags,
            embedding.targets,
            embedding.deltas,
            embedding.transforms,
            embedding.computed,
            embedding.residual,
        )
    )
    arrays = [np.frombuffer(described.encode(), np.uint8)]
    if embedding.known is not None:
        with jax.enable_x64(True):
            found = jax.jit(jax.vmap(_known(embedding)))(*map(jnp.asarray, probes(log)))
            arrays += [np.asarray(found[name]) for name in sorted(found)]
    return persistence.fingerprint(*arrays)


def _known(embedding: Embedding) -> Any:
    def values(observation: Any, action: Any) -> dict[str, Any]:
        assert embedding.known is not None
        now = dict(zip(embedding.observations, observation, strict=True))
        return dict(embedding.known(now, dict(zip(embedding.actions, action, strict=True))))

    return values
