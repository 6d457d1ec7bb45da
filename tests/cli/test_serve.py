"""The server of a campaign: every action, what it refuses, and who may talk to it."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from urllib.request import urlopen

import pytest

from twofold.campaign import Campaign, Categorical, Continuous
from twofold.cli import serve as serving
from twofold.cli.guard import Guard

testclient = pytest.importorskip("starlette.testclient", reason="needs the extra serve, and httpx")
live = pytest.importorskip("twofold.cli.live")
background = pytest.importorskip("twofold.cli.background")

SMALL = {
    "inference": {"method": "ensemble", "updates": 20, "members": 4},
    "hidden_layer_sizes": [5], "verbose": False,
}  # fmt: skip
HOST = "127.0.0.1:8765"
NASTY = "<img src=x onerror=alert(1)>"
FEWEST = 6
OWN = Guard("127.0.0.1", 8765)
pytestmark = pytest.mark.filterwarnings("ignore:the energy still fell")


class Site:
    """A server without a socket and without a thread, and browsers that talk to it."""

    def __init__(self, place, guard=OWN):
        self.campaign, self.guard = Campaign.open(place), guard
        self.work = background.Background(str(place), self.campaign)
        self.app = live.make_app(self.campaign, "oven.db", guard, self.work)

    def browser(self, host=HOST):
        found = testclient.TestClient(self.app, base_url=f"http://{host}")
        found.headers["origin"] = f"http://{host}"
        return found

    def send(self, name, *, by=None, repeat=False, **fields):
        """What a form is answered: status and sentence."""
        body = {"fields": {one: str(value) for one, value in fields.items()}, "repeat": repeat}
        answer = (by or self.browser()).post(f"/act/{name}", json=body)
        return answer.status_code, answer.text

    def text(self):
        return self.browser().get("/").text

    def state(self):
        return self.browser().get("/state").json()


@pytest.fixture
def place(tmp_path):
    place = tmp_path / "oven.db"
    Campaign.create(place, [Continuous("heat", 20.0, 80.0)], ["yield"], settings=SMALL)
    return place


@pytest.fixture
def site(place):
    return Site(place)


def record(site, num):
    for heat in range(num):
        assert site.send("tell", heat=20 + 7 * heat, **{"yield": heat / 10})[0] == 200


def test_an_empty_campaign_says_how_to_begin(site):
    while site.work.step():
        pass
    text = site.text()
    assert "Getting started" in text and "the first model needs 6 complete" in text
    assert "Go on or stop?" not in text and "No proposal is open" not in text


def test_points_are_proposed_and_their_results_recorded(site):
    before = site.state()["shown"]
    assert site.send("ask", num=2) == (200, "requested 2 points")
    while site.work.step():
        pass
    assert site.state()["shown"] != before
    assert "Proposal 2" in site.text() and "Evenly spread" in site.text()
    told = {"proposal": 1, "yield": " 0.71 ", "note": "new batch"}
    assert site.send("tell", **told) == (200, "recorded measurement 1")
    (row,) = site.campaign.export()
    assert (row["proposal"], row["yield"], row["note"]) == (1, 0.71, "new batch")
    assert site.send("cancel", proposal=2, **{"yield": "?"}) == (200, "cancelled proposal 2")
    assert site.campaign.pending() == []


def test_a_free_point_may_be_repeated(site):
    point = {"heat": 55, "yield": 0.6}
    assert site.send("tell", **point) == (200, "recorded measurement 1")
    status, sentence = site.send("tell", **point)
    assert status == 400 and "the same result is measurement 1 already" in sentence
    assert "A repeated measurement" in sentence and "--repeat" not in sentence
    assert site.send("tell", repeat=True, **point) == (200, "recorded measurement 2")


def test_measurements_are_corrected_and_removed(site):
    record(site, 2)
    changed = site.send("correct", measurement=1, **{"yield": 0.5, "note": "misread"})
    assert changed == (200, "corrected measurement 1")
    assert site.send("remove", measurement=2) == (200, "removed measurement 2")
    (row,) = site.campaign.export()
    assert (row["yield"], row["note"]) == (0.5, "misread") and len(site.campaign.history()) == 2


def test_an_output_that_was_missing_is_added(tmp_path):
    place = tmp_path / "two.db"
    Campaign.create(place, [Continuous("heat", 0.0, 1.0)], ["a", "b"])
    site = Site(place)
    site.send("tell", heat=0.5, a=1)
    assert site.send("correct", measurement=1, b=2)[0] == 200
    assert site.campaign.status().complete == 1 and site.campaign.history() == []


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("tell", {"heat": 30}, "give at least one of the outputs"),
        ("tell", {"yield": 1}, "give the proposal or the point"),
        ("tell", {"heat": 300, "yield": 1}, "must lie between 20.0 and 80.0, got 300"),
        ("tell", {"heat": 30, "yield": "high"}, "yield must be a number, got 'high'"),
        ("tell", {"heat": 30, "yield": "nan"}, "yield must be a"),
        ("tell", {"heat": 30, "yeild": 1}, "there is no column 'yeild'"),
        ("tell", {"proposal": 7, "yield": 1}, "there is no proposal 7"),
        ("ask", {"num": 0}, "at least 1 point"),
        ("ask", {"num": 10**9}, "at most 10000 points"),
        ("ask", {"num": "many"}, "num must be a whole number, got 'many'"),
        ("ask", {"num": "1e300"}, "num must be a whole number, got '1e300'"),
        ("refit", {}, "6 more complete measurements are needed"),
        ("cancel", {}, "proposal must be a whole number, got ''"),
        ("remove", {"measurement": 3}, "there is no measurement 3"),
        ("correct", {"measurement": 3, "yield": 1}, "there is no measurement 3"),
        ("correct", {"measurement": 3, "heat": 30}, "inputs cannot be corrected"),
    ],
)
def test_bad_input_is_refused_in_words(site, name, fields, words):
    status, sentence = site.send(name, **fields)
    assert status == 400 and words in sentence
    assert site.campaign.export() == [] and not site.work._asked


BAD = [
    b"", b"?", b"[]", b"7", b'{"fields": []}', b'{"fields": {"num": 3}}', b"[" * 60_000, b"\xff",
    rb'{"fields": {"heat": "30", "yield": "1", "note": "\ud800"}}',
]  # fmt: skip


@pytest.mark.parametrize("body", BAD)
def test_what_is_no_form_is_refused(site, body):
    answer = site.browser().post("/act/tell", content=body)
    assert answer.status_code == 400 and answer.text.startswith("expected a form")


def test_large_bodies_and_other_addresses_are_refused(site):
    assert site.browser().post("/act/tell", content=b" " * 70_000).status_code == 413
    assert site.browser().post("/act/__class__", json={"fields": {}}).status_code == 404
    assert site.browser().get("/act/ask").status_code == 405
    assert site.browser().get("/etc/passwd").status_code == 404


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9", None])
def test_requests_of_other_sites_are_refused(site, origin):
    client = site.browser()
    del client.headers["origin"]
    headers = {} if origin is None else {"origin": origin}
    answer = client.post(
        "/act/tell", json={"fields": {"heat": "30", "yield": "1"}}, headers=headers
    )
    assert answer.status_code == 403 and site.campaign.export() == []
    assert client.get("/", headers=headers).status_code == (200 if origin is None else 403)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example"])
def test_names_that_lead_to_this_machine_are_refused(site, host):
    for path in ("/", "/state"):
        answer = site.browser(host).get(path)
        assert answer.status_code == 403 and "oven.db" not in answer.text
    assert site.send("tell", by=site.browser(host), heat=30, **{"yield": 1})[0] == 403
    assert site.browser("localhost:9000").get("/").status_code == 200, "a forwarded port"


def test_other_hosts_need_the_token(place):
    site = Site(place, Guard("0.0.0.0", 8765, "sesame"))
    client = site.browser("10.0.0.7:8765")
    for path in ("/", "/state", "/?token=", "/?token=Sesame", "/?token=s%C3%A9same"):
        assert client.get(path).status_code == 403
    assert site.send("ask", by=client, num=1)[0] == 403
    assert site.browser("evil.example").get("/?token=sesame").status_code == 403
    welcome = client.get("/?token=sesame")
    cookie = welcome.headers["set-cookie"]
    assert "HttpOnly" in cookie and "samesite=strict" in cookie.lower()
    assert "oven.db" not in welcome.text and "Getting started" in client.get("/").text
    assert site.send("ask", by=client, num=1)[0] == 200
    assert site.browser("10.0.0.7:8765").get("/").status_code == 403, "another browser"


def test_the_address_has_the_token_and_tokens_differ():
    one, other = (Guard("10.0.0.7", 1, serving._make_token("10.0.0.7")) for _ in range(2))
    assert one.url.startswith("http://10.0.0.7:1/?token=") and one.token != other.token
    assert Guard("::1", 8765, serving._make_token("::1")).url == "http://[::1]:8765/"


def test_what_people_type_is_never_html(tmp_path):
    place = tmp_path / "nasty.db"
    inputs = [Continuous(f"{NASTY}\"'", 0.0, 1.0), Categorical("acid", (NASTY, "lactic"))]
    campaign = Campaign.create(place, inputs, [f"{NASTY} out"])
    campaign.ask(2)
    point = {f"{NASTY}\"'": 0.5, "acid": NASTY}
    campaign.tell({f"{NASTY} out": 1.0}, point=point, note=f"</script>{NASTY}")
    site = Site(place)
    while site.work.step():
        pass
    text = site.text()
    assert "<img" not in text and "</script>&lt;" not in text and "&lt;img" in text
    status, sentence = site.send("tell", **{NASTY: 1})
    assert status == 400 and NASTY in sentence
    answer = site.browser().post("/act/tell", json={"fields": {NASTY: "1"}})
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_only_scripts_of_the_page_may_run(site):
    answers = [site.browser().get("/") for _ in range(2)]
    policies = {answer.headers["content-security-policy"] for answer in answers}
    assert len(policies) == 2 and all("'unsafe-inline'; script-src 'nonce-" in p for p in policies)
    for answer in answers:
        nonce = answer.text.split('nonce="')[1].split('"')[0]
        assert f"'nonce-{nonce}'" in answer.headers["content-security-policy"]
        assert answer.text.count("<script") == answer.text.count(f'<script nonce="{nonce}"') == 2


def test_two_browsers_and_the_command_line_see_each_other(site, place):
    one, other = site.browser(), site.browser()
    before = other.get("/state").json()["shown"]
    site.send("tell", by=one, heat=30, **{"yield": 0.25})
    assert other.get("/state").json()["shown"] != before and "0.25" in other.get("/").text
    Campaign.open(place).tell({"yield": 0.125}, point={"heat": 40.0})
    assert "0.125" in one.get("/").text
    both = [
        threading.Thread(target=site.send, args=("tell",), kwargs={"heat": heat, "yield": 1})
        for heat in range(50, 70)
    ]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert site.campaign.status().measurements == 22


def test_a_round_that_is_complete_is_fitted_and_drawn(site, monkeypatch):
    record(site, FEWEST)
    assert site.work.step() and site.work.figures is not None, "figures come first"
    seen = []
    original = Campaign.refit
    monkeypatch.setattr(
        Campaign, "refit", lambda self: (seen.append(site.state()["activity"]), original(self))
    )
    while site.work.step():
        pass
    assert seen == ["Fitting the model"] and site.state()["activity"] == ""
    (row,) = site.campaign.status().curve
    assert row["measurements"] == FEWEST
    text = site.text()
    assert text.count("<figure") == 3 and "of the variance" in text, "one model is no curve yet"
    site.send("ask", num=2)
    while site.work.step():
        pass
    assert len(site.campaign.pending()) == 2 and "Expected information gain" in site.text()
    site.send("tell", heat=79, **{"yield": 0.3})
    while site.work.step():
        pass
    assert seen == ["Fitting the model"], "a proposal still waits"
    site.send("refit")
    while site.work.step():
        pass
    assert len(site.campaign.status().curve) == 2 and "Learning curve" in site.text()


def test_a_server_that_was_killed_finds_what_is_to_be_done(site, place):
    record(site, FEWEST)
    again = Site(place)
    while again.work.step():
        pass
    assert len(again.campaign.status().curve) == 1


def test_work_that_fails_is_said_and_tried_again_with_new_results(site, monkeypatch):
    record(site, FEWEST)
    calls = []

    def fail(self):
        calls.append(self)
        raise ZeroDivisionError("no")

    monkeypatch.setattr(Campaign, "refit", fail)
    while site.work.step():
        pass
    assert site.state()["error"] == "Fitting the model failed: no"
    assert site.send("tell", heat=79, **{"yield": 0.3})[0] == 200
    while site.work.step():
        pass
    assert len(calls) == 2 and site.state()["error"], "figures that are drawn do not hide it"


def test_an_ask_that_fails_is_said(site, monkeypatch):
    site.work.step()
    monkeypatch.setattr(Campaign, "ask", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    site.send("ask", num=1)
    site.work.step()
    assert site.state()["error"] == "Choosing points failed: disk full"


def test_a_database_that_is_gone_is_said(site, place):
    site.campaign._storage._engine.dispose()
    place.unlink()
    answer = site.browser().get("/state")
    assert answer.status_code == 400 and "cannot be used as a campaign" in answer.text
    assert not site.work.step()


def test_a_busy_port_is_said(command, place):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        code, _, said = command("campaign", "serve", place, "--port", port)
    assert code == 2 and f"port {port} of 127.0.0.1 cannot be used" in said and "--port" in said


def test_a_missing_library_is_named_with_its_extra(command, place, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, _, said = command("campaign", "serve", place)
    assert code == 2 and "uvicorn" in said and 'pip install "twofold[serve]"' in said


def test_a_password_is_not_shown():
    assert serving.name_campaign("postgresql://me:secret@host/oven") == "oven"
    assert serving.name_campaign("data/oven.db") == "oven.db"


@pytest.mark.slow
def test_ctrl_c_stops_the_server_in_the_middle_of_a_fit(site, place):
    record(site, FEWEST)
    # As in a terminal's foreground, however these tests were started.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    words = ["-c", f"{heed}; from twofold.cli.app import main; main()"]
    words += ["campaign", "serve", place, "--port", "0", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, *words], **pipes)
    url = json.loads("".join(process.stdout.readline() for _ in range(3)))["url"]
    begun = time.monotonic()
    while "Fitting" not in urlopen(f"{url}state").read().decode():
        assert time.monotonic() < begun + 60
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.strip() == "twofold: stopped; all recorded results are stored in oven.db"
