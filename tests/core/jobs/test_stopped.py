"""Ctrl-C between jobs or while workers are waited for: a sentence, and the exit code of shells."""

import pytest

from twofold.campaign import Campaign, Continuous, refit
from twofold.cli import app as cli
from twofold.core.jobs import EXECUTORS


@pytest.fixture
def stopped(monkeypatch):
    """Ctrl-C is pressed before the first job has finished."""

    def stop(*_):
        raise KeyboardInterrupt
        yield

    monkeypatch.setitem(EXECUTORS, "local", stop)


def ended(main, monkeypatch, capsys, *words):
    """Exit code and last line of a command."""
    monkeypatch.setattr("sys.argv", [*words])
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code, capsys.readouterr().err.splitlines()[-1]


def test_refits_say_what_is_kept(stopped, tmp_path, monkeypatch, capsys):
    place = tmp_path / "a.db"
    Campaign.create(place, [Continuous("x", 0, 1)], ["y"])
    with pytest.raises(KeyboardInterrupt, match="models that were fitted are kept"):
        refit([place])
    words = "campaign", "refit", str(place), "--executor", "local"
    code, told = ended(cli.main, monkeypatch, capsys, "twofold", *words)
    assert code == 130
    assert told.startswith("twofold: stopped by Ctrl-C; models that were fitted are kept")
