"""Logs from CSV and Parquet files and from data frames, and back."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from twofold.plant.checks import check, log_error
from twofold.plant.log import Log, LogError, LogWarning, check_bounds, check_different
from twofold.plant.mending import Mending, mend
from twofold.plant.raw_log import RawLog, raw_log_of
from twofold.tables import Table, check_names, read_table, write_table


def read_log(
    source: Any,
    *,
    observations: Sequence[str],
    actions: Mapping[str, tuple[float, float]],
    episode: str | None = None,
    time: str | None = None,
    cost: str | None = None,
    cost_at: str = "arrival",
    missing: Sequence[str | float] = (),
    delimiter: str | None = None,
    decimal: str = ".",
    encoding: str = "utf-8-sig",
    history: int = 1,
    strict: bool = False,
    **mending: bool,
) -> Log:
    """A log from a CSV or Parquet file or a pandas ``DataFrame``, one row for each time step.

    The columns are those of ``read_raw_log``. Faults that make the log unusable raise a
    ``LogError`` that lists them all and names the option that mends each (those of ``Mending``:
    ``sort=True``, ``split_at_gaps=True``, …); other faults are warned of, or raised too if
    ``strict``. ``history`` is the number of rows that a model will look back over.
    """
    options = Mending.of(mending)
    found = read_raw_log(
        source, observations=observations, actions=actions, episode=episode, time=time, cost=cost,
        cost_at=cost_at, missing=missing, delimiter=delimiter, decimal=decimal, encoding=encoding,
    )  # fmt: skip
    raw = mend(found, options)
    if not len(raw):
        raise LogError(f"{found.source}: nothing is left of {len(found)} rows after mending")
    # Neither is mended: leaving out rows with text would leave out all that have decimal commas.
    kinds = ["text"] if options.split_at_restarts and raw.times is None else ["text", "interleaved"]
    findings = [one for one in check(found) if one.kind in kinds]
    mended = check(raw, history=history)
    findings += [one for one in mended if one.kind not in ("text", "interleaved")]
    if any(finding.severity == "error" or strict for finding in findings):
        raise log_error(raw.source, findings)
    for finding in findings:
        warnings.warn(f"{finding.source}: {finding.sentence}", LogWarning, stacklevel=2)
    return raw.log()


def read_raw_log(
    source: Any,
    *,
    observations: Sequence[str],
    actions: Mapping[str, tuple[float, float]],
    episode: str | None = None,
    time: str | None = None,
    cost: str | None = None,
    cost_at: str = "arrival",
    missing: Sequence[str | float] = (),
    delimiter: str | None = None,
    decimal: str = ".",
    encoding: str = "utf-8-sig",
) -> RawLog:
    """The named columns of a table as they are, faults and all, for ``check``.

    ``observations`` names the columns that are seen, ``actions`` those that are applied from a row
    on, with their bounds; in the last row of an episode they may be blank. ``episode`` and ``time``
    (numbers or dates) name further columns, ``cost`` one with the cost of having come to a row
    (``cost_at="departure"``: of the step that leaves it). ``missing`` are words and numbers that
    mean that there is no value (in the time column only words do).
    """
    if cost_at not in ("arrival", "departure"):
        raise LogError(f"cost_at must be 'arrival' or 'departure', got {cost_at!r}")
    if decimal not in (".", ","):
        raise LogError(f"decimal must be '.' or ',', got {decimal!r}")
    table = read_table(source, delimiter=delimiter, encoding=encoding)
    missing = [missing] if isinstance(missing, str | int | float) else list(missing)
    observations = [observations] if isinstance(observations, str) else list(observations)
    given = [*observations, *actions, *(one for one in (episode, time, cost) if one is not None)]
    check_different(given)
    check_names(table, given)
    bounds = _bounds(table, actions, missing, decimal)
    names = [*observations, *bounds, *([cost] if cost is not None else [])]
    read = {name: table.numbers(name, missing, decimal) for name in names}
    texts = {name: column.texts for name, column in read.items()}
    times = None
    if time is not None:
        times, texts[time] = table.times(time, missing, decimal)
    part, parts = _episodes(table, episode, decimal)
    values = {name: column.values for name, column in read.items()}
    others = tuple(name for name in table.names if name not in given)
    return RawLog(
        table.source, table.unit, table.rows, observations=tuple(observations), actions=bounds,
        values=values, part=part, parts=parts, times=times, time=time or "time", cost=cost,
        cost_at=cost_at, texts=texts, others=others,
    )  # fmt: skip


def write_log(log: Log, path: Any) -> None:
    """Write a log as a CSV or Parquet file that ``read_log`` reads back, to the last digit.

    Its columns are ``episode``, ``step``, ``time`` (if known), observations, actions (blank in the
    last row of an episode) and ``cost`` (blank in the first).
    """
    raw = raw_log_of(log)
    columns: dict[str, Any] = {"episode": [raw.parts[one] for one in raw.part], "step": raw.rows}
    if raw.times is not None:
        columns["time"] = raw.times
    for name in sorted(columns.keys() & raw.values.keys()):
        raise LogError(f"a column of the table must not be called {name!r}; rename it in the log")
    write_table(path, columns | raw.values)


def _bounds(
    table: Table, actions: Any, missing: Sequence[str | float], decimal: str
) -> dict[str, tuple[float, float]]:
    """Checked bounds; who gives none is told the range in the table."""
    if isinstance(actions, Mapping):
        return {name: check_bounds(name, bounds) for name, bounds in actions.items()}
    names = [actions] if isinstance(actions, str) else list(actions)
    check_names(table, names)
    columns = [table.numbers(name, missing, decimal).values for name in names]
    ends = [f"({np.nanmin(values):g}, {np.nanmax(values):g})" for values in columns]
    ranges = [f"{name!r}: {pair}" for name, pair in zip(names, ends, strict=True)]
    raise LogError(
        "actions need bounds, which a policy will keep to: pass a mapping such as "
        f"actions={{{', '.join(ranges)}}} (the range in {table.source})"
    )


def _episodes(
    table: Table, episode: str | None, decimal: str
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The number of each row's episode, in the order in which they begin, and their names."""
    if episode is None:
        return np.zeros(len(table.rows), int), ("0",)
    labels = table.labels(episode, decimal)
    blank = [row for row, label in zip(table.rows, labels, strict=True) if label in ("", "nan")]
    if blank:
        raise LogError(
            f"{table.source}: the episode column {episode!r} is blank in {len(blank)} rows, the "
            f"first of them {table.unit} {blank[0]}; fill it in or leave those rows out"
        )
    parts = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    return np.array([parts[label] for label in labels]), tuple(parts)
