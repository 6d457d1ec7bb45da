"""The tables of first use: commands from typing to the prompt, and campaigns."""

from pathlib import Path

from paper.markdown import markdown, mean_and_error, metrics

COMMANDS = {
    "suggest": "`suggest`",
    "report": "`report` of a campaign",
    "report_model": "`report` of a model",
    "tell": "`campaign tell`",
    "status": "`campaign status`",
    "ask_first": "`campaign ask`, first model",
    "ask_later": "`campaign ask`, later",
    "policy_search_quick": "`policy search --quick`, 20,000 rows",
}
PROBLEMS = ("wave", "corner", "ridge")


def tabulate_commands(results: Path) -> str:
    """Seconds of each command: CPU, wall clock, and wall clock of the very first use."""
    values = metrics("first_use", results)
    fits = [name.removesuffix("/warnings") for name in values if name.endswith("/warnings")]
    names = {name: "`fit{}`, {} rows".format(*_describe(name)) for name in fits}
    times = ("wall_seconds", "cpu_seconds", "cold/wall_seconds")
    rows = [
        [label, *(f"{values[f'{name}/{time}']:.1f}" for time in times)]
        for name, label in (names | COMMANDS).items()
        if f"{name}/wall_seconds" in values
    ]
    return markdown(["command", "seconds", "CPU seconds", "seconds, first use"], rows)


def _describe(name: str) -> tuple[str, str]:
    _, rows, mode = name.split("/")
    return " --quick" if mode == "quick" else "", f"{int(rows):,}"


def tabulate_campaigns(results: Path) -> str:
    """What is left to learn before and after, and errors over those of random points."""
    values = metrics("first_use", results)
    parts = ("first_nats", "last_nats", "rmse_over_random")
    rows = [
        [name, *(mean_and_error(values, f"campaign/{name}/{part}") for part in parts)]
        for name in PROBLEMS
    ]
    headings = ["left to learn after 10 random points (nats)", "after 30 more", "RMSE / random"]
    return markdown(["problem", *headings], rows)
