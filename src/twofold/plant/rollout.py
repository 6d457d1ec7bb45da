"""``DynamicsModel``: a fitted regressor as a system, and its roll-outs under policies.

A roll-out has one weight draw all along, and new noise at every step:

    a_t = π(s_t),   s_{t+1} = s_t advanced by f(s_t, a_t, z_t; W) + ε_t

where exogenous columns have the values that followed the start in the log.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from twofold.core import numerics, persistence
from twofold.core.arrays import Array, Float, Key
from twofold.core.numerics import Standardizer
from twofold.estimators.regressor import BNNLVRegressor, fit_many, load
from twofold.estimators.training import whole_fits
from twofold.model.network import RowLayer
from twofold.model.spec import BNNLV, Draws, Posterior, SampledPosterior
from twofold.plant.cost import Cost, CostFunction, cost_of
from twofold.plant.embedding import Embedding
from twofold.plant.log import Log, Start, Window
from twofold.plant.moves import find_switches, rates_of
from twofold.plant.policy import DTYPE, LearnedPolicy, PolicyNetwork
from twofold.plant.stepper import Arrival, Columns, Kept, Noise, Place, Scales, Stepper, Task, Units

# Steps that a GPU gets at once, as it starts them faster than those of a loop.
GPU_STEPS = 10
MODEL, CHECKPOINT = "model.safetensors", "fit.checkpoint"


class Trace(NamedTuple):
    """What happened: costs, what the policy saw before each step and after it (standardised), the
    observation that it came to, and what it did."""

    costs: Float[Array, "T M S B"]
    features: Float[Array, "T M S B F"]
    reached: Float[Array, "T M S B F"]
    observations: Float[Array, "T M S B D"]
    actions: Float[Array, "T M S B A"]


def draw_noise(key: Key, model: BNNLV, horizon: int, draws: int, particles: int) -> Noise:
    """Noise for a whole roll-out."""
    size = model.latents + model.num_noise
    drawn = jax.random.normal(key, (horizon, draws, particles, size), DTYPE)
    return Noise(drawn[..., : model.latents], drawn[..., model.latents :])


def particles(starts: Window | Start, num: int) -> Window | Start:
    """Windows ``[starts, …]`` as particles ``[starts · num, …]``, those of a start side by side."""
    return jax.tree.map(lambda leaf: jnp.repeat(leaf, num, axis=0), starts)


def rollout(
    task: Task,
    scales: Scales,
    weights: Float[Array, "S P"],
    draws: Draws,
    noise: Noise,
    windows: Window | Start,
    offsets: Float[Array, "T M S B A"] | None = None,
) -> Trace:
    """Follow S policies from the windows ``[B, …]`` on.

    ``offsets`` are added to their actions, before rates are limited: zeros, for those who ask what
    an action is worth.
    """
    stepper = Stepper.of(task, scales, draws)
    begin, kept = _follow(stepper, stepper.acting(weights), noise, windows, offsets)
    return _trace(stepper, begin.past, kept.action, kept.arrival)


def _follow(
    stepper: Stepper,
    acting: tuple[RowLayer, ...],
    noise: Noise,
    windows: Window | Start,
    offsets: Float[Array, "T M S B A"] | None = None,
) -> tuple[Place, Kept]:
    """Where roll-outs begin, and all their steps."""
    _, draws, count, _ = noise.additive.shape
    begin = stepper.start(windows, (len(acting[0].bias), draws, count))

    def step(place: Place, inputs: Any) -> tuple[Place, Kept]:
        return stepper.step(acting, place, *inputs)

    _, kept = jax.lax.scan(step, begin, (noise, _coming(windows), offsets), unroll=_unroll())
    return begin, kept


def _coming(windows: Window | Start) -> Float[Array, "T B E"] | None:
    return jnp.swapaxes(windows.coming, 0, 1) if isinstance(windows, Start) else None


def _unroll() -> int:
    return 1 if numerics.on_cpu() else GPU_STEPS


def _trace(
    stepper: Stepper, past: Float[Array, "S M B F"], action: Columns, arrival: Arrival
) -> Trace:
    """What happened, of the windows at the start, all actions and all arrivals."""
    task, scales, steps = stepper.task, stepper.scales, len(action[0])
    places = task.embedding.layout
    histories = places.histories(past, arrival.ends)
    windows = jax.vmap(lambda step: places.at(histories, step))(jnp.arange(steps + 1))
    units = stepper.carried.at(places.features)
    features = scales.features.of(units.back(windows[..., places.features]))
    features, *others = (
        jnp.swapaxes(part, 1, 2)
        for part in (features, *(jnp.stack(own, axis=-1) for own in (arrival.newest, action)))
    )
    pay = jax.vmap(jax.vmap(jax.vmap(jax.vmap(task.cost))))
    return Trace(pay(*others), features[:-1], features[1:], *others)


def values_and_gradients(
    objective: Callable[[Trace], Float[Array, "S"]],
    task: Task,
    scales: Scales,
    weights: Float[Array, "S P"],
    draws: Draws,
    noise: Noise,
    windows: Window | Start,
) -> tuple[Float[Array, "S"], Float[Array, "S P"]]:
    """An objective of each policy's roll-outs and its gradient in that policy's weights.

    The way back is written out: what a step keeps for it is little, and products with weights that
    are fixed need no inputs. What the policy saw is read from the values that arrived.
    """
    stepper = Stepper.of(task, scales, draws)
    acting, pull = jax.vjp(stepper.acting, weights)
    begin, kept = _follow(stepper, acting, noise, windows)

    def value(action: Columns, arrival: Arrival) -> tuple[Array, Array]:
        found = objective(_trace(stepper, begin.past, action, arrival))
        return jnp.sum(found), found  # no policy's value depends on another's

    worth, found = jax.grad(value, argnums=(0, 1), has_aux=True)(kept.action, kept.arrival)
    slopes = _follow_back(stepper, acting, noise, windows, begin, kept, worth)
    return found, pull(slopes)[0]


def _follow_back(
    stepper: Stepper,
    acting: tuple[RowLayer, ...],
    noise: Noise,
    windows: Window | Start,
    begin: Place,
    kept: Kept,
    worth: tuple[Columns, Arrival],
) -> tuple[RowLayer, ...]:
    """The slope in the policies' layers, of those in all actions and arrivals."""
    places = stepper.task.embedding.layout
    histories = places.histories(begin.past, kept.arrival.ends)

    def step(carry: tuple[Place, Any], inputs: Any) -> tuple[tuple[Place, Any], None]:
        (after, total), (number, *others) = carry, inputs
        past = jax.lax.optimization_barrier(places.at(histories, number))
        slope, in_acting = stepper.step_back(acting, past, after, *others)
        return (slope, jax.tree.map(jnp.add, total, in_acting)), None

    nothing = jax.tree.map(jnp.zeros_like, (begin, acting))
    inputs = jnp.arange(len(noise.additive)), kept, worth, noise, _coming(windows)
    (_, total), _ = jax.lax.scan(step, nothing, inputs, reverse=True, unroll=_unroll())
    return total


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
    max_rate : mapping from actions to numbers
        The largest change of an action from one step to the next; of others there is no limit.
    """

    def __init__(
        self,
        regressor: BNNLVRegressor,
        embedding: Embedding,
        cost: CostFunction | Cost,
        log: Log,
        max_rate: Mapping[str, float] | None = None,
    ):
        check_is_fitted(regressor)
        expected = len(embedding.input_names), len(embedding.target_names)
        found = regressor.model_.inputs, regressor.model_.outputs
        if expected != found:
            raise ValueError(
                f"the embedding gives {expected[0]} inputs and {expected[1]} outputs, but the "
                f"regressor was fitted to {found[0]} and {found[1]}: use embedding.design(log)"
            )
        self.rates = rates_of(log, max_rate or {})
        embedding = replace(embedding, limited=True) if self.rates else embedding
        self.regressor, self.embedding, self.log = regressor, embedding, log
        self.cost = cost if isinstance(cost, Cost) else cost_of(cost, log)
        windows = embedding.steps(log).windows
        self.starts = jax.tree.map(partial(np.asarray, dtype=DTYPE), windows)
        self.features = np.asarray(jax.jit(jax.vmap(embedding.features))(self.starts))
        self.bounds = tuple(log.action_low.tolist()), tuple(log.action_high.tolist())
        self.switches = find_switches(log)
        costs = np.concatenate(self.cost.of(log))
        self.cost_mean, self.cost_scale = float(costs.mean()), float(costs.std()) or 1.0

    @property
    def posterior(self) -> Posterior:
        """That of the regressor, in single precision."""
        return jax.tree.map(partial(jnp.asarray, dtype=DTYPE), self.regressor.posterior_)

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
        parts = self.regressor.x_standardizer_, self.regressor.y_standardizer_, seen
        x, y, features = (Units(*(jnp.asarray(leaf, DTYPE) for leaf in part)) for part in parts)
        return Scales(x, y, features, jnp.asarray(self.cost_scale, DTYPE))

    @property
    def fingerprint(self) -> str:
        """Says whether two models are the same: weights, units, starts, bounds, cost, embedding."""
        functions = self.cost.fingerprint(self.log) + self.embedding.fingerprint(self.log)
        parts = self.regressor.posterior_, self.scales, self.starts
        arrays = [*jax.tree.leaves(parts), self.bounds, np.frombuffer(functions.encode(), np.uint8)]
        arrays += [self.rates] if self.rates else []
        return persistence.fingerprint(*map(np.asarray, arrays))

    def with_regressor(self, regressor: BNNLVRegressor) -> "DynamicsModel":
        """The same with another regressor, fitted to the same design."""
        other = copy.copy(self)
        other.regressor = regressor
        return other

    def task(self, hidden: tuple[int, ...]) -> Task:
        """Roll-outs under policies with these hidden layers."""
        shape = PolicyNetwork(
            self.features.shape[1], hidden, *self.bounds, self.rates, self.switches
        )
        return Task(self.regressor.model_, self.embedding, self.cost, shape)

    def under(self, own: LearnedPolicy) -> tuple[Task, Scales, Float[Array, "P"]]:
        """Roll-outs under one policy, with its bounds, its units and its weights."""
        weights, *units = own.leaves
        task = replace(self.task(own.shape.hidden), shape=own.shape)
        return task, self.scales._replace(features=Units(*units)), weights


def fit_regressors(
    regressors: Sequence[BNNLVRegressor], embedding: Embedding, log: Log, folder: str | Path
) -> list[BNNLVRegressor]:
    """Regressors fitted to a log: from the files of a folder, or fitted together and kept there.

    Fits that were stopped are resumed from their checkpoint. Whether the folder is that of the same
    log and settings is for the caller to know (``twofold.core.persistence.claim_folder``).
    """
    folder, paths = Path(folder), [Path(folder) / MODEL]
    if len(regressors) > 1:
        paths = [paths[0].with_stem(f"{paths[0].stem}_{n}") for n in range(len(regressors))]
    if all(path.exists() for path in paths):
        return [load(path) for path in paths]
    own = [clone(one).set_params(checkpoint=folder / CHECKPOINT) for one in regressors]
    x, y = embedding.design(log)
    with whole_fits(f"{folder} keeps what there is, and the same call resumes from there"):
        fit_many(own, [x] * len(own), [y] * len(own))
    for regressor, path in zip(own, paths, strict=True):
        regressor.set_params(checkpoint=None).save(path)
    return own
