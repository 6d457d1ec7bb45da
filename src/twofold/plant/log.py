"""``Log``: observations, actions and costs, episode by episode."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from twofold.core.naming import nearest
from twofold.envs.system import Episodes, System
from twofold.tables import TableError

# User functions are identified by their values at this many points, in ranges this many times as
# wide as the log's, so that behaviour beyond the logged values counts too.
PROBES, WIDENING = 4096, 10.0


class LogError(TableError):
    """A wrong name, file, column or option."""


class LogWarning(UserWarning):
    """A log is usable but should be inspected."""


@dataclass(frozen=True, eq=False)
class Episode:
    """A contiguous stretch of equal time steps.

    Action ``t`` was applied from observation ``t`` until observation ``t + 1``, and cost ``t`` is
    that of arriving there. ``origin`` names the run of which it is a piece, if that was cut.
    """

    observations: np.ndarray
    actions: np.ndarray
    costs: np.ndarray | None = None
    times: np.ndarray | None = None
    name: str = ""
    origin: str = ""

    def __post_init__(self):
        steps = len(self.actions)
        expected = {"observations": steps + 1, "actions": steps, "costs": steps, "times": steps + 1}
        for field, length in expected.items():
            if (value := getattr(self, field)) is None:
                continue
            object.__setattr__(self, field, np.asarray(value, float))
            if len(value) != length:
                raise LogError(
                    f"episode {self.name!r} has {steps} actions and needs {length} {field}, got "
                    f"{len(value)}: an observation before each action and one after the last"
                )

    def __len__(self) -> int:
        return len(self.actions)

    def cut(self, first: int, end: int) -> "Episode":
        """The steps from ``first`` to before ``end``."""
        costs = None if self.costs is None else self.costs[first:end]
        times = None if self.times is None else self.times[first : end + 1]
        rows, steps = self.observations[first : end + 1], self.actions[first:end]
        return replace(self, observations=rows, actions=steps, costs=costs, times=times)


@dataclass(frozen=True, eq=False)
class Log:
    """Episodes of a system, with names for the columns and bounds of the actions."""

    observations: tuple[str, ...]
    actions: tuple[str, ...]
    action_low: np.ndarray
    action_high: np.ndarray
    episodes: tuple[Episode, ...]

    def __post_init__(self):
        for field in ("observations", "actions", "episodes"):
            object.__setattr__(self, field, tuple(getattr(self, field)))
        check_unique([*self.observations, *self.actions])
        for field in ("action_low", "action_high"):
            object.__setattr__(self, field, np.asarray(getattr(self, field), float).reshape(-1))
        if not len(self.action_low) == len(self.action_high) == len(self.actions):
            raise LogError(
                f"each of the actions {', '.join(self.actions)} needs a lower and an upper bound, "
                f"got {len(self.action_low)} lower and {len(self.action_high)} upper bounds"
            )
        for name, low, high in zip(self.actions, self.action_low, self.action_high, strict=True):
            check_bounds(name, (low, high))
        if not self.observations or not self.episodes:
            raise LogError("a log needs at least one observation column and one episode, got none")
        for number, episode in enumerate(self.episodes):
            for field in ("observations", "actions"):
                shape, names = getattr(episode, field).shape, getattr(self, field)
                if len(shape) != 2 or shape[1] != len(names):
                    raise LogError(
                        f"episode {number}: {field} must have {len(names)} columns "
                        f"({', '.join(names)}), got shape {shape}"
                    )
        if len({episode.costs is None for episode in self.episodes}) > 1:
            raise LogError("costs must be given for all episodes or for none, got costs of some")

    @property
    def transitions(self) -> int:
        """The number of steps in all episodes."""
        return sum(map(len, self.episodes))

    def column(self, name: str) -> np.ndarray:
        """All values of an observation or action, concatenated over episodes."""
        kind = "observations" if name in self.observations else "actions"
        index = getattr(self, kind).index(name)
        return np.concatenate([getattr(one, kind)[:, index] for one in self.episodes])

    def probes(self) -> tuple[np.ndarray, np.ndarray]:
        """Fixed observations and actions, uniform over widened ranges."""
        rng = np.random.default_rng(0)
        seen = np.concatenate([episode.observations for episode in self.episodes])
        low, high = seen.min(axis=0), seen.max(axis=0)
        middle, half = 0.5 * (low + high), 0.5 * WIDENING * np.maximum(high - low, 1e-3)
        observations = rng.uniform(middle - half, middle + half, (PROBES, len(middle)))
        actions = rng.uniform(self.action_low, self.action_high, (PROBES, len(self.actions)))
        return observations, actions

    def pick(self, numbers: Sequence[int] | np.ndarray) -> "Log":
        """The log with these episodes only."""
        return replace(self, episodes=tuple(self.episodes[i] for i in numbers))

    def split(self, held_out: float = 0.2, seed: int = 0) -> tuple["Log", "Log"]:
        """Split into a training and a held-out log. Whole runs, with all their pieces, go to one of
        them, because rows of one run resemble each other. If there is only one run, its pieces are
        split; of a single piece, the last part is held out."""
        if len(self.episodes) == 1 and 0.0 < held_out < 1.0 and len(self.episodes[0]) > 1:
            (one,) = self.episodes
            at = min(max(1, round((1.0 - held_out) * len(one))), len(one) - 1)
            # The state in between belongs to both parts.
            first, last = one.cut(0, at), one.cut(at, len(one))
            return replace(self, episodes=(first,)), replace(self, episodes=(last,))
        origins = [one.origin or f"episode {i}" for i, one in enumerate(self.episodes)]
        if len(set(origins)) == 1:
            origins = [f"piece {i}" for i in range(len(origins))]
        runs = list(dict.fromkeys(origins))
        kept_back = max(1, round(held_out * len(runs)))
        if not 0.0 < held_out < 1.0 or kept_back >= len(runs):
            raise LogError(
                f"held_out must be a fraction between 0 and 1 that leaves runs on both sides, got "
                f"{held_out} of {len(runs)} runs"
            )
        order = np.random.default_rng(seed).permutation(len(runs))
        back = {runs[i] for i in order[:kept_back]}
        held = np.array([origin in back for origin in origins])
        return self.pick(np.flatnonzero(~held)), self.pick(np.flatnonzero(held))

    def __str__(self) -> str:
        return (
            f"{self.transitions} transitions in {len(self.episodes)} episodes: observations "
            f"{', '.join(self.observations)}; actions {', '.join(self.actions) or 'none'}"
        )


def check_bounds(name: str, bounds: Any) -> tuple[float, float]:
    """Check that the bounds of an action are finite and in order."""
    try:
        low, high = map(float, bounds)
    except (TypeError, ValueError):
        raise LogError(f"{name}: bounds must be two numbers (low, high), got {bounds!r}") from None
    if not (np.isfinite([low, high]).all() and low < high):
        raise LogError(f"{name}: bounds must be finite and low < high, got {low:g} and {high:g}")
    return low, high


def check_known(
    what: str, names: Iterable[str], known: Sequence[str], kind: str = "observations"
) -> None:
    """Refuse names that are not among the known columns of a kind."""
    for name in names:
        if name not in known:
            has = f"({', '.join(known)}){nearest(name, known)}"
            raise LogError(f"{what} {name!r} is not one of the {kind} {has}")


def check_unique(names: Sequence[str]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise LogError(
            f"names of observations, actions, episode, time and cost must be unique, got "
            f"{', '.join(map(repr, twice))} more than once"
        )


def from_episodes(system: System, episodes: Episodes) -> Log:
    """Simulated episodes as a log."""
    columns = zip(*(np.asarray(part, float) for part in episodes), strict=True)
    parts = tuple(Episode(x, u, c, name=str(i)) for i, (x, u, c) in enumerate(columns))
    bounds = system.action_low, system.action_high
    return Log(system.observations, system.actions, *bounds, parts)


class Window(NamedTuple):
    """The last H observations, newest last, and the H − 1 actions between them."""

    observations: Any
    actions: Any


class Start(NamedTuple):
    """A window, and the values of exogenous columns after each of the next T steps."""

    observations: Any
    actions: Any
    coming: Any


Starts = Window | Start


class Steps(NamedTuple):
    """Steps with complete history: windows ``[N, H, D]`` and ``[N, H - 1, A]``, the action applied
    next, and the resulting observation."""

    windows: Window
    actions: np.ndarray
    next_observations: np.ndarray


def check_length(log: Log, history: int, which: str = "") -> None:
    """Refuse a log without any step preceded by ``history`` observations."""
    longest = max(len(episode) + 1 for episode in log.episodes)
    if longest <= history:
        raise LogError(
            f"a history of {history} needs {which}episodes of at least {history + 1} rows, but the "
            f"longest has {longest}; use a shorter history"
        )


def list_stretches(log: Log, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Every stretch of ``size`` rows, episode by episode: observations ``[N, size, D]``, and the
    actions between them ``[N, size - 1, A]``."""
    parts = []
    for one in log.episodes:
        rows = np.arange(max(len(one) + 2 - size, 0))[:, None] + np.arange(size)
        parts.append((one.observations[rows], one.actions[rows[:, :-1]]))
    seen, done = map(np.concatenate, zip(*parts, strict=True))
    return seen, done


def find_successors(log: Log, history: int) -> np.ndarray:
    """Which of the ``steps`` follow the one before them in the same episode ``[N]``."""
    counts = [max(len(one) + 1 - history, 0) for one in log.episodes]
    return np.concatenate([np.arange(count) > 0 for count in counts])


def steps(log: Log, history: int) -> Steps:
    """Every step preceded by ``history`` observations, episode by episode."""
    check_length(log, history)
    seen, done = list_stretches(log, history + 1)
    return Steps(Window(seen[:, :-1], done[:, :-1]), done[:, -1], seen[:, -1])
