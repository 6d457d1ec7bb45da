"""The slow work of ``twofold campaign serve``, one task at a time, in a background thread. All
state is in the database and the model file, so that a restarted server resumes the work."""

import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from twofold.campaign import Campaign, CampaignError
from twofold.campaign.campaign import Revision
from twofold.cli.terminal import print_message
from twofold.report.live_page import Figures, draw_figures


class Background:
    """Proposes points, fits models and draws figures for one campaign, and exposes the current
    activity and the last error. Models are fitted on request, and automatically once every proposal
    has a result, so that the next request for points is answered at once."""

    def __init__(self, place: str, campaign: Campaign):
        self._place, self._campaign = place, campaign
        self._asked: deque[int] = deque()
        self._wake, self._refit = threading.Event(), False
        self._fitted = ""
        self._drawn: Revision | None = None
        self._begun = 0.0
        self.activity, self.error = "", ""
        self.figures: Figures | None = None

    @property
    def seconds(self) -> int:
        """Seconds since the current activity began."""
        return int(time.monotonic() - self._begun) if self.activity else 0

    def ask(self, num: int) -> None:
        """Propose points as soon as possible."""
        self._asked.append(num)
        self.wake()

    def refit(self) -> None:
        """Fit the model as soon as possible, even if proposals are open."""
        self._refit = True
        self.wake()

    def wake(self) -> None:
        self._wake.set()

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def step(self) -> bool:
        """Do the most urgent task; False if there was none."""
        try:
            revision = self._campaign.revision()
        except CampaignError:
            return False  # The page shows the error.
        if self._drawn and self._asked:
            self.error = ""
            self._ask(self._asked.popleft())
        elif self._drawn and self._fit_is_due(revision):
            # Set before the work: a failed fit is repeated only after new measurements.
            self._refit, self._fitted, self.error = False, revision.measurements, ""
            with self._doing("Fitting the model"):
                Campaign.open(self._place).refit()
        elif revision != self._drawn:
            self._drawn = revision
            with self._doing("Drawing the figures"):
                self.figures = draw_figures(self._campaign)
        else:
            return False
        return True

    def _ask(self, num: int) -> None:
        fits = not self._campaign.status().missing
        points = "a point" if num == 1 else f"{num} points"
        with self._doing(f"Fitting the model and choosing {points}" if fits else "Choosing points"):
            # Reopened, because the settings may have changed.
            Campaign.open(self._place).ask(num)

    def _fit_is_due(self, revision: Revision) -> bool:
        if revision.measurements == self._fitted and not self._refit:
            return False
        status = self._campaign.status()
        return not status.missing and (self._refit or not status.pending)

    @contextmanager
    def _doing(self, what: str) -> Iterator[None]:
        """Set the activity; an error is reported and ends this task only."""
        self._begun, self.activity = time.monotonic(), what
        try:
            yield
        except Exception as error:
            self.error = f"{what} failed: {error}"
            if not isinstance(error, CampaignError):
                print_message(self.error)
                traceback.print_exc()
        finally:
            self.activity = ""

    def _run(self) -> None:
        while True:
            while self.step():
                pass
            self._wake.wait()
            self._wake.clear()
