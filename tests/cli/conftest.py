"""The command line as a user types it, in this process."""

import pytest

from twofold.cli import app as cli


@pytest.fixture
def command(monkeypatch, capsys):
    """Run ``twofold`` with some words; returns exit code, stdout and stderr."""

    def run(*words):
        monkeypatch.setattr("sys.argv", ["twofold", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        shown = capsys.readouterr()
        return stopped.value.code or 0, shown.out, shown.err

    return run
