"""Take the pictures of report pages for the docs, in a real browser.

python scripts/page_pictures.py    # some minutes: it fits a model and runs two examples first
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
CODE = "from twofold.cli.app import main; main()"
DESK = {"width": 1100, "height": 1250}


def twofold(*words: str | Path) -> None:
    """Run the command line."""
    subprocess.run([sys.executable, "-c", CODE, *map(str, words)], cwd=ROOT, check=True)


def model_page(folder: Path) -> Path:
    """The report on a model of the example ``oven``."""
    model = folder / "oven.twofold"
    twofold("example", "oven", "--out", folder)
    twofold("fit", folder / "oven.csv", "--target", "yield_percent", "--out", model)
    twofold("report", model)
    return folder / "oven.twofold.html"


def example(name: str, folder: Path) -> None:
    """Run an example at full size."""
    words = [sys.executable, f"examples/{name}.py", "--output", str(folder)]
    subprocess.run(words, cwd=ROOT, check=True)


def campaign_page(folder: Path) -> Path:
    """The report on the campaign of the simulated reactor."""
    example("campaign", folder)
    twofold("report", folder / "reactor.db")
    return folder / "reactor.db.html"


def policy_page(folder: Path) -> Path:
    """The report on policies of the simulated tank."""
    example("policy", folder)
    return folder / "tank_policies" / "report.html"


@contextmanager
def served(database: Path) -> Iterator[str]:
    """The address of a campaign's live page."""
    words = [sys.executable, "-c", CODE, "campaign", "serve", str(database), "--port", "0"]
    server = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    yield server.stdout.readline().split(" is at ")[1].split()[0]
    server.terminate()
    server.communicate()


def take(browser: Browser, address: str, name: str) -> None:
    """Take one picture."""
    shown = browser.new_page(viewport=DESK)
    shown.goto(address)
    shown.locator("svg.plot:visible").first.wait_for()
    shown.screenshot(path=IMAGES / f"{name}.png")
    shown.close()


def main() -> None:
    """Make the pages and take the pictures."""
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folder = Path(place)
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for make in (model_page, campaign_page, policy_page):
            take(browser, make(folder).as_uri(), make.__name__)
        with served(folder / "reactor.db") as address:
            take(browser, address, "live_page")
        browser.close()


if __name__ == "__main__":
    main()
