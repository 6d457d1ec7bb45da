"""``Embedding``: from recent rows of a log to model inputs, and from model outputs to the next row.

The same functions build the training table (NumPy) and run inside roll-outs (JAX: ``jit``,
``vmap``, ``grad``). Windows are in the log's units; the model sees each column through its
transform φ. For a column c with the value ``c'`` one step later, the model's output is

    φ(c') − φ(c)        a delta
    φ(c')               absolute
    φ(c') − φ(known c)  the residual of the known dynamics

In roll-outs, predictions without bounds saturate far beyond the log (``saturate``). Exogenous
columns (weather, demand) are not predicted: roll-outs replay their logged values.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float
from twofold.core.persistence import fingerprint
from twofold.plant.columns import (
    Past,
    Transform,
    check_seen,
    choose_range,
    choose_transform,
    place_of,
    saturate,
    user_errors,
)
from twofold.plant.log import Log, LogError, LogWarning, Start, Steps, Window, check_known, steps

Known = Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]
Names = tuple[str, ...]
Row = Float[Array, "D"]
Action = Float[Array, "A"]
Output = Float[Array, "O"]
Coming = Float[Array, "E"] | None  # values of exogenous columns after the step
ROWS = 4096  # rows per call, so that programs compile for one size
# Warn if ``known`` is off by more than this fraction of the column's range.
ROUNDING = 1e-3


class Seen(NamedTuple):
    """A window as the model sees it: the transformed values in the order of ``Past``, and the
    newest observation, transformed and in the log's units."""

    past: Float[Array, "F"]
    latest: Row
    newest: Row


