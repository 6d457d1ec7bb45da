"""The same policy search with the true simulator in place of the model.

Its updates are those of ``twofold.plant.search``: Adam on the clipped gradient of the mean cost
through roll-outs, of the same number and length, from states of the log. The remaining difference
to ``direct_search`` is due to the search; the advantage over policies of a model is due to the
model. Some discontinuities of the simulator (coins, thresholds) have no gradient, whereas a model
smooths them.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from paper.control_problems import ControlProblem
from paper.truth import Starts, costs_from
from twofold.core.arrays import Array, Float, Key, Keys
from twofold.core.numerics import Standardizer
from twofold.plant import policy
from twofold.plant.embedding import Embedding
from twofold.plant.policy import LearnedPolicy, PolicyNetwork
from twofold.plant.search import SearchSettings

POOL, POOL_STREAM = 5000, 40_000


def search_by_slope(
    key: Key,
    problem: ControlProblem,
    embedding: Embedding,
    shape: PolicyNetwork,
    standardizer: Standardizer,
    settings: SearchSettings,
) -> LearnedPolicy:
    """The policy after all updates."""
    init_key, run_key = jax.random.split(key)
    weights = policy.init(init_key, shape)
    total = settings.epochs * settings.updates
    decay = optax.cosine_decay_schedule(settings.learning_rate, total)
    adam = optax.chain(optax.clip_by_global_norm(settings.clip), optax.adam(decay))
    state = adam.init(weights)
    units = jax.tree.map(jnp.asarray, standardizer)
    parts = problem.system.step, problem.system.observe, problem.system.cost
    pool = problem.starts(jax.random.key(POOL_STREAM), POOL)
    scale = float(np.concatenate([one.costs for one in problem.batch(0).episodes]).std())
    fixed = parts, embedding, shape, settings, adam, scale
    for epoch in range(settings.epochs):
        weights, state = _epoch(*fixed, pool, run_key, epoch, weights, state, units)
    return LearnedPolicy(embedding, shape, standardizer, np.asarray(weights))


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4, 5))
def _epoch(
    system: Any,
    embedding: Embedding,
    shape: PolicyNetwork,
    settings: SearchSettings,
    adam: optax.GradientTransformation,
    scale: float,
    pool: Starts,
    key: Key,
    epoch: Array,
    weights: Float[Array, "P"],
    state: Any,
    units: Standardizer,
) -> tuple[Array, Any]:
    rollouts = settings.starts * settings.weight_draws * settings.noise_draws

    def value(weights: Float[Array, "P"], starts: Starts, luck: Keys) -> Float[Array, ""]:
        leaves = weights, units
        costs = costs_from(system, embedding, shape, settings.horizon, leaves, starts, luck)
        return jnp.mean(costs) / scale

    def update(index: Array, carry: tuple[Array, Any]) -> tuple[Array, Any]:
        weights, state = carry
        number = epoch * settings.updates + index
        start_key, luck_key = jax.random.split(jax.random.fold_in(key, number))
        rows = jax.random.randint(start_key, (rollouts,), 0, POOL)
        starts = jax.tree.map(lambda leaf: leaf[rows], pool)
        luck = jax.random.split(luck_key, (rollouts, 1))
        gradient = jax.grad(value)(weights, starts, luck)
        gradient = jnp.where(jnp.isfinite(gradient), gradient, 0.0)
        steps, state = adam.update(gradient, state)
        return optax.apply_updates(weights, steps), state

    return jax.lax.fori_loop(0, settings.updates, update, (weights, state))
