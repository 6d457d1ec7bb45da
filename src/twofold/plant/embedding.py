"""``Embedding``: from a log's recent past to a model's input, and from its output to what follows.

The same functions build the table a model is fitted to (NumPy) and run inside roll-outs (JAX:
``jit``, ``vmap``, ``grad``). Windows are in the log's units; the model sees each column through its
transform φ. Of column c, with the value ``c'`` one step later, the model's output is

    φ(c') − φ(c)        a delta
    φ(c')               absolute
    φ(c') − φ(known c)  what a known part of the dynamics leaves over
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float
from twofold.plant.log import Log
from twofold.plant.past import Past
from twofold.plant.transforms import Transform, check_seen
from twofold.plant.windows import Steps, Window, steps

Known = Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]
ROWS = 4096  # at once, so that programs compile for one size


class Seen(NamedTuple):
    """A window as a model sees it: the values through their transforms, as ``Past`` orders them,
    and the newest observation, through the transforms and in the log's units."""

    past: Float[Array, "F"]
    latest: Float[Array, "D"]
    newest: Float[Array, "D"]


@dataclass(frozen=True)
class Embedding:
    """What a model sees and what it predicts; ``embed`` makes one for a log and checks it.

    ``lags`` says for each observation how many of its last values are seen, ``action_lags`` the
    same for each action, the one about to be applied among them. ``targets`` are predicted, as
    ``deltas`` or absolutely; ``computed`` columns follow from ``known(observation, action)``, and
    as that is known before the step is made, their lags end with the value after it. What is
    neither predicted nor computed keeps its last value.
    """

    observations: tuple[str, ...]
    actions: tuple[str, ...]
    lags: tuple[int, ...]
    action_lags: tuple[int, ...]
    targets: tuple[str, ...]
    deltas: tuple[str, ...]
    transforms: tuple[Transform, ...]
    known: Known | None = None
    computed: tuple[str, ...] = ()
    residual: tuple[str, ...] = ()

    @property
    def history(self) -> int:
        """The number of observations in a window."""
        return max(1, *self.lags, *self.action_lags)

    @property
    def input_names(self) -> tuple[str, ...]:
        """A name for each column of the model's input: ``level[t-1]``, ``level[t]``, …"""
        names = []
        for name, lags in zip(self.observations, self.lags, strict=True):
            ahead = name in self.computed
            names += [_at(name, ahead - lag) for lag in reversed(range(lags))]
        for name, lags in zip(self.actions, self.action_lags, strict=True):
            names += [_at(name, -lag) for lag in reversed(range(lags))]
        return tuple(names)

    @property
    def target_names(self) -> tuple[str, ...]:
        """A name for each of the model's outputs."""
        return tuple(self._target_name(name) for name in self.targets)

    def _target_name(self, name: str) -> str:
        kind = self._transform(name).kind
        seen = (lambda text: text) if kind == "identity" else (lambda text: f"{kind}({text})")
        if name in self.residual:
            return f"{seen(name + '[t+1]')} - known"
        return seen(f"{name}[t+1]") + (f" - {seen(f'{name}[t]')}" if name in self.deltas else "")

    def input(self, window: Window, action: Float[Array, "A"]) -> Float[Array, "I"]:
        """The model's input: what is in the window, and the action about to be applied."""
        return self.input_of(self.see(window), action)

    def features(self, window: Window) -> Float[Array, "F"]:
        """What a policy sees: the window's columns up to now, and the actions of the past."""
        return self.features_of(self.see(window))

    def output(
        self, window: Window, action: Float[Array, "A"], next_observation: Float[Array, "D"]
    ) -> Float[Array, "O"]:
        """The output that a model which is right has: the inverse of ``advance``."""
        seen = self.see(window)
        base = self._base(seen.latest, seen.newest, action)
        following = dict(zip(self.observations, next_observation, strict=True))
        return jnp.stack(
            [self._transform(name).forward(following[name]) - base[name] for name in self.targets]
        )

    def advance(
        self, window: Window, action: Float[Array, "A"], output: Float[Array, "O"]
    ) -> Window:
        """The window one step later, its newest observation made from the model's output."""
        seen = self.see(window)
        _, newest = self.followed(seen.latest, seen.newest, action, output)
        return Window(_shifted(window.observations, newest), _shifted(window.actions, action))

    @cached_property
    def layout(self) -> Past:
        """Where the values of a window are."""
        return Past.of(self.lags, self.action_lags, [n in self.computed for n in self.observations])

    def see(self, window: Window) -> Seen:
        """The window through the transforms; in a roll-out this is done once, at its start."""
        columns = [
            transform.forward(window.observations[:, index])
            for index, transform in enumerate(self.transforms)
        ]
        past = self.layout.gathered(columns, list(window.actions.T))
        latest = jnp.stack([column[-1] for column in columns])
        return Seen(past, latest, window.observations[-1])

    def features_of(self, seen: Seen) -> Float[Array, "F"]:
        """``features`` of a window that has been seen."""
        return seen.past[self.layout.features]

    def input_of(self, seen: Seen, action: Float[Array, "A"]) -> Float[Array, "I"]:
        """``input`` of a window that has been seen."""
        known = jnp.concatenate([seen.past, self.new_of(seen.newest, action)])
        return known[self.layout.inputs]

    def new_of(self, newest: Float[Array, "D"], action: Float[Array, "A"]) -> Float[Array, "new"]:
        """What a model's input has beyond the past: the computed columns after the step, and the
        action."""
        ahead = self._known(newest, action)
        values = [
            self.transforms[index].forward(ahead[self.observations[index]])
            for index in self.layout.computed
        ]
        values += [action[index] for index in self.layout.applied]
        return _stacked(values, newest.dtype)

    def followed(
        self,
        latest: Float[Array, "D"],
        newest: Float[Array, "D"],
        action: Float[Array, "A"],
        output: Float[Array, "O"],
    ) -> tuple[Float[Array, "D"], Float[Array, "D"]]:
        """The next observation, through the transforms and in the log's units."""
        base, ahead = self._base(latest, newest, action), self._known(newest, action)
        outputs = dict(zip(self.targets, output, strict=True))
        values, seen = [], []
        for index, (name, transform) in enumerate(
            zip(self.observations, self.transforms, strict=True)
        ):
            if name in outputs:
                seen.append(transform.settled(base[name] + outputs[name]))
                values.append(transform.inverse(seen[-1]))
            elif name in self.computed:
                values.append(ahead[name])
                seen.append(transform.forward(values[-1]))
            else:
                values.append(newest[index])
                seen.append(latest[index])
        return _stacked(seen, newest.dtype), _stacked(values, newest.dtype)

    def steps(self, log: Log) -> Steps:
        """The log's steps with their windows, as NumPy arrays: where roll-outs start.

        A value beyond the range of its column's transform is seen as at its end, with a warning
        that counts them; one without a logarithm is refused.
        """
        for name, transform in zip(self.observations, self.transforms, strict=True):
            check_seen(name, transform, log.column(name))
        return steps(log, self.history)

    def design(self, log: Log) -> tuple[np.ndarray, np.ndarray]:
        """Inputs ``[N, I]`` and outputs ``[N, O]`` to fit a model to, in double precision."""
        found = self.steps(log)
        count = len(found.actions)
        parts = []
        with jax.enable_x64(True):
            for start in range(0, count, ROWS):
                index = np.minimum(np.arange(start, start + ROWS), count - 1)
                parts.append(_rows(self, *jax.tree.map(lambda leaf, i=index: leaf[i], found)))
        x, y = (np.concatenate([np.asarray(part[i]) for part in parts])[:count] for i in (0, 1))
        return x, y

    def _base(self, latest: Array, newest: Array, action: Array) -> dict[str, Any]:
        """What an output is added to."""
        known = self._known(newest, action) if self.residual else {}
        base = {}
        for name in self.targets:
            last = latest[self.observations.index(name)]
            if name in self.residual:
                last = self._transform(name).forward(known[name])
            base[name] = last if name in self.residual or name in self.deltas else 0.0
        return base

    def _known(self, now: Array, action: Array) -> Mapping[str, Any]:
        if self.known is None:
            return {}
        seen = dict(zip(self.observations, now, strict=True))
        return self.known(seen, dict(zip(self.actions, action, strict=True)))

    def _transform(self, name: str) -> Transform:
        return self.transforms[self.observations.index(name)]


@partial(jax.jit, static_argnums=0)
def _rows(embedding: Embedding, windows: Window, actions: Array, following: Array) -> Any:
    inputs = jax.vmap(embedding.input)(windows, actions)
    return inputs, jax.vmap(embedding.output)(windows, actions, following)


def _stacked(values: list[Any], dtype: Any) -> Array:
    """Scalars as one array, of which there may be none."""
    return (
        jnp.stack([jnp.asarray(value, dtype) for value in values])
        if values
        else jnp.zeros(0, dtype)
    )


def _shifted(rows: Float[Array, "H D"], newest: Float[Array, "D"]) -> Float[Array, "H D"]:
    """The rows one step later."""
    return jnp.concatenate([rows, newest[None]])[1:]


def _at(name: str, step: int) -> str:
    return f"{name}[t{step:+d}]" if step else f"{name}[t]"
