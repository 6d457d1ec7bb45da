"""Kill a process (``kill -9``) at random moments during ``ask`` and ``tell``, and count losses.

    python benchmarks/campaign_faults.py

A worker alternates between ``ask`` and ``tell`` and logs each call before it starts and after it
returns. After each kill the campaign must open, contain every result whose call had returned
exactly once and complete, and answer the next ``ask``. A kill is counted for the call that it
interrupted. Writes ``results/campaign_faults.json``.
"""

import argparse
import multiprocessing
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from paper.records import Record
from twofold import Ensemble
from twofold.campaign import Campaign, CampaignError, Categorical, Continuous
from twofold.core.sharding import enable_compile_cache

INPUTS = (Continuous("x", -5.0, 5.0), Categorical("side", ("left", "right")))
OUTPUTS = ("y", "w")
SETTINGS = {
    "inference": Ensemble(members=2, updates=20),
    "latent_dim": 0,
    "n_latent_draws": 1,
    "verbose": False,
}
CALLS = ("tell", "ask")
# Longest delay of a kill in seconds after the worker's first line with this word: a worker that
# asks is killed during its first compilation, loading and fit, or after them.
MOMENTS = {"tell": {"told": 0.05}, "ask": {"ask": 4.0, "asked": 0.5}}
PATIENCE = 120.0
# Imported before the fork; importing BlackJAX would start threads, which do not survive a fork.
PRELOADED = ["jax", "optax", "sklearn.utils", "scipy.stats", "sqlalchemy", "safetensors.numpy"]
SEED = 0


class Log:
    """The log of a worker, line by line; lines survive a kill."""

    def __init__(self, path: Path):
        self.path = path
        path.touch()

    def say(self, *words: Any) -> None:
        """Append a line, in one write."""
        with self.path.open("ab", buffering=0) as file:
            file.write((" ".join(map(str, words)) + "\n").encode())

    def lines(self) -> list[list[str]]:
        """All lines so far, as words."""
        return [line.split() for line in self.path.read_text().splitlines()]

    def numbers(self, word: str) -> list[int]:
        """The numbers that follow a word."""
        return [int(n) for first, *rest in self.lines() if first == word for n in rest]


class Found(NamedTuple):
    """The state after a kill: acknowledged results and proposals that are missing, results that are
    duplicate, incomplete or unexpected, and whether the campaign was unusable."""

    lost: set[int]
    proposals_lost: set[int]
    spoilt: set[int]
    unusable: bool


def work(place: Path, log: Log, call: str) -> None:
    """Call ``ask`` and ``tell``, or ``tell`` only, until killed."""
    warnings.simplefilter("ignore")
    enable_compile_cache()
    campaign = Campaign.open(place)
    while True:
        if call == "ask":
            log.say("ask")
            log.say("asked", *(proposal.number for proposal in campaign.ask(2)))
            for proposal in campaign.pending():
                tell(campaign, log, proposal=proposal.number)
        else:
            tell(campaign, log, point={"x": 0.0, "side": "left"})


def tell(campaign: Campaign, log: Log, **where: Any) -> None:
    """Record a number not used before, and log the call before and after."""
    value = len(log.numbers("tell"))
    log.say("tell", value)
    campaign.tell({"y": float(value), "w": -float(value)}, **where)
    log.say("told", value)


def kill_once(place: Path, log: Log, call: str, rng: np.random.Generator) -> str:
    """Start a worker and kill it at a random moment; returns the call that was interrupted."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    word = rng.choice(sorted(MOMENTS[call]))
    said = len(log.lines())
    worker = context.Process(target=work, args=(place, log, call))
    worker.start()
    deadline = time.monotonic() + PATIENCE
    while word not in [line[0] for line in log.lines()[said:]] and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(rng.uniform(0.0, MOMENTS[call][word]))
    if not worker.is_alive():
        raise RuntimeError(f"the worker ended by itself with exit code {worker.exitcode}")
    worker.kill()
    worker.join()
    last = log.lines()[-1][0]
    return last if last in CALLS else "between"


def examine(place: Path, log: Log, ask: bool) -> Found:
    """Compare the content of the campaign with the logged calls."""
    try:
        campaign = Campaign.open(place)
        rows = campaign.export()
        proposals = {row["proposal"] for row in rows} | {p.number for p in campaign.pending()}
        if ask:
            campaign.ask(1)
    except CampaignError as error:
        print(f"unusable: {error}")
        return Found(set(log.numbers("told")), set(log.numbers("asked")), set(), unusable=True)
    whole = [row for row in rows if row["y"] is not None]
    held = Counter(int(row["y"]) for row in whole)
    attempted = set(log.numbers("tell"))
    torn = {int(row["y"]) for row in whole if row["w"] != -row["y"]}
    torn |= {-row["measurement"] for row in rows if row["y"] is None}
    spoilt = {value for value, times in held.items() if times > 1} | (set(held) - attempted) | torn
    lost = set(log.numbers("told")) - set(held)
    return Found(lost, set(log.numbers("asked")) - proposals, spoilt, unusable=False)


def run(folder: Path, kills: dict[str, int]) -> dict[str, int]:
    """Kill until each call was interrupted often enough; counts by slash-separated names."""
    place, log = folder / "campaign.db", Log(folder / "log")
    campaign = Campaign.create(place, INPUTS, OUTPUTS, settings=SETTINGS)
    for proposal in campaign.ask(12):
        tell(campaign, log, proposal=proposal.number)
    rng = np.random.default_rng(SEED)
    counts: Counter[str] = Counter()
    lost: set[int] = set()
    for call in CALLS:
        while counts[f"{call}/kills"] < kills[call]:
            interrupted = kill_once(place, log, call, rng)
            found = examine(place, log, ask=call == "ask")
            counts[f"{interrupted}/kills"] += 1
            counts[f"{interrupted}/results_lost"] += len(found.lost - lost)
            counts["unusable"] += found.unusable
            lost |= found.lost
            print(f"{dict(counts)}", flush=True)
    counts["kills"] = sum(counts[f"{call}/kills"] for call in (*CALLS, "between"))
    counts["results_lost"] = len(lost)
    counts["results_spoilt"] = len(found.spoilt)
    counts["results_acknowledged"] = len(log.numbers("told"))
    counts["proposals_acknowledged"] = len(log.numbers("asked"))
    counts["proposals_lost"] = len(found.proposals_lost)
    return dict(counts)


def main() -> None:
    """Run and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tell", type=int, default=100, help="kills while telling")
    parser.add_argument("--ask", type=int, default=60, help="kills while asking")
    parser.add_argument("--output", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    enable_compile_cache()
    kills = {"tell": arguments.tell, "ask": arguments.ask}
    if min(kills.values()) < 1:
        parser.error("there must be at least one kill of each kind")
    record = Record("campaign_faults", {"kills": kills, "model": SETTINGS}, seeds=[SEED])
    with tempfile.TemporaryDirectory() as folder:
        for name, value in sorted(run(Path(folder), kills).items()):
            record.add(name, value)
    print(f"wrote {record.write(arguments.output)}")
    print(record.metrics)


if __name__ == "__main__":
    main()