@dataclass(frozen=True)
class Embedding:
    """Inputs and outputs of a dynamics model; ``embed`` makes one for a log and checks it.

    ``lags`` is the number of past values the model sees of each observation, ``action_lags`` that
    of each action, including the one about to be applied. ``targets`` are predicted, as ``deltas``
    or absolute values. ``computed`` columns follow from ``known(observation, action)``; since that
    is known before the step, their lags end with the value after it. So do the lags of
    ``exogenous`` columns, whose future values are given to roll-outs. All other columns keep their
    last value. ``ranges`` are the transformed ranges of the observations in the log, which limit
    predictions. ``limited`` actions have a maximum rate, so a window includes the last one.
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
    ranges: tuple[tuple[float, float], ...] = ()
    exogenous: tuple[str, ...] = ()
    limited: bool = False

    @property
    def history(self) -> int:
        """The number of observations in a window."""
        return max(1 + self.limited, *self.lags, *self.action_lags)

    @property
    def ahead(self) -> tuple[str, ...]:
        """Columns whose value after a step is known before the step."""
        return *self.computed, *self.exogenous

    @cached_property
    def exogenous_places(self) -> np.ndarray:
        """Indices of the exogenous observations."""
        return np.array([self.observations.index(name) for name in self.exogenous], np.int32)

    @property
    def past_lags(self) -> tuple[int, ...]:
        """Past values of each observation, then of each action, when an action is chosen."""
        return *self.lags, *(max(lags - 1, 0) for lags in self.action_lags)

    @property
    def input_names(self) -> tuple[str, ...]:
        """A name for each column of the model's input: ``level[t-1]``, ``level[t]``, …"""
        names, counts = (*self.observations, *self.actions), (*self.lags, *self.action_lags)
        return tuple(
            f"{name}[t{step:+d}]" if step else f"{name}[t]"
            for name, lags in zip(names, counts, strict=True)
            for step in (np.arange(1 - lags, 1) + (name in self.ahead)).tolist()
        )

    @property
    def target_names(self) -> tuple[str, ...]:
        """A name for each of the model's outputs."""
        names = []
        for name in self.targets:
            kind = self.transforms[self.observations.index(name)].kind
            seen = "{}[{}]" if kind == "identity" else f"{kind}({{}}[{{}}])"
            base = f" - {seen.format(name, 't')}" if name in self.deltas else ""
            names.append(seen.format(name, "t+1") + (" - known" if name in self.residual else base))
        return tuple(names)

    @cached_property
    def layout(self) -> Past:
        """The layout of the flat vector."""
        return Past.of(self.lags, self.action_lags, [n in self.ahead for n in self.observations])

    def see(self, window: Window | Start) -> Seen:
        """Transform a window; in a roll-out this is done once, at the start."""
        rows = window.observations
        columns = [own.forward(rows[:, index]) for index, own in enumerate(self.transforms)]
        past = self.layout.gather(columns, list(window.actions.T))
        return Seen(past, jnp.stack([own[-1] for own in columns]), rows[-1])

    def features(self, window: Window | Start) -> Float[Array, "F"]:
        """The inputs of a policy: observations up to now, and past actions."""
        return self.see(window).past[self.layout.features]

    def input(self, window: Window, action: Action, coming: Coming = None) -> Float[Array, "I"]:
        """The model's input: the window, the action, and the values known after the step."""
        past, _, newest = self.see(window)
        return jnp.concatenate([past, self.new_of(newest, action, coming)])[self.layout.inputs]

    def new_of(self, newest: Row, action: Action, coming: Coming = None) -> Float[Array, "new"]:
        """The model's input beyond the past: columns known after the step, and the action."""
        known, names = self.known_values(newest, action, coming), self.observations
        ahead = [self.transforms[i].forward(known[names[i]]) for i in self.layout.ahead]
        return jnp.asarray([*ahead, *(action[i] for i in self.layout.applied)], newest.dtype)

    def output(self, window: Window, action: Action, next_observation: Row) -> Output:
        """The model output that leads to the next observation: the inverse of ``advance``."""
        _, latest, newest = self.see(window)
        known = self.known_values(newest, action)
        places = [self.observations.index(name) for name in self.targets]
        following = [self.transforms[i].forward(next_observation[i]) for i in places]
        bases = [self._base(i, latest, known) for i in places]
        return jnp.stack([own - base for own, base in zip(following, bases, strict=True)])

    def advance(
        self, window: Window, action: Action, output: Output, coming: Coming = None
    ) -> Window:
        """The window one step later, its newest observation computed from the model's output."""
        _, latest, newest = self.see(window)
        _, following = self.follow(latest, newest, action, output, coming)
        rows = zip(window, (following, action), strict=True)
        return Window(*(jnp.concatenate([part, own[None]])[1:] for part, own in rows))

    def follow(
        self, latest: Row, newest: Row, action: Action, output: Output, coming: Coming = None
    ) -> tuple[Row, Row]:
        """The next observation, transformed and in the log's units."""
        known = self.known_values(newest, action, coming)
        outputs = dict(zip(self.targets, output, strict=True))
        seen, values = [*latest], [*newest]
        for index, name in enumerate(self.observations):
            transform = self.transforms[index]
            if name in outputs:
                seen[index] = self._bound(index, self._base(index, latest, known) + outputs[name])
                values[index] = transform.inverse(seen[index])
            elif name in self.ahead:
                values[index] = known[name]
                seen[index] = transform.forward(known[name])
        cast = partial(jnp.asarray, dtype=newest.dtype)
        return jnp.stack([*map(cast, seen)]), jnp.stack([*map(cast, values)])

    def _base(self, index: int, latest: Array, known: Mapping[str, Any]) -> Array | float:
        """The value to which the output of a target is added."""
        name = self.observations[index]
        if name in self.residual:
            return self.transforms[index].forward(known[name])
        return latest[index] if name in self.deltas else 0.0

    def _bound(self, index: int, seen: Array) -> Array:
        """Limit a transformed prediction to its bounds."""
        transform = self.transforms[index]
        if transform.kind.endswith("logit") or not self.ranges:
            return transform.clamp(seen)
        return saturate(seen, *self.ranges[index])

    def known_values(self, now: Row, action: Action, coming: Coming = None) -> dict[str, Any]:
        """The known values of the next observation, by column."""
        given = {} if coming is None else dict(zip(self.exogenous, coming, strict=True))
        if self.known is None:
            return given
        seen = dict(zip(self.observations, now, strict=True))
        return dict(self.known(seen, dict(zip(self.actions, action, strict=True)))) | given

    def steps(self, log: Log) -> Steps:
        """The log's steps with their windows. Warns about values beyond the range of their column's
        transform; refuses values without a logarithm."""
        for name, transform in zip(self.observations, self.transforms, strict=True):
            check_seen(name, transform, log.column(name))
        return steps(log, self.history)

    def starts(self, log: Log, horizon: int) -> Window | Start:
        """Starts of roll-outs of ``horizon`` steps: the windows of the log's steps and, with
        exogenous columns, their values after each future step, where the log is long enough."""
        windows = self.steps(log).windows
        if not self.exogenous:
            return windows
        self.check_horizon(log, horizon)
        places = self.exogenous_places
        after = [one.observations[self.history :, places] for one in log.episodes]
        kept = np.concatenate([np.arange(len(own)) <= len(own) - horizon for own in after])
        slide = partial(np.lib.stride_tricks.sliding_window_view, window_shape=horizon, axis=0)
        coming = np.concatenate([slide(own) for own in after if len(own) >= horizon])
        past = windows.observations[kept], windows.actions[kept]
        return Start(*past, np.swapaxes(coming, 1, 2))

    def check_horizon(self, log: Log, horizon: int, which: str = "") -> None:
        """Refuse a horizon for which no episode has enough exogenous values."""
        longest = max(map(len, log.episodes)) - self.history + 1
        if self.exogenous and longest < horizon:
            raise LogError(
                f"{self.exogenous[0]!r} is exogenous and is replayed from the log for {horizon} "
                f"steps, but the longest {which}episode has {max(longest, 0)} after a history of "
                f"{self.history}; use a horizon of at most {max(longest, 1)}"
            )

    def design(self, log: Log) -> tuple[np.ndarray, np.ndarray]:
        """Inputs ``[N, I]`` and outputs ``[N, O]`` to fit a model to, in double precision."""
        found = self.steps(log)
        count = len(found.actions)
        blocks = np.minimum(np.arange(-(-count // ROWS) * ROWS), count - 1).reshape(-1, ROWS)
        with jax.enable_x64(True):
            parts = [_rows(self, *jax.tree.map(lambda leaf, i=i: leaf[i], found)) for i in blocks]
        x, y = (np.concatenate(part)[:count] for part in zip(*parts, strict=True))
        return x, y

    def fingerprint(self, log: Log) -> str:
        """Equal for embeddings with the same inputs, targets and known dynamics."""
        # Newer fields count only if they are used, so that older folders can be resumed.
        later = {"exogenous": (), "limited": False}
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "known"}
        parts = [value for name, value in values.items() if later.get(name) != value]
        arrays = [np.frombuffer(repr(tuple(parts)).encode(), np.uint8)]
        with jax.enable_x64(True):
            given = jax.jit(jax.vmap(self.known_values))(*map(jnp.asarray, log.probes()))
            arrays += [np.asarray(given[name]) for name in sorted(given)]
        return fingerprint(*arrays)


@partial(jax.jit, static_argnums=0)
def _rows(embedding: Embedding, windows: Window, actions: Array, following: Array) -> Any:
    coming = following[:, embedding.exogenous_places]
    inputs = jax.vmap(embedding.input)(windows, actions, coming)
    return inputs, jax.vmap(embedding.output)(windows, actions, following)


def embed(
    log: Log,
    *,
    history: int = 1,
    window: Sequence[str] | Mapping[str, int] | None = None,
    action_history: int | Mapping[str, int] | None = None,
    targets: Sequence[str] | None = None,
    held: Sequence[str] = (),
    exogenous: Sequence[str] = (),
    deltas: bool | Sequence[str] = True,
    transforms: Mapping[str, str | Transform] | None = None,
    known: Known | None = None,
) -> Embedding:
    """Make an embedding for a log.

    Parameters
    ----------
    history : int
        Number of past observations and actions the model sees; use more than one if there are
        delays or unobserved states.
    window : names, or a mapping from names to a number of values
        Observations that the model sees (all of them), and how many values of each (``history``).
    action_history : int, or a mapping from names to one
        Number of past actions it sees, including the one about to be applied (default:
        ``history``); 0 for actions that act through known columns only.
    targets : names
        Observations to predict (default: all that are neither held, exogenous nor known). For a
        target that is also known, the model predicts the residual.
    held : names
        Observations that stay constant during a roll-out, such as set-points.
    exogenous : names
        Observations that no action influences, such as weather, demand or feed. Roll-outs replay
        them from the log, and the model sees their value at the next step.
    deltas : bool or names
        Whether the change of a target is predicted (True) or its value.
    transforms : mapping from names to "log1p", "logit" or "log1p_logit"
        Transforms of columns, with bounds from this log: see ``Transform``.
    known : function
        ``known(observation, action) -> {name: value one step later}``, both mappings from names,
        written with ``jax.numpy``: known parts of the dynamics.
    """
    names = log.observations
    known_names = _known_names(log, known)
    outside = _to_names("exogenous", exogenous, names)
    held = _to_names("held", held, names)
    chosen = _choose_targets(names, targets, held, outside, known_names)
    _check_count("history", history, 1)
    kinds = transforms or {}
    check_known("name in transforms", kinds, names)
    columns = [log.column(name) for name in names]
    wanted = [kinds.get(name, "identity") for name in names]
    seen = tuple(map(choose_transform, names, wanted, columns))
    embedding = Embedding(
        observations=names,
        actions=log.actions,
        lags=_count_lags("window", names, window, history),
        action_lags=_count_lags("action_history", log.actions, action_history, history, "actions"),
        targets=chosen,
        deltas=_to_names("deltas", chosen if deltas is True else deltas or (), names),
        transforms=seen,
        known=known,
        computed=tuple(name for name in known_names if name not in chosen),
        residual=tuple(name for name in known_names if name in chosen),
        ranges=tuple(map(choose_range, seen, columns)),
        exogenous=outside,
    )
    if not embedding.input_names:
        raise LogError("the model has no inputs; give it a window or an action_history above 0")
    if not len(embedding.layout.features):
        raise LogError("a policy has no inputs; give at least one observation a window above 0")
    if embedding.computed:
        _check_computed(log, embedding)
    return embedding


def _to_names(what: str, names: Any, known: Sequence[str], kind: str = "observations") -> Names:
    names = (names,) if isinstance(names, str) else tuple(names)
    check_known(what, names, known, kind)
    return names


def _check_count(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise LogError(f"{name} must be a whole number of at least {least}, got {value!r}")


def _count_lags(
    what: str, names: Sequence[str], given: Any, history: int, kind: str = "observations"
) -> tuple[int, ...]:
    """Number of lags for each name; ``given`` is a number, a list of names, or a mapping."""
    if given is None:
        given = history
    if isinstance(given, int | np.integer):
        given = dict.fromkeys(names, given)
    elif not isinstance(given, Mapping):
        given = dict.fromkeys(_to_names(what, given, names, kind), history)
    check_known(what, given, names, kind)
    for name, lags in given.items():
        _check_count(f"{what}[{name!r}]", lags, 0)
    return tuple(int(given.get(name, 0)) for name in names)


def _choose_targets(
    names: Sequence[str], targets: Any, held: Names, exogenous: Names, known: Names
) -> Names:
    """Targets as given, or all observations not handled otherwise."""
    if targets is None:
        targets = [name for name in names if name not in {*held, *exogenous, *known}]
    targets = _to_names("target", targets, names)
    for name in held:
        if name in {*targets, *known}:
            raise LogError(f"{name!r} is held and cannot be predicted or known as well")
    for name in exogenous:
        if name in {*targets, *known, *held}:
            raise LogError(f"{name!r} is exogenous and cannot be predicted, held or known as well")
    for name in names:
        if name not in {*targets, *held, *exogenous, *known}:
            raise LogError(
                f"{name!r} is neither a target, nor known, held or exogenous, so that its next "
                f"value in a roll-out is undefined; predict it, keep its last value with "
                f"held=[{name!r}], or replay the logged values with exogenous=[{name!r}]"
            )
    if not targets:
        raise LogError(
            "there is nothing to predict: all observations are held, exogenous or known; remove "
            "from those the ones that an action influences"
        )
    return targets


def _known_names(log: Log, known: Known | None) -> Names:
    """The columns that ``known`` returns, tested under ``jit``."""
    if known is None:
        return ()
    now = dict(zip(log.observations, jnp.asarray(log.episodes[0].observations[0]), strict=True))
    action = dict(zip(log.actions, jnp.asarray(log.episodes[0].actions[0]), strict=True))
    call, result = "known(observation, action)", "return a mapping from names to values"
    rule = f"{result} and be written with jax.numpy, without if or float() of values"
    has = f"observations are {', '.join(now)} and actions {', '.join(action) or 'none'}"
    with user_errors(known, call, rule, has):
        found = jax.jit(known)(now, action)
    if not isinstance(found, Mapping):
        raise LogError(f"{place_of(known)}{call} must {result}, got {type(found).__name__}")
    check_known("name returned by known", found, log.observations)
    for name, value in found.items():
        if jnp.shape(value) != ():
            raise LogError(f"{call}: {name!r} must be one number, got shape {jnp.shape(value)}")
    return tuple(name for name in log.observations if name in found)


def _check_computed(log: Log, embedding: Embedding) -> None:
    """Warn if ``known`` disagrees with the log."""
    found = steps(log, 1)
    given = found.windows.observations[:, -1], found.actions
    with jax.enable_x64(True):
        found_known = jax.jit(jax.vmap(embedding.known_values))(*given)
    for name in embedding.computed:
        true = found.next_observations[:, log.observations.index(name)]
        off = np.abs(np.asarray(found_known[name]) - true)
        if not off.max() <= ROUNDING * (np.ptp(true) or 1.0):
            message = (
                f"known gives {name!r} with an error of up to {off.max():.3g} ({off.mean():.3g} on "
                f"average; its logged range is {np.ptp(true):.3g}); correct known, or add {name!r} "
                "to the targets so that the model learns the difference"
            )
            warnings.warn(message, LogWarning, stacklevel=3)
