"""Policies of this library beside offline reinforcement learning, from the record."""

from pathlib import Path

from paper.markdown import markdown, mean_and_error, metrics

TASKS = {
    "industrial_random": "industrial benchmark, random batch",
    "industrial_behaviour": "industrial benchmark, behaviour batch",
    "wet_chicken": "wet-chicken",
    "pendulum": "pendulum",
    "reactor": "reactor",
}
METHODS = {
    "twofold": "twofold",
    "bc": "BC",
    "td3_bc": "TD3+BC",
    "cql": "CQL",
    "iql": "IQL",
    "mopo": "MOPO",
    "logged": "logged",
}
HINDSIGHT = {"twofold_best": "twofold, in hindsight"}
UNKNOWN = "–"


def tabulate_costs(results: Path) -> str:
    """True costs a step; of those with several seeds bold is what is within two standard errors of
    the best."""
    values = metrics("offline_rl", results)
    rows = []
    for task, label in TASKS.items():
        best = leading(values, task)
        cells = []
        for method in [*METHODS, *HINDSIGHT]:
            cell = describe_cost(values, f"{task}/{method}")
            cells.append(f"**{cell}**" if method in best else cell)
        if best:
            rows.append([label, *cells])
    return markdown(["", *METHODS.values(), *HINDSIGHT.values()], rows)


def describe_cost(values: dict[str, float], place: str) -> str:
    """Mean and standard error, or what one seed has."""
    if f"{place}/cost/mean" not in values:
        return UNKNOWN
    if values.get(f"{place}/cost/se"):
        return mean_and_error(values, f"{place}/cost", 3 if values[f"{place}/cost/mean"] < 1 else 2)
    return f"{values[f'{place}/cost/mean']:.3f} (one seed)"


def leading(values: dict[str, float], task: str) -> list[str]:
    """Methods whose mean cost is within two standard errors, of the difference, of the least."""
    places = {name: f"{task}/{name}/cost" for name in METHODS}
    found = {
        name: (values[f"{place}/mean"], values[f"{place}/se"])
        for name, place in places.items()
        if values.get(f"{place}/se")
    }
    if not found:
        return []
    least, error = min(found.values())
    return [
        name
        for name, (mean, own) in found.items()
        if mean - least <= 2.0 * (own**2 + error**2) ** 0.5
    ]


def tabulate_seconds(results: Path) -> str:
    """Wall and CPU seconds of learning a policy, and its updates."""
    values = metrics("offline_rl", results)
    learners = {name: label for name, label in METHODS.items() if name != "logged"}
    rows = []
    for task, label in TASKS.items():
        cells = []
        for method in learners:
            place = f"{task}/{method}"
            found = [values.get(f"{place}/{kind}_seconds") for kind in ("wall", "cpu")]
            times = [f"{value:.0f}" for value in found if value is not None]
            steps = f" ({values[f'{place}/steps']:,.0f})" if values.get(f"{place}/steps") else ""
            cells.append(" / ".join(times) + steps or UNKNOWN)
        if any(cell != UNKNOWN for cell in cells):
            rows.append([label, *cells])
    return markdown(["wall / CPU seconds (updates)", *learners.values()], rows)
