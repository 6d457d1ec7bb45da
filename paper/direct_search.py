"""Upper bound: the same policy network, optimised on the true simulator itself.

Evolution strategies (Salimans et al., 2017): antithetic pairs of policies around a mean are
evaluated from the same states with the same random numbers, and Adam moves the mean by their ranks.
No log and no model are involved; this is impossible on a real plant.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from paper.control_problems import ControlProblem
from paper.truth import Starts, costs_from
from twofold.core.arrays import Array, Float, Key
from twofold.core.numerics import Standardizer
from twofold.plant import policy
from twofold.plant.embedding import Embedding
from twofold.plant.policy import LearnedPolicy, PolicyNetwork


class Strategy(NamedTuple):
    """Sizes of the search; ``spread`` is the deviation of the weights around their mean."""

    generations: int = 2000
    pairs: int = 128
    starts: int = 64
    spread: float = 0.05
    learning_rate: float = 2e-2


def ranks(costs: Float[Array, "P"]) -> Float[Array, "P"]:
    """Ranks from −½ (smallest) to ½ (largest), so that only the order of costs matters."""
    order = jnp.argsort(jnp.argsort(costs))
    return order / (costs.shape[0] - 1) - 0.5


def direction(costs: Float[Array, "2 P"], noise: Float[Array, "P W"]) -> Float[Array, "W"]:
    """Ascent direction of the costs: the noise of each pair, weighted by the difference of its
    ranks."""
    shaped = ranks(costs.reshape(-1)).reshape(costs.shape)
    return (shaped[0] - shaped[1]) @ noise / noise.shape[0]


def direct_search(
    key: Key,
    problem: ControlProblem,
    embedding: Embedding,
    shape: PolicyNetwork,
    standardizer: Standardizer,
    strategy: Strategy = Strategy(),  # noqa: B008
    on_progress: Callable[[int], None] = lambda generation: None,
) -> LearnedPolicy:
    """The mean of the last generation, as a policy."""
    init_key, run_key = jax.random.split(key)
    mean = policy.init(init_key, shape)
    rate = optax.cosine_decay_schedule(strategy.learning_rate, strategy.generations)
    adam = optax.adam(rate)
    state = adam.init(mean)
    parts = problem.system.step, problem.system.observe, problem.system.cost
    units = jax.tree.map(jnp.asarray, standardizer)
    for generation in range(strategy.generations):
        generation_key = jax.random.fold_in(run_key, generation)
        sizes = embedding, shape, problem.horizon, strategy, adam
        mean, state = _generation(parts, problem.starts, *sizes, generation_key, mean, state, units)
        on_progress(generation + 1)
    return LearnedPolicy(embedding, shape, standardizer, np.asarray(mean))


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4, 5, 6))
def _generation(
    system: Any,
    begin: Callable[[Key, int], Starts],
    embedding: Embedding,
    shape: PolicyNetwork,
    horizon: int,
    strategy: Strategy,
    adam: optax.GradientTransformation,
    key: Key,
    mean: Float[Array, "W"],
    state: Any,
    units: Standardizer,
) -> tuple[Array, Any]:
    start_key, noise_key, luck_key = jax.random.split(key, 3)
    starts = begin(start_key, strategy.starts)
    noise = jax.random.normal(noise_key, (strategy.pairs, mean.shape[0]))
    luck = jax.random.split(luck_key, (strategy.starts, 1))
    tried = mean + strategy.spread * jnp.stack([noise, -noise])

    def cost(weights: Float[Array, "W"]) -> Float[Array, ""]:
        leaves = weights, units
        return jnp.mean(costs_from(system, embedding, shape, horizon, leaves, starts, luck))

    costs = jax.lax.map(jax.vmap(cost), tried)
    steps, state = adam.update(direction(costs, noise), state)
    return optax.apply_updates(mean, steps), state
