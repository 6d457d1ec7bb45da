"""The command line ``twofold``: a file for each verb or group."""

__all__ = ["main"]


def main() -> None:
    """Run the command line; an error is one sentence on stderr and an exit code."""
    from twofold.cli.app import main

    main()
