"""A campaign's database with changed bytes: refused, or usable, and never a crash or a hang.

What a byte of a number or a word says cannot be checked; what is counted as lost is a measurement
that was there and is gone without a word.
"""

import pytest
from hypothesis import strategies as st

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


@st.composite
def damages(draw):
    """Some bytes of a file changed, a stretch of it zeroed or swapped, or its end cut off."""
    how = draw(st.sampled_from("flip flip flip flip zero cut extend swap".split()))
    places = draw(st.lists(st.floats(0, 1, exclude_max=True), min_size=2, max_size=6))
    values = draw(st.binary(min_size=6, max_size=6))

    def damage(content: bytes) -> bytes:
        at = sorted(int(place * len(content)) for place in places)
        first, last, bytes_ = at[0], at[-1], bytearray(content)
        if how == "flip":
            for place, value in zip(at, values, strict=False):
                bytes_[place] ^= value or 1
        elif how == "zero":
            bytes_[first : first + 64] = bytes(64)
        elif how == "swap":
            bytes_[first : first + 32], bytes_[last : last + 32] = (
                bytes_[last : last + 32],
                bytes_[first : first + 32],
            )
        return bytes(bytes_[:first]) if how == "cut" else bytes(bytes_) + values * (how == "extend")

    return damage


@pytest.mark.examples(60, 1200)
def test_damaged_campaigns(fuzz, campaign_file, tmp_path):
    whole, path = campaign_file.read_bytes(), tmp_path / "c.db"

    @fuzz.given(damages())
    def check(damage):
        path.write_bytes(damage(whole))
        with fuzz.case(CampaignError, names=f"{path} damaged"):
            with fuzz.unchanged(path):
                campaign = Campaign.open(path)
                found = campaign.export()
                campaign.status()
            if len(found) != ROWS:
                fuzz.lost(f"{ROWS - len(found)} measurements are gone, and nobody noticed")
            campaign.tell({"y": 0.5}, point={"x": 0.987, "side": "right"})
            assert len(campaign.export()) == ROWS + 1
