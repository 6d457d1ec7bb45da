"""The table of faults and bad input that were tried."""

from pathlib import Path

from paper.markdown import markdown, metrics

SURFACES = {
    "estimator": "settings and data of an estimator",
    "tables": "CSV and Parquet files",
    "streaming": "tables that are read in blocks",
    "files": "files of models, policies, checkpoints, projects",
    "campaign": "calls of a campaign, in any order",
    "campaign_file": "bytes of a campaign's file",
    "commands": "command lines",
    "disk": "full and read-only disks",
    "processes": "several processes on one campaign",
    "memory": "requests beyond all memory",
    "total": "**all**",
}
COUNTS = {
    "cases": "cases",
    "refused": "refused with a message",
    "crashes": "crashes",
    "hangs": "hangs",
    "losses": "losses",
}


def faults(results: Path) -> str:
    """Cases of each surface and what came of them."""
    values = metrics("faults", results)
    rows = [
        [label, *(f"{values[f'{surface}/{count}']:,.0f}" for count in COUNTS)]
        for surface, label in SURFACES.items()
    ]
    return markdown(["input", *COUNTS.values()], rows)
