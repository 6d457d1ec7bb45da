"""``Stepper``: what roll-outs do at a step, and the same backwards.

Arrays are laid out by policy S, weight draw M and particle B (the noise draws of all starts);
observations and actions are lists of columns ``[S, M, B]``, and the values of a window one array
``[S, M, B, F]``, which policy and model see in products over all particles of a policy and of a
weight draw.

Nothing is standardised or reordered on the way, for first layers are made for what roll-outs carry.
A layer sees ``(v − own mean) / own scale`` of each of its inputs v; carried is
``(v − mean) / scale`` with one mean and one scale for all values of a column:

    kernel · (v − own mean) / own scale + bias
        = kernel · scale / own scale · carried + [kernel · (mean − own mean) / own scale + bias]

Little is lost to rounding if the lags of a column differ little in mean and scale, as they do in
logs that are long beside them.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from twofold.core.arrays import Array, Float
from twofold.model import network, spec
from twofold.model.density import conditional
from twofold.model.network import Layer, RowLayer
from twofold.model.spec import BNNLV, WIDE, Draws
from twofold.plant import policy
from twofold.plant.cost import Cost
from twofold.plant.embedding import Embedding
from twofold.plant.log import Start, Window
from twofold.plant.policy import PolicyNetwork

Columns = list[Array]


@dataclass(frozen=True)
class Task:
    """Everything that is fixed when roll-outs are compiled."""

    model: BNNLV
    embedding: Embedding
    cost: Cost
    shape: PolicyNetwork


class Units(NamedTuple):
    """Means and scales."""

    mean: Float[Array, "F"]
    scale: Float[Array, "F"]

    def at(self, places: np.ndarray) -> "Units":
        """Those of some values."""
        return Units(self.mean[places], self.scale[places])

    def of(self, values: Float[Array, "*batch F"]) -> Float[Array, "*batch F"]:
        """Values in these units."""
        return (values - self.mean) / self.scale

    def back(self, values: Float[Array, "*batch F"]) -> Float[Array, "*batch F"]:
        """From these units."""
        return values * self.scale + self.mean


class Scales(NamedTuple):
    """Units of the model's inputs and outputs and of a policy's features, and the deviation of the
    costs."""

    x: Units
    y: Units
    features: Units
    cost: Float[Array, ""]


class Noise(NamedTuple):
    """Standard normal numbers for z and ε at every step of every particle, the same for all
    policies."""

    latent: Float[Array, "*T M B Z"]
    additive: Float[Array, "*T M B noise"]


class Place(NamedTuple):
    """Where particles are: what is carried of their windows, the newest observation through the
    transforms and in the log's units, and the last action if rates are limited."""

    past: Float[Array, "S M B F"]
    latest: Columns
    newest: Columns
    previous: Columns


class Choice(NamedTuple):
    """An action, and what the model sees of a step beyond the past."""

    action: Columns
    new: Columns


class Arrival(NamedTuple):
    """What a step led to: the next observation, twice as in ``Place``, and the ends of its
    window."""

    latest: Columns
    newest: Columns
    ends: Columns


class Kept(NamedTuple):
    """What is known of every step, in columns ``[T, S, M, B]``: where it began, what was done, what
    the model said, and where it led."""

    latest: Columns
    newest: Columns
    previous: Columns
    action: Columns
    heads: Float[Array, "T M rows heads"]
    slopes: list[Array]
    arrival: Arrival


def for_carried(layer: Layer, places: np.ndarray, own: Units, carried: Units) -> Layer:
    """The layer whose inputs are the carried values at some places, for all that is carried; those
    that it does not see have no weight."""
    seen = carried.at(places)
    kernel = layer.kernel * (seen.scale / own.scale)
    bias = layer.bias + layer.kernel @ ((seen.mean - own.mean) / own.scale)
    inverse = np.full(carried.mean.shape[0], len(places))
    inverse[places] = np.arange(len(places))
    unseen = jnp.zeros((*kernel.shape[:-1], 1), kernel.dtype)
    return Layer(jnp.concatenate([kernel, unseen], axis=-1)[..., inverse], bias)


