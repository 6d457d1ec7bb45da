"""``Trial``: what a model says of one policy, as numbers that a report needs, and their file."""

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import jax
import numpy as np

from twofold.core import persistence
from twofold.plant.dynamics import DynamicsModel
from twofold.plant.forecast import Forecast, forecast
from twofold.plant.identity import ProjectError
from twofold.plant.log import Log
from twofold.plant.policy import LearnedPolicy
from twofold.plant.reach import QUANTILES, Reach, States, reach

# Held-out windows that a policy is rolled out from.
STARTS = 32
# Times the epistemic risk is what a careful person adds to an expected cost.
CAUTION = 2.0
# Enough for a drawing, and a third of the file that all digits would make.
DIGITS = 5
STEPWISE = ("expected", "epistemic", "aleatoric", "apart", "beyond")
KINDS: dict[Any, tuple[type, ...]] = {
    float: (int, float),
    np.ndarray: (np.ndarray,),
    dict[str, float]: (dict,),
    dict[str, np.ndarray]: (dict,),
}


@dataclass(frozen=True, eq=False)
class Trial:
    """A policy on the model, from held-out starts.

    ``expected`` are costs at each of T steps, ``epistemic`` and ``aleatoric`` their deviations,
    ``apart`` and ``beyond`` the median distance of visited states to the nearest logged one and the
    share of them that is farther than 99 % of held-out states (``far``) are. ``columns`` are
    observations with the share of the epistemic part that they explain, largest first, and
    ``riskiest`` the visited states where it is largest, by column. ``rollouts`` are costs of some
    roll-outs ``[R, T]``, ``visited`` has for each column the quantiles ``[T, 5]`` of its values at
    each step, and ``logged`` the least, the same quantiles and the largest of the log's values.
    The last three are empty in files that an older version wrote.
    """

    epistemic_weight: float
    aleatoric_weight: float
    expected: np.ndarray
    epistemic: np.ndarray
    aleatoric: np.ndarray
    apart: np.ndarray
    beyond: np.ndarray
    usual: float
    far: float
    columns: dict[str, float]
    riskiest: dict[str, np.ndarray]
    rollouts: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    visited: dict[str, np.ndarray] = field(default_factory=dict)
    logged: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def weights(self) -> tuple[float, float]:
        """β and γ."""
        return self.epistemic_weight, self.aleatoric_weight

    @property
    def cost(self) -> float:
        """The expected cost per step."""
        return float(self.expected.mean())

    @property
    def epistemic_risk(self) -> float:
        """The deviation of the cost between weight draws, averaged over steps."""
        return float(self.epistemic.mean())

    @property
    def aleatoric_risk(self) -> float:
        """The deviation of the cost within weight draws, averaged over steps."""
        return float(self.aleatoric.mean())

    @property
    def careful_cost(self) -> float:
        """The expected cost and twice the epistemic risk."""
        return self.cost + CAUTION * self.epistemic_risk

    @property
    def share_beyond(self) -> float:
        """Of visited states, those beyond the data."""
        return float(self.beyond.mean())


def try_policy(
    model: DynamicsModel, policy: LearnedPolicy, held_out: Log, horizon: int, random_state: int
) -> Trial:
    """Forecast a policy from held-out windows, and look how far it leaves the data."""
    windows = model.embedding.steps(held_out).windows
    rng = np.random.default_rng(random_state)
    rows = rng.permutation(len(windows.observations))[:STARTS]
    starts = jax.tree.map(lambda leaf: leaf[rows], windows)
    found = forecast(model, policy, starts, horizon, random_state=random_state)
    reached = reach(model, policy, held_out, horizon, random_state=random_state)
    return summary(policy, found, reached, model.log)


def summary(policy: LearnedPolicy, found: Forecast, reached: Reach, log: Log) -> Trial:
    """Means over starts; of risks those of deviations, as in the criterion."""
    distances = reached.distances
    return Trial(
        policy.epistemic_weight,
        policy.aleatoric_weight,
        expected=found.expected.mean(axis=0),
        epistemic=np.sqrt(np.maximum(found.epistemic, 0.0)).mean(axis=0),
        aleatoric=np.sqrt(np.maximum(found.aleatoric, 0.0)).mean(axis=0),
        apart=distances.median,
        beyond=distances.beyond,
        usual=distances.usual,
        far=distances.far,
        columns={column.name: column.explained for column in reached.columns},
        riskiest=named(reached.riskiest, log),
        rollouts=_rounded(found.sampled),
        visited=dict(
            zip((*log.observations, *log.actions), _rounded(reached.quantiles), strict=True)
        ),
        logged=logged_range(log),
    )


def logged_range(log: Log) -> dict[str, np.ndarray]:
    """For each column the least value, ``QUANTILES`` and the largest."""
    seen = np.concatenate([episode.observations for episode in log.episodes])
    done = np.concatenate([episode.actions for episode in log.episodes])
    return {
        name: _rounded(np.nanquantile(column, (0.0, *QUANTILES, 1.0)))
        for name, column in zip((*log.observations, *log.actions), (*seen.T, *done.T), strict=True)
    }


def _rounded(values: np.ndarray) -> np.ndarray:
    """To a few digits."""
    return np.vectorize(lambda value: float(f"{value:.{DIGITS}g}"), otypes=[float])(values)


def named(states: States, log: Log) -> dict[str, np.ndarray]:
    """States with the names of their columns."""
    return {
        "after steps": states.steps,
        **dict(zip(log.observations, states.observations.T, strict=True)),
        **dict(zip(log.actions, states.actions.T, strict=True)),
        "epistemic part": states.epistemic,
    }


def write(path: Path, trial: Trial) -> None:
    """As JSON; what is not finite becomes null."""
    content = {name: _plain(value) for name, value in vars(trial).items()}
    persistence.write_text(path, json.dumps(content, indent=1, allow_nan=False))


def read(path: Path) -> Trial:
    """A trial that ``write`` wrote."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = Trial(**{name: _numbers(value) for name, value in content.items()})
        _check(found)
        return found
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ProjectError(
            f"{path} is damaged ({error}); delete it and search again, which makes it anew"
        ) from error


def _check(found: Trial) -> None:
    """Every part of a trial is of the kind that ``write`` wrote."""
    for part in fields(Trial):
        value = getattr(found, part.name)
        if part.type not in KINDS or not isinstance(value, KINDS[part.type]):
            raise ValueError(f"its {part.name} is {value!r}")
    steps = {len(getattr(found, name)) for name in STEPWISE}
    if len(steps) != 1 or 0 in steps:
        raise ValueError("its parts have different numbers of steps, or none")


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_plain(one) for one in (value if value.ndim > 1 else value.tolist())]
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return value if np.isfinite(value) else None


def _numbers(value: Any) -> Any:
    if isinstance(value, list):
        return np.array(value, float)
    if isinstance(value, dict):
        return {name: _numbers(one) for name, one in value.items()}
    return np.nan if value is None else value
