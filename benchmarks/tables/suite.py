"""The benchmark suite's tables, from ``results/bench.json``."""

from pathlib import Path

from paper.markdown import markdown, metrics

DEVICES = {"cpu": "two cores", "gpu": "one GPU"}
JOBS = {
    "train/alpha": "training, α",
    "train/alpha_100_seeds": "the same, 100 seeds at once",
    "train/ensemble": "training, ensemble",
    "draws": "predictive draws, moments",
    "entropy/quadrature": "entropy, quadrature",
    "entropy/nearest_neighbour": "entropy, nearest neighbours",
    "rollout/one": "roll-out gradient, one policy",
    "rollout/thirty": "roll-out gradient, thirty",
    "simulator/wet_chicken": "simulator, wet chicken",
    "simulator/industrial_benchmark": "simulator, industrial benchmark",
    "simulator/wind_turbine": "simulator, wind turbine",
}
UNITS = {"train": "an update", "draws": "a point", "entropy": "a point", "rollout": "an update"}
BOUNDS = ("arithmetic", "special functions", "memory")
RATIOS = {
    "train": "training update",
    "train_matched": "training update, matched",
    "search": "policy search update",
    "entropy": "split by entropy, default",
    "entropy_nearest_neighbour": "split by entropy, nearest neighbours",
    "simulator": "industrial benchmark, a step",
}
PEERS = {
    "torch_eager": "PyTorch, eager",
    "torch_compile": "PyTorch, `torch.compile`",
    "torch_tuned": "PyTorch, `torch.compile`, tuned by hand",
    "lightning_uq_box": "lightning-uq-box",
    "scipy": "scipy's k-d tree",
    "original": "the original simulator, one plant",
}


def ratios(results: Path) -> str:
    """Times of peers over ours."""
    return markdown(
        ["job", "peer", "its time relative to ours"], _ratios(metrics("bench", results))
    )


def floors(results: Path) -> str:
    """Time over the least that the work takes."""
    headings = ["job"]
    for label in DEVICES.values():
        headings += [f"{label}: a unit, ms", "over floor", "floor is"]
    return markdown(headings, _floors(metrics("bench", results)))


def gains(results: Path) -> str:
    """What was gained over the plain way."""
    return markdown(
        ["job", "device", "plain, ms", "now, ms", "speed-up", "largest difference"],
        _gains(metrics("bench", results)),
    )


def peaks(results: Path) -> str:
    """What the machines do at best."""
    values = metrics("bench", results)
    names = {
        "operations": ("product of large matrices, 10⁹ operations per second", 1e9),
        "special": ("exponentials, 10⁹ per second", 1e9),
        "moved": ("triad, 10⁹ bytes per second", 1e9),
    }
    rows = [
        [label, *(_cell(values.get(f"peak/{name}_per_second/{d}"), unit) for d in DEVICES)]
        for name, (label, unit) in names.items()
    ]
    return markdown(["", *DEVICES.values()], rows)


def terminal(results: Path) -> str:
    """All of it as one table for the terminal."""
    values = metrics("bench", results)
    rows = [(f"{job}, {peer}", f"{ratio} × ours") for job, peer, ratio in _ratios(values)]
    rows += [
        (f"{label}, {where}", f"{values[f'floor/{job}/{device}']:.1f} × floor")
        for job, label in JOBS.items()
        for device, where in DEVICES.items()
        if f"floor/{job}/{device}" in values
    ]
    rows += [(f"{row[0]}, {row[1]}", f"{row[4]} × the plain way") for row in _gains(values)]
    return "\n".join(f"{name:70s} {value:>22s}" for name, value in rows)


def _ratios(values: dict[str, float]) -> list[list[str]]:
    return [
        [label, peer_label, f"{values[f'ratio/{job}/{peer}']:,.1f}"]
        for job, label in RATIOS.items()
        for peer, peer_label in PEERS.items()
        if f"ratio/{job}/{peer}" in values
    ]


def _floors(values: dict[str, float]) -> list[list[str]]:
    rows = []
    for job, label in JOBS.items():
        cells = [cell for device in DEVICES for cell in _floor(values, job, device)]
        if set(cells) != {"–"}:
            unit = UNITS.get(job.split("/")[0], "a step")
            rows.append([f"{label} ({unit})", *cells])
    return rows


def _floor(values: dict[str, float], job: str, device: str) -> list[str]:
    if f"floor/{job}/{device}" not in values:
        return ["–"] * 3
    milliseconds = values[f"milliseconds/{job}/{device}"]
    bound = BOUNDS[int(values[f"bound_by/{job}/{device}"])]
    return [f"{milliseconds:.3g}", f"{values[f'floor/{job}/{device}']:.1f}", bound]


def _gains(values: dict[str, float]) -> list[list[str]]:
    return [
        [
            label,
            where,
            f"{values[f'gain_milliseconds/{job}/plain/{device}']:.3g}",
            f"{values[f'gain_milliseconds/{job}/own/{device}']:.3g}",
            f"{values[f'gain/{job}/{device}']:.1f}",
            f"{values[f'difference/{job}/{device}']:.0e}",
        ]
        for job, label in JOBS.items()
        for device, where in DEVICES.items()
        if f"gain/{job}/{device}" in values
    ]


def _cell(value: float | None, unit: float) -> str:
    return "–" if value is None else f"{value / unit:,.3g}"
