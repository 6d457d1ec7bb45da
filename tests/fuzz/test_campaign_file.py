"""A campaign's database with changed bytes: refused, or usable, and never a crash or a hang.

What a byte of a number or a word says cannot be checked; what is counted as lost is a measurement
that was there and is gone without a word.
"""

import pytest

from twofold.campaign import Campaign, CampaignError, Categorical, Continuous

ROWS = 30


@pytest.fixture(scope="module")
def campaign_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("campaign") / "c.db"
    campaign = Campaign.create(
        path, [Continuous("x", 0.0, 1.0), Categorical("side", ("left", "right"))], ["y", "w"]
    )
    for proposal in campaign.ask(5):
        campaign.tell({"y": 1.0, "w": 2.0}, proposal=proposal.number)
    for number in range(ROWS - 5):
        campaign.tell({"y": float(number)}, point={"x": number / ROWS, "side": "left"})
    return path


@pytest.mark.examples(60, 1200)
def test_damaged_campaigns(fuzz, edits, campaign_file, tmp_path):
    whole, path = campaign_file.read_bytes(), tmp_path / "c.db"

    @fuzz.given(edits)
    def check(edit):
        path.write_bytes(edit(whole))
        with fuzz.case(CampaignError, names=f"{path} damaged"):
            with fuzz.unchanged(path):
                campaign = Campaign.open(path)
                found = campaign.export()
                campaign.status()
            if len(found) != ROWS:
                fuzz.lost(f"{ROWS - len(found)} measurements are gone, and nobody noticed")
            campaign.tell({"y": 0.5}, point={"x": 0.987, "side": "right"})
            assert len(campaign.export()) == ROWS + 1
