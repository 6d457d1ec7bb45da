"""The command line ``twofold``: a file for each verb or group."""

from twofold.cli.app import main

__all__ = ["main"]
