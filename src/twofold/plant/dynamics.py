"""``DynamicsModel``: a fitted regressor as a system that can be rolled out."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from twofold.core import persistence
from twofold.core.data import Standardizer
from twofold.estimators.regressor import BNNLVRegressor, fit_many, load
from twofold.estimators.training import whole_fits
from twofold.model.posterior import Posterior, SampledPosterior
from twofold.plant.cost import Cost, CostFunction, cost_of
from twofold.plant.embedding import Embedding
from twofold.plant.log import Log, Window
from twofold.plant.policy import PolicyNetwork
from twofold.plant.rollout import Scales, Task

DTYPE = np.float32
# Users' functions are told apart by their values at so many places, of ranges so many times as wide
# as the log's: a limit that no logged value comes near is a difference too.
PROBES, WIDENING = 4096, 10.0
MODEL, CHECKPOINT = "model.safetensors", "fit.checkpoint"


class DynamicsModel:
    """A regressor fitted to ``embedding.design(log)``, with the cost of where it leads.

    Parameters
    ----------
    regressor : BNNLVRegressor
        Fitted, with any inference.
    embedding : Embedding
        The one that made the regressor's inputs and outputs.
    cost : function
        ``cost(row)`` of named columns, as for ``twofold.plant.cost.cost_of``.
    log : Log
        Roll-outs start anywhere in it, and a policy's features are standardised by it.
    """

    def __init__(
        self, regressor: BNNLVRegressor, embedding: Embedding, cost: CostFunction | Cost, log: Log
    ):
        check_is_fitted(regressor)
        _check_columns(regressor, embedding)
        self.regressor = regressor
        self.embedding = embedding
        self.log = log
        self.cost = cost if isinstance(cost, Cost) else cost_of(cost, log)
        self.starts = Window(*(np.asarray(leaf, DTYPE) for leaf in embedding.steps(log).windows))
        self.features = np.asarray(jax.jit(jax.vmap(embedding.features))(self.starts))
        self.bounds = tuple(log.action_low.tolist()), tuple(log.action_high.tolist())
        costs = np.concatenate(self.cost.of(log))
        self.cost_mean, self.cost_scale = float(costs.mean()), float(costs.std()) or 1.0

    @property
    def posterior(self) -> Posterior:
        """That of the regressor, in single precision."""
        found = self.regressor.posterior_
        return type(found)(*(jnp.asarray(leaf, DTYPE) for leaf in found))

    def draws_of(self, wanted: int) -> int:
        """How many weight draws there are: of a posterior that is a set of them no more than it
        has, for repetitions would make the variance between them look smaller than it is."""
        found = self.regressor.posterior_
        if not isinstance(found, SampledPosterior):
            return wanted
        return max(2, min(wanted, found.weights.shape[0]))

    @property
    def scales(self) -> Scales:
        """What everything is standardised by."""
        seen = Standardizer.fit(self.features.astype(float))
        parts = *self.regressor.x_standardizer_, *self.regressor.y_standardizer_, *seen
        return Scales(*(jnp.asarray(part, DTYPE) for part in (*parts, self.cost_scale)))

    @property
    def fingerprint(self) -> str:
        """Says whether two models are the same: weights, units, starts, bounds, cost, embedding."""
        functions = [
            cost_fingerprint(self.cost, self.log),
            embedding_fingerprint(self.embedding, self.log),
        ]
        return persistence.fingerprint(
            *(np.asarray(leaf) for leaf in self.regressor.posterior_),
            *map(np.asarray, self.scales),
            *self.starts,
            np.asarray(self.bounds),
            np.frombuffer("".join(functions).encode(), np.uint8),
        )

    def task(self, hidden: tuple[int, ...]) -> Task:
        """Roll-outs under policies with these hidden layers."""
        shape = PolicyNetwork(self.features.shape[1], hidden, *self.bounds)
        return Task(self.regressor.model_, self.embedding, self.cost, shape)


def fit_regressors(
    regressors: Sequence[BNNLVRegressor], embedding: Embedding, log: Log, folder: str | Path
) -> list[BNNLVRegressor]:
    """Regressors fitted to a log: from the files of a folder, or fitted together and kept there.

    Fits that were stopped are resumed from their checkpoint. Whether the folder is that of the same
    log and settings is for the caller to know (``twofold.core.resume.claim_folder``).
    """
    folder, several = Path(folder), len(regressors) > 1
    stem, end = MODEL.split(".")
    names = [f"{stem}_{n}.{end}" if several else MODEL for n in range(len(regressors))]
    paths = [folder / name for name in names]
    if all(path.exists() for path in paths):
        return [load(path) for path in paths]
    own = [clone(one).set_params(checkpoint=folder / CHECKPOINT) for one in regressors]
    x, y = embedding.design(log)
    with whole_fits(f"{folder} keeps what there is, and the same call resumes from there"):
        fit_many(own, [x] * len(own), [y] * len(own))
    for regressor, path in zip(own, paths, strict=True):
        regressor.set_params(checkpoint=None).save(path)
    return own


def _check_columns(regressor: Any, embedding: Embedding) -> None:
    expected = len(embedding.input_names), len(embedding.target_names)
    found = regressor.model_.inputs, regressor.model_.outputs
    if expected != found:
        raise ValueError(
            f"the embedding gives {expected[0]} inputs and {expected[1]} outputs, but the "
            f"regressor was fitted to {found[0]} and {found[1]}; fit it to embedding.design(log)"
        )


def probes(log: Log) -> tuple[np.ndarray, np.ndarray]:
    """Observations and actions, uniform over widened ranges and always the same."""
    rng = np.random.default_rng(0)
    seen = np.concatenate([episode.observations for episode in log.episodes])
    low, high = seen.min(axis=0), seen.max(axis=0)
    middle, half = 0.5 * (low + high), 0.5 * WIDENING * np.maximum(high - low, 1e-3)
    observations = rng.uniform(middle - half, middle + half, (PROBES, len(middle)))
    actions = rng.uniform(log.action_low, log.action_high, (PROBES, len(log.action_low)))
    return observations, actions


def cost_fingerprint(cost: Cost, log: Log) -> str:
    """The same for two costs that agree on the log and on all probes."""
    with jax.enable_x64(True):
        beyond = jax.jit(jax.vmap(cost))(*map(jnp.asarray, probes(log)))
        return persistence.fingerprint(*cost.of(log), np.asarray(beyond))


def embedding_fingerprint(embedding: Embedding, log: Log) -> str:
    """The same for two embeddings that see, predict and know the same."""
    parts = [getattr(embedding, one.name) for one in fields(embedding) if one.name != "known"]
    arrays = [np.frombuffer(repr(tuple(parts)).encode(), np.uint8)]
    if embedding.known is not None:
        with jax.enable_x64(True):
            values = jax.jit(jax.vmap(embedding.known_values))(*map(jnp.asarray, probes(log)))
            arrays += [np.asarray(values[name]) for name in sorted(values)]
    return persistence.fingerprint(*arrays)
