"""``DynamicsModel``: a fitted regressor as a system that can be rolled out."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.utils.validation import check_is_fitted

from twofold.core import persistence
from twofold.core.data import Standardizer
from twofold.estimators.regressor import BNNLVRegressor
from twofold.model.posterior import Posterior, SampledPosterior
from twofold.plant.cost import Cost, CostFunction, cost_of
from twofold.plant.embedding import Embedding
from twofold.plant.log import Log
from twofold.plant.network import PolicyNetwork
from twofold.plant.probes import cost_fingerprint, embedding_fingerprint
from twofold.plant.rollout import Scales, Task
from twofold.plant.windows import Window

DTYPE = np.float32


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


def _check_columns(regressor: Any, embedding: Embedding) -> None:
    expected = len(embedding.input_names), len(embedding.target_names)
    found = regressor.model_.inputs, regressor.model_.outputs
    if expected != found:
        raise ValueError(
            f"the embedding gives {expected[0]} inputs and {expected[1]} outputs, but the "
            f"regressor was fitted to {found[0]} and {found[1]}; fit it to embedding.design(log)"
        )
