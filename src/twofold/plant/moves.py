"""Rates of change of logged actions, and on/off actions."""

from collections.abc import Mapping

import numpy as np

from twofold.plant.log import Log, LogError, check_known

# Quantile of the logged changes that defines the rate of an action.
USUAL_RATE = 0.95
# An action that often changes by more than this fraction of its range in one step jumps.
JUMP = 0.5


def logged_rates(log: Log) -> dict[str, float]:
    """The rate of each action that does not jump: the 95 % quantile of its changes other than 0."""
    found = {}
    for index, name in enumerate(log.actions):
        moved = np.concatenate([np.abs(np.diff(one.actions[:, index])) for one in log.episodes])
        moved = moved[moved > 0.0]
        width = log.action_high[index] - log.action_low[index]
        if len(moved) and (rate := float(np.quantile(moved, USUAL_RATE))) <= JUMP * width:
            found[name] = rate
    return found


def rates_of(log: Log, max_rate: Mapping[str, float]) -> tuple[float, ...]:
    """The largest change of each action per step (at most its range); empty if none has a limit."""
    check_known("name in max_rate", max_rate, log.actions, "actions")
    for name, rate in max_rate.items():
        if not rate > 0.0:
            raise LogError(f"max_rate of {name!r} must be above 0, got {rate!r}")
    ranges = zip(log.actions, (log.action_high - log.action_low).tolist(), strict=True)
    rates = {name: min(float(max_rate.get(name, width)), width) for name, width in ranges}
    return tuple(rates.values()) if max_rate else ()


def find_switches(log: Log) -> tuple[int, ...]:
    """Indices of actions that were always at one of their bounds."""
    ends = enumerate(zip(log.actions, log.action_low, log.action_high, strict=True))
    found = (i for i, (name, *bounds) in ends if np.isin(log.column(name), bounds).all())
    return tuple(found) if log.transitions else ()
