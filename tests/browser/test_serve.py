"""A campaign lived through in a real browser, with a server that is killed on the way."""

import re
import socket
import subprocess
import sys
from contextlib import closing
from itertools import product

import pytest

from tests.browser.test_pages import (
    EMPTY_PLOTS,
    FAINT_TEXT,
    FOCUSABLE,
    LOST_WORDS,
    MOST_BYTES,
    OPEN_ALL,
    OVERLAPS,
    SMALL_WORDS,
)
from twofold.campaign import Campaign, Continuous

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")
SMALL = {
    "inference": {"method": "ensemble", "updates": 20, "members": 4},
    "hidden_layer_sizes": [5], "verbose": False,
}  # fmt: skip
MAIN = "from twofold.cli.app import main; main()"
UNLABELLED = """() => [...document.querySelectorAll("main :is(input, select)")].filter(
  (one) => one.type !== "hidden" && one.checkVisibility() && !one.labels.length
).map((one) => one.outerHTML)"""
CUT_ROWS = """[...document.querySelectorAll(".rows, .note div")].filter(
  (one) => one.scrollHeight > one.clientHeight + 1).length"""
PATIENCE = 120_000  # milliseconds for a fit on a slow machine


@pytest.fixture
def place(tmp_path):
    place = tmp_path / "oven.db"
    Campaign.create(place, [Continuous("heat", 20.0, 80.0)], ["yield"], settings=SMALL)
    return place


@pytest.fixture
def start(place):
    """``start()``: a server of the campaign, always at the same address."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    started = []

    def start_one():
        words = ["campaign", "serve", place, "--port", str(port)]
        process = subprocess.Popen([sys.executable, "-c", MAIN, *words], stdout=subprocess.PIPE)
        started.append(process)
        assert b"127.0.0.1" in process.stdout.readline()
        return process, f"http://127.0.0.1:{port}/"

    yield start_one
    for process in started:
        process.kill()
        process.communicate()


def record(page, number, value, key=False):
    """Type in the result of a proposal, and wait until the page says that it is recorded."""
    form = page.get_by_role("form", name=f"Result of proposal {number}", exact=True)
    form.get_by_label("yield").fill(str(value))
    if key:
        page.keyboard.press("Enter")
    else:
        form.get_by_role("button", name="Record").click()
    form.wait_for(state="detached")


def propose(page, num):
    page.get_by_label("Number of points").fill(str(num))
    page.get_by_role("button", name="Propose points").click()


def check_looks(page):
    page.evaluate(OPEN_ALL)
    for width, scheme in product((390, 1000, 1600), ("light", "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(FAINT_TEXT) == [] and page.evaluate(EMPTY_PLOTS) == []
        assert page.evaluate(OVERLAPS) == [] and page.evaluate(LOST_WORDS) == []
        assert page.evaluate(SMALL_WORDS) == []
    assert page.evaluate(UNLABELLED) == [] and len(page.content().encode()) < MOST_BYTES
    page.emulate_media(media="print")
    assert page.evaluate(CUT_ROWS) == 0 and not page.locator("main form:visible").count()
    page.emulate_media(media="screen")


def check_keys(page):
    """Every control can be reached with the Tab key."""
    controls = page.locator(f"main :is({FOCUSABLE}, input:not([type=hidden]))")
    wanted = sum(one.is_visible() for one in controls.all())
    page.evaluate("window.seen = new Set()")
    page.locator("#theme").focus()
    for _ in range(wanted):
        page.keyboard.press("Tab")
        page.evaluate("seen.add(document.activeElement)")
    assert page.evaluate("seen.size") == wanted
    assert page.evaluate("[...seen].every((one) => one.closest('main'))")


@pytest.mark.slow
def test_three_rounds_with_a_server_that_is_killed(browser, start, place):
    server, url = start()
    page = browser.new_context().new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    check_looks(page)
    assert page.get_by_role("heading", name="Getting started").is_visible()
    propose(page, 6)
    for number in range(1, 4):
        record(page, number, number / 10)
    page.get_by_label("yield").nth(2).fill("not sent")
    server.kill()
    page.get_by_text("retrying").wait_for()
    assert [row["yield"] for row in Campaign.open(place).export()] == [0.1, 0.2, 0.3]
    server, _ = start()
    page.get_by_text("Ready", exact=True).wait_for()
    assert page.get_by_label("yield").nth(2).input_value() == "not sent"
    for number in range(4, 7):
        record(page, number, number / 10, key=True)
        focused = page.evaluate("document.activeElement.id")
        assert focused == (f"proposal-{number + 1}-output-1" if number < 6 else "content")
    page.get_by_text("Fitting the model").wait_for()
    server.kill()
    server, _ = start()
    page.get_by_text("More measurements are worthwhile").or_(
        page.get_by_text("onsider stopping")
    ).first.wait_for()
    propose(page, 2)
    page.get_by_text("Expected information gain").first.wait_for()
    widths = page.get_by_role("listitem").first.locator("dl.widths")
    assert re.fullmatch(r"yield, ± sd\n[\d.]+ epistemic, [\d.]+ aleatoric", widths.inner_text())
    Campaign.open(place).tell({"yield": 0.5}, proposal=7, note="a long story " * 150)
    page.get_by_role("heading", name="Proposal 7").wait_for(state="detached")
    record(page, 8, 0.7)
    propose(page, 1)
    page.get_by_role("heading", name="Proposal 9").wait_for()
    page.get_by_text("Ready", exact=True).wait_for()
    check_looks(page)
    rows = page.locator(".rows tbody tr").all()
    assert max(row.bounding_box()["height"] for row in rows) < 150
    check_keys(page)
    page.get_by_label("Show rows with").fill("0.7")
    assert page.locator(".rows tbody tr:visible").count() == 1
    assert Campaign.open(place).status().complete == 8 and errors == []


@pytest.mark.slow
def test_mistakes_are_said_beside_the_form_and_mended(browser, start, place):
    Campaign.open(place).tell({"yield": 0.25}, point={"heat": 30.0}, note="<b>bold</b>")
    _, url = start()
    page = browser.new_context().new_page()
    page.set_default_timeout(PATIENCE)
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto(url)
    form = page.locator("#point")
    form.get_by_label("heat").fill("300")
    form.get_by_label("yield").fill("1")
    form.get_by_role("button", name="Record").click()
    form.get_by_text("heat must lie between 20.0 and 80.0, got 300").wait_for()
    assert form.get_by_label("heat").input_value() == "300"
    assert page.locator("td.note").inner_text() == "<b>bold</b>"
    page.get_by_role("button", name="Change measurement 1").click()
    assert page.evaluate("document.activeElement.value") == "0.25"
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("0.5")
    page.keyboard.press("Enter")
    page.get_by_role("cell", name="0.5", exact=True).wait_for()
    page.get_by_role("button", name="Change measurement 1").click()
    page.get_by_role("button", name="Remove").click()
    page.get_by_role("heading", name="Getting started").wait_for()
    assert len(Campaign.open(place).history()) == 2
    propose(page, 2)
    card = page.get_by_role("listitem").filter(has_text="Proposal 2")
    card.get_by_role("button", name="Cancel").click()
    card.wait_for(state="detached")
    assert [one.number for one in Campaign.open(place).pending()] == [1]
