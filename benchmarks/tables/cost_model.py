"""Tables of the cost model: its constants, its errors, its points, and what large runs need."""

from pathlib import Path

from benchmarks.cost_formulas import (
    HELD_LABELS,
    LABELS,
    TERMS,
    Fit,
    Point,
    campaigns_seconds,
    fit,
    fits,
    frontier_seconds,
    key,
    paper_policies_at_once,
    points,
)
from benchmarks.tables.suite import DEVICES
from paper.markdown import markdown, metrics

POLICIES, CAMPAIGNS, MEASUREMENTS = 1_000, 1_000, 200
SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9, "ps": 1e-12, "fs": 1e-15}
BYTES = {"MB": 1e6, "kB": 1e3, "B": 1.0}
NOT_SEEN = "not seen"
UNKNOWN = "–"


def amount(value: float, units: dict[str, float]) -> str:
    """A constant in the largest unit of which there is one, or that it was not seen."""
    if value == 0:
        return NOT_SEEN
    value = float(f"{value:.3g}")  # as shown, so that none is a thousand of a smaller unit
    name = next((name for name, unit in units.items() if value >= unit), list(units)[-1])
    return f"{value / units[name]:.3g} {name}"


def measured_table(job: str, results: Path) -> str:
    """Predicted beside measured."""
    values, rows = metrics("cost_model", results), []
    for device, label in DEVICES.items():
        measured = points(values, job, device)
        if measured:
            found = fit(job, measured)
            rows += [_measured_row(found, point, label) for point in measured]
    times = ["measured, ms", "predicted, ms", "error"]
    return markdown(["sizes", "on", *times, "held, MB", "predicted, MB", "error"], rows)


def _measured_row(found: Fit, point: Point, label: str) -> list[str]:
    seconds, held = found.seconds(point.sizes), found.bytes(point)
    memory = [UNKNOWN] * 3
    if point.memory:
        memory[0] = f"{point.memory / 1e6:,.1f}"
    if point.memory and held:
        memory[1:] = [f"{held / 1e6:,.1f}", f"{held / point.memory - 1:+z.0%}"]
    return [
        key(point.sizes).replace(",", ", "),
        label,
        f"{1e3 * point.seconds:.3g}",
        f"{1e3 * seconds:.3g}",
        f"{seconds / point.seconds - 1:+z.0%}",
        *memory,
    ]


def errors_table(results: Path) -> str:
    """How far each formula is from what was measured, at most."""
    values, rows = metrics("cost_model", results), []
    by_device = {device: fits(values, device) for device in DEVICES}
    for job in TERMS:
        found = [by_device[device].get(job) for device in DEVICES]
        errors = [None if one is None else one.time_error for one in found]
        errors += [None if one is None else one.memory_error for one in found]
        rows.append([job, *(UNKNOWN if one is None else f"{one:.0%}" for one in errors)])
    kinds = [f"{kind}, {label}" for kind in ("time", "memory") for label in DEVICES.values()]
    return markdown(["job", *kinds], rows)


def time_constants(results: Path) -> str:
    """The constant of every term of every job's time."""
    values = metrics("cost_model", results)
    found = {device: fits(values, device) for device in DEVICES}
    constants = {d: {job: one.time for job, one in jobs.items()} for d, jobs in found.items()}
    return _constants(LABELS, constants, SECONDS)


def memory_constants(results: Path) -> str:
    """The constant of every term of what a job holds."""
    values = metrics("cost_model", results)
    found = {device: fits(values, device) for device in DEVICES}
    constants = {
        d: {job: one.memory for job, one in jobs.items() if len(one.memory)}
        for d, jobs in found.items()
    }
    return _constants(HELD_LABELS, constants, BYTES)


def _constants(
    labels: dict[str, list[str]], constants: dict[str, dict], units: dict[str, float]
) -> str:
    rows = []
    for job, terms in labels.items():
        for place, term in enumerate(terms):
            own = [jobs[job][place] if job in jobs else None for jobs in constants.values()]
            cells = [UNKNOWN if one is None else amount(one, units) for one in own]
            rows.append(["" if place else job, term, *cells])
    return markdown(["job", "term", *DEVICES.values()], rows)


def calculations(results: Path) -> str:
    """What large runs would need."""
    values, rows = metrics("cost_model", results), []
    together = paper_policies_at_once()
    for device, label in DEVICES.items():
        found = fits(values, device)
        if "search" in found:
            days = frontier_seconds(found, POLICIES, together) / 86_400
            what = f"a frontier of {POLICIES:,} policies, {together} at once"
            rows.append([what, label, f"{days:,.1f} days"])
        if {"ensemble", "choice"} <= found.keys():
            hours = campaigns_seconds(found, CAMPAIGNS, MEASUREMENTS) / 3600
            what = f"{CAMPAIGNS:,} campaigns of {MEASUREMENTS} measurements, asked once"
            rows.append([what, label, f"{hours:,.1f} hours"])
    return markdown(["", "on", "time"], rows)
