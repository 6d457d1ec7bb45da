"""The pool loop of active learning (paper, §4): fit, score a pool of candidates, measure, repeat.
Several learners (repetitions, problems, strategies) run in parallel, to be fitted together."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np


class Data(NamedTuple):
    """Inputs ``[N, D]`` and outputs ``[N]`` or ``[N, O]``."""

    x: np.ndarray
    y: np.ndarray

    def extend(self, more: "Data") -> "Data":
        if len(more.x) != len(more.y):
            raise ValueError(f"{len(more.x)} points measured, but {len(more.y)} outputs given")
        return Data(np.concatenate([self.x, more.x]), np.concatenate([self.y, more.y]))


class Setting(NamedTuple):
    """The functions of a loop; learners and rounds are identified by index.

    ``fit(round, data)`` gives a model for each learner's data, ``pool(learner, round)`` the
    candidates ``[C, D]``, ``choose(learner, round, model, pool)`` the indices of those to measure,
    and ``measure(learner, round, x)`` their outputs.
    """

    fit: Callable[[int, list[Data]], list[Any]]
    pool: Callable[[int, int], np.ndarray]
    choose: Callable[[int, int, Any, np.ndarray], np.ndarray]
    measure: Callable[[int, int, np.ndarray], np.ndarray]


class Round(NamedTuple):
    """The result of a round: fitted models, and data including its measurements."""

    number: int
    models: list[Any]
    data: list[Data]


def pool_loop(
    setting: Setting, data: Sequence[Data], rounds: int, first: int = 0
) -> Iterator[Round]:
    """Measure in rounds ``first`` to ``rounds − 1``, then fit once more, in round ``rounds``. If
    the functions of ``setting`` depend on their arguments only, a stopped loop can be resumed
    exactly: with the data of its last round, and ``first`` the number after it."""
    if not 0 <= first <= rounds + 1:
        raise ValueError(f"first must lie between 0 and {rounds + 1} rounds, got {first}")
    current = list(data)
    for number in range(first, rounds + 1):
        models = setting.fit(number, current)
        current = list(current)
        if len(models) != len(data):
            raise ValueError(
                f"fit must return {len(data)} models, one per learner, got {len(models)}"
            )
        for learner, model in enumerate(models if number < rounds else []):
            pool = setting.pool(learner, number)
            x = pool[setting.choose(learner, number, model, pool)]
            measured = Data(x, setting.measure(learner, number, x))
            current[learner] = current[learner].extend(measured)
        yield Round(number, models, current)
