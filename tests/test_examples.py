"""Examples run."""

import subprocess
import sys
from pathlib import Path

from twofold.campaign import Campaign
from twofold.policies import open_project

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_campaign_runs_goes_on_and_draws(tmp_path):
    for line in ("24 measurements", "going on with"):
        words = [EXAMPLES / "campaign.py", "--smoke", "--output", tmp_path]
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert line in done.stdout
    assert Campaign.open(tmp_path / "smoke.db").status().measurements == 24
    assert (tmp_path / "smoke.png").stat().st_size > 20_000


def test_policies_are_found_and_tried(tmp_path):
    words = [EXAMPLES / "policy.py", "--smoke", "--output", tmp_path]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Recommended is the policy" in done.stdout and "the operators" in done.stdout
    assert open_project(tmp_path / "tank_smoke_policies").trials[-1].weights == (10.0, 0.0)
    assert (tmp_path / "tank_smoke_policies.png").stat().st_size > 20_000
