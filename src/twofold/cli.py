"""``twofold``: the command line."""

import sys
import warnings
from typing import Any

import typer

from twofold.campaign import CampaignError
from twofold.commands import campaign, env, policy
from twofold.commands.policy_input import PolicyError
from twofold.logs import LogError

BAD_INPUT = 2

app = typer.Typer(help="Predict, split the uncertainty in two, and decide with each part.")
app.add_typer(campaign.app, name="campaign")
app.add_typer(env.app, name="env")
app.add_typer(policy.app, name="policy")


@app.callback()
def about() -> None:
    """Predict, split the uncertainty in two, and decide with each part."""


def note(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as a sentence instead of a line of code."""
    print(f"twofold: note: {message}", file=sys.stderr)


def main() -> None:
    """Run; a mistake of the user is one sentence on stderr and exit code 2."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = note
            app()
    except (CampaignError, LogError, PolicyError, env.EnvError) as error:
        print(f"twofold: {error}", file=sys.stderr)
        raise SystemExit(BAD_INPUT) from error
