"""The members of a staged fit: training, and scoring on the rows that each of them holds out."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from twofold.core.numerics import Padded
from twofold.estimators.mixing import score_mixture
from twofold.estimators.training import Outcome
from twofold.inference import ensemble
from twofold.inference.ensemble import SCORE, STOP, Ensemble, Network, Problem
from twofold.inference.langevin import Langevin
from twofold.model.spec import BNNLV


class Task(NamedTuple):
    """What every stage of a fit needs: method, data sets, a key for each run, and how to train."""

    method: Any
    data: Padded
    keys: Any
    train: Callable[..., Outcome]

    @property
    def ensemble(self) -> Ensemble:
        """The method of the members."""
        return self.method.members if isinstance(self.method, Langevin) else self.method

    def select(self, group: Sequence[int]) -> "Task":
        """The task for some of the data sets."""
        keys = self.keys.reshape(-1, self.method.runs)[np.array(group)].reshape(-1)
        return self._replace(data=pick(self.data, list(group)), keys=keys)


class Members(NamedTuple):
    """The members of one data set: best networks, role of each row for each member, out-of-bag
    score of each row, energies."""

    model: BNNLV
    best: Network
    roles: np.ndarray
    scores: np.ndarray
    energies: np.ndarray

    def held_out(self, *roles: int) -> np.ndarray:
        """Mask of the rows that have one of the roles, for each member."""
        return np.isin(self.roles, roles)


def score_rows(
    nodes: int, members: Members, draws: Network, data: Padded, *roles: int
) -> np.ndarray:
    """Log-density of each row, predicted by the networks for which it has one of the roles."""
    held_out = members.held_out(*roles)
    log_densities = ensemble.out_of_bag_scores(members.model, nodes, draws, held_out, data)
    scores = np.asarray(log_densities, np.float64)[: int(data.size)]
    return ensemble.weigh_scores(scores, row_weights(data))


def score_as_mixture(
    nodes: int, members: Members, draws: Network, data: Padded, *roles: int
) -> np.ndarray:
    """Score of each row as predicted by the mixture of all members or chains, from those for which
    it has one of the roles."""
    rows, weight = int(data.size), row_weights(data)
    scores = ensemble.member_scores(members.model, nodes, draws, data)
    of_members = np.asarray(scores, np.float64)[:, :rows]
    held_out, scored = (members.held_out(*r)[:, :rows] for r in ((STOP, SCORE), roles))
    return ensemble.weigh_scores(score_mixture(of_members, held_out, scored, weight), weight)


def row_weights(data: Padded) -> np.ndarray | None:
    return None if data.weight is None else np.asarray(data.weight, np.float64)[: int(data.size)]


def fit_members(
    task: Task, model: BNNLV, roles: Sequence[np.ndarray]
) -> tuple[list[Members], bool]:
    """The members of each data set, and whether Ctrl-C ended their run."""
    method, data = task.ensemble, task.data
    runs, dtype = method.runs, str(data.x.dtype)
    setup = method.set_up(model, np.asarray(data.size), dtype)
    start = jax.device_get(ensemble.draw_starts(model, dtype, task.keys))
    role: Any = np.concatenate(roles)
    order: Any = np.argsort(role, axis=1, kind="stable").astype(np.int32)
    problem = Problem(repeat(data, runs), role, order, start)
    title = "fitting with a latent input" if model.latents else "fitting"
    outcome = task.train("members", title, model, setup, task.keys, problem)
    states = jax.device_get(outcome.states)
    fitted = []
    for index in range(len(roles)):
        member = slice(index * runs, (index + 1) * runs)
        best = pick(states.best, member)
        # When the run ended depends on the clock; energies after a member's last change are
        # dropped.
        last = 1 + int(np.max(states.best_epoch[member]))
        members = Members(model, best, roles[index], np.empty(0), outcome.energies[:last, member])
        scores = score_rows(method.nodes, members, add_draw_axis(best), pick(data, index), SCORE)
        fitted.append(members._replace(scores=scores))
    return fitted, outcome.stopped


def add_draw_axis(network: Network) -> Network:
    """Insert an axis for a single draw after the members' axis."""
    return jax.tree.map(lambda leaf: leaf[:, None], network)


def pick(tree: Any, index: int | list[int] | slice) -> Any:
    """One of several data sets, or some of them; or of other entries of a leading axis."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def repeat(data: Padded, times: int) -> Padded:
    """Repeat each data set once for each of its members."""
    return jax.tree.map(lambda leaf: np.repeat(leaf, times, axis=0), data)


def join(parts: Sequence[Any]) -> Any:
    """Trees one after another along the leading axis of every leaf."""
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
