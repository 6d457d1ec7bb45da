"""The command line ``twofold``: one file per command or group."""

from twofold.cli.app import main

__all__ = ["main"]
