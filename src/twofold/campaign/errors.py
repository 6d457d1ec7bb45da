"""What a campaign says when something is wrong with what it was given."""


class CampaignError(ValueError):
    """A wrong name, value, point or file; the campaign is as it was before."""