@dataclass(frozen=True, eq=False)
class Stepper:
    """What every step needs: units of what is carried and of what is new, the model's layers for
    both and for z (after them, that of a skip connection), and the noise of each weight draw."""

    task: Task
    scales: Scales
    carried: Units
    new: Units
    layers: tuple[RowLayer, ...]
    skip: tuple[RowLayer, ...]
    log_noise: Float[Array, "M noise"]

    @classmethod
    def of(cls, task: Task, scales: Scales, draws: Draws) -> "Stepper":
        """For roll-outs with these weight draws."""
        inputs = task.embedding.layout.inputs
        # Of all values of a column the mean and the scale of its newest.
        carried = scales.features.at(task.embedding.layout.newest)
        new = scales.x.at(np.argsort(inputs)[np.sum(inputs < len(carried.mean)) :])
        both = Units(*(jnp.concatenate(parts) for parts in zip(carried, new, strict=True)))
        (first, *rest), skip = network.part_skip(spec.layers(task.model, draws.weights))

        def for_all(kernel: Array, bias: Array) -> Layer:
            known, of_latents = jnp.split(kernel, [len(inputs)], axis=-1)
            found = for_carried(Layer(known, bias), inputs, scales.x, both)
            return Layer(jnp.concatenate([found.kernel, of_latents], axis=-1), found.bias)

        direct: tuple[Layer, ...] = ()
        if skip is not None:
            unseen = jnp.zeros((*skip.kernel.shape[:-1], task.model.latents), skip.kernel.dtype)
            kernel = jnp.concatenate([skip.kernel, unseen], axis=-1)
            direct = (for_all(kernel, jnp.zeros(kernel.shape[:-1], kernel.dtype)),)
        layers = network.for_rows((for_all(*first), *rest))
        return cls(task, scales, carried, new, layers, network.for_rows(direct), draws.log_noise)

    def start(self, windows: Window | Start, layout: tuple[int, int, int]) -> Place:
        """All particles at the ends of their windows ``[B, …]``."""

        def for_all(values: Float[Array, "B *rest"]) -> Float[Array, "S M B *rest"]:
            return jnp.broadcast_to(values, (*layout, *values.shape[1:]))

        past, *others = jax.vmap(self.task.embedding.see)(windows)
        last = windows.actions[:, -1] if self.task.shape.rates else jnp.zeros((layout[2], 0))
        columns = [[for_all(own) for own in values.T] for values in (*others, last)]
        return Place(for_all(self.carried.of(past)), *columns)

    def acting(self, weights: Float[Array, "S P"]) -> tuple[RowLayer, ...]:
        """The policies' layers for what is carried."""
        first, *rest = network.unflatten(self.task.shape.sizes, weights)
        places = self.task.embedding.layout.features
        return network.for_rows(
            (for_carried(first, places, self.scales.features, self.carried), *rest)
        )

    def act(
        self, acting: tuple[RowLayer, ...], past: Float[Array, "S M B F"]
    ) -> Float[Array, "S M B A"]:
        """What the policies want to do."""
        policies, *others, _ = past.shape
        rows = past.reshape(policies, -1, past.shape[-1])
        return policy.act(self.task.shape, acting, rows).reshape(policies, *others, -1)

    def choose(
        self,
        wanted: Float[Array, "S M B A"],
        previous: Columns,
        newest: Columns,
        coming: Columns | None,
    ) -> Choice:
        """What is done, with limited rates, and what it brings for the model to see."""
        shape, action = self.task.shape, [*jnp.moveaxis(wanted, -1, 0)]
        if shape.rates:
            action = policy.limit_rates(shape, action, previous)
        return Choice(action, self.task.embedding.new_of(newest, action, coming))

    def respond(
        self, past: Float[Array, "S M B F"], new: Columns, latent: Float[Array, "M B Z"]
    ) -> tuple[Float[Array, "M rows heads"], list[Array]]:
        """The model's heads, for the particles of all policies one after another, and the slopes
        between its layers."""
        layout, draws = past.shape[:3], past.shape[1]
        beside = self.new.of(jnp.stack(new, axis=-1)) if new else past[..., :0]
        z = spec.latent_values(self.task.model, latent)
        z = jnp.broadcast_to(z, (*layout, z.shape[-1]))
        rows = jnp.concatenate([past, beside, z], axis=-1)
        rows = jnp.swapaxes(rows, 0, 1).reshape(draws, -1, rows.shape[-1])
        heads, slopes = network.rows_with_slopes(self.layers, rows, self.task.model.activation)
        for layer in self.skip:
            heads += network.rows_affine(layer, rows)
        return heads, slopes

    def respond_back(
        self, slopes: list[Array], heads: Float[Array, "M rows heads"], policies: int
    ) -> tuple[Float[Array, "S M B F"], Columns]:
        """Slopes in the past and in what is new, from those in the heads."""
        rows = network.rows_back(self.layers, slopes, heads)
        for layer in self.skip:
            rows += network.rows_back((layer,), [], heads)
        rows = jnp.swapaxes(rows.reshape(len(rows), policies, -1, rows.shape[-1]), 0, 1)
        count = len(self.carried.mean)
        new = [rows[..., count + i] / scale for i, scale in enumerate(self.new.scale)]
        return rows[..., :count], new

    def arrive(
        self,
        latest: Columns,
        newest: Columns,
        action: Columns,
        heads: Float[Array, "M rows heads"],
        additive: Float[Array, "M B noise"],
        coming: Columns | None,
    ) -> Arrival:
        """Where a step leads."""
        embedding, places = self.task.embedding, self.task.embedding.layout
        output = self.outputs(heads, additive)
        latest, newest = embedding.follow(latest, newest, action, output, coming)
        ends = zip(places.arrivals(latest, action), *self.carried.at(places.ends), strict=True)
        return Arrival(latest, newest, [(value - mean) / scale for value, mean, scale in ends])

    def outputs(
        self, heads: Float[Array, "M rows heads"], additive: Float[Array, "M B noise"]
    ) -> Columns:
        """y in raw units, of heads and standard normal numbers that are the same for all
        policies."""
        model, (draws, count, _) = self.task.model, additive.shape
        apart = jnp.moveaxis(heads.reshape(draws, -1, count, heads.shape[-1]), -1, 1)
        normal = jnp.moveaxis(additive, -1, 1)[:, :, None]
        given = conditional(model, apart, self.log_noise)
        deviation = jnp.exp(0.5 * given.log_variance)
        if given.log_odds is not None:
            share = jax.nn.sigmoid(given.log_odds)[:, None, None, None]
            deviation *= jnp.where(norm.sf(normal[:, model.outputs :]) < share, WIDE, 1.0)
        y = given.mean + deviation * normal[:, : model.outputs]
        columns = zip(jnp.moveaxis(y, 1, 0), *self.scales.y, strict=True)
        return [jnp.swapaxes(own, 0, 1) * scale + mean for own, mean, scale in columns]

    def step(
        self,
        acting: tuple[RowLayer, ...],
        place: Place,
        noise: Noise,
        coming: Float[Array, "B E"] | None,
        offset: Float[Array, "M S B A"] | None = None,
    ) -> tuple[Place, Kept]:
        """A step forth, and what is kept of it."""
        (past, latest, newest, previous), outside = place, self.outside(coming, place)
        wanted = self.act(acting, past)
        wanted = wanted if offset is None else wanted + jnp.swapaxes(offset, 0, 1)
        action, new = self.choose(wanted, previous, newest, outside)
        heads, slopes = self.respond(past, new, noise.latent)
        arrival = self.arrive(latest, newest, action, heads, noise.additive, outside)
        past = self.task.embedding.layout.shift(past, arrival.ends)
        after = Place(past, arrival.latest, arrival.newest, action if previous else [])
        return after, Kept(latest, newest, previous, action, heads, slopes, arrival)

    def step_back(
        self,
        acting: tuple[RowLayer, ...],
        past: Float[Array, "S M B F"],
        after: Place,
        kept: Kept,
        worth: tuple[Columns, Arrival],
        noise: Noise,
        coming: Float[Array, "B E"] | None,
    ) -> tuple[Place, tuple[RowLayer, ...]]:
        """The slopes in where a step began and in the policies' layers, from those in where it led,
        ``after``, and from what its action and its arrival are ``worth`` by themselves."""
        outside = self.outside(coming, kept)

        def arrive(*given: Any) -> Arrival:
            return self.arrive(*given, noise.additive, outside)

        def choose(*given: Any) -> Choice:
            return self.choose(*given, outside)

        slope, ends = self.task.embedding.layout.unshift(after.past)
        _, pull = jax.vjp(arrive, kept.latest, kept.newest, kept.action, kept.heads)
        led = Arrival(after.latest, after.newest, ends)
        latest, newest, action, heads = pull(jax.tree.map(jnp.add, led, worth[1]))
        of_model, new = self.respond_back(kept.slopes, heads, len(past))
        wanted, pull_acting = jax.vjp(self.act, acting, past)
        _, pull = jax.vjp(choose, wanted, kept.previous, kept.newest)
        action = [
            sum(parts)
            for parts in zip(
                action, worth[0], *([after.previous] if after.previous else []), strict=True
            )
        ]
        wanted, previous, by_choice = pull(Choice(action, new))
        in_acting, of_policy = pull_acting(wanted)
        newest = [sum(parts) for parts in zip(newest, by_choice, strict=True)]
        return Place(slope + of_model + of_policy, latest, newest, previous), in_acting

    def outside(self, coming: Float[Array, "B E"] | None, like: Place | Kept) -> Columns | None:
        """Exogenous values, for all policies and weight draws."""
        if coming is None:
            return None
        return [jnp.broadcast_to(own, like.newest[0].shape) for own in coming.T]
