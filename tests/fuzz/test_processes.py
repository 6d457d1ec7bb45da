"""Several processes ask and tell one campaign at once: nothing is lost, no number is used twice."""

import multiprocessing
import traceback

import pytest

from twofold.campaign import Campaign, Continuous

WORKERS = 4


def work(place, worker, times, answers):
    """Ask and tell in turn; says which numbers came back, or what went wrong."""
    try:
        campaign = Campaign.open(place)
        for turn in range(times):
            (proposal,) = campaign.ask(1)
            value = float(1_000 * worker + turn)
            # A point of few digits could be some proposal's, rounded by a spreadsheet.
            elsewhere = {"x": (value + 1 / 3) / 1e4}
            where = {"proposal": proposal.number} if turn % 2 else {"point": elsewhere}
            number = campaign.tell({"y": value}, **where)
            answers.put((proposal.number, number, value))
        answers.put(None)
    except BaseException:
        answers.put(traceback.format_exc())


@pytest.mark.examples(5, 50)
def test_processes_that_ask_and_tell_at_once(fuzz, tmp_path, monkeypatch):
    """No model: its fit is no affair of the database, and ``ask`` has its own test of that."""
    place = tmp_path / "c.db"
    monkeypatch.setattr(Campaign, "_missing", lambda self, snapshot: 1)
    Campaign.create(place, [Continuous("x", 0.0, 1.0)], ["y"])
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    workers = [
        context.Process(target=work, args=(place, one, fuzz.examples, answers))
        for one in range(WORKERS)
    ]
    for worker in workers:
        worker.start()
    told, ended = [], 0
    while ended < WORKERS:
        with fuzz.case():
            answer = answers.get(timeout=110)
            if isinstance(answer, str):
                raise RuntimeError(answer)
        ended += answer is None
        told += [] if answer is None else [answer]
    for worker in workers:
        worker.join(timeout=60)
    proposals, measured, values = zip(*told, strict=True)
    total = WORKERS * fuzz.examples
    if not len(set(proposals)) == len(set(measured)) == len(set(values)) == total:
        fuzz.lost("a number was used twice")
    held = {row["measurement"]: row["y"] for row in Campaign.open(place).export()}
    if held != dict(zip(measured, values, strict=True)):
        fuzz.lost("what was told is not what is stored")
