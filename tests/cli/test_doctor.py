"""``twofold doctor``; help, completion and speed of the command line."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from rich.console import Console

from twofold.cli import app as cli
from twofold.cli import doctor
from twofold.cli.terminal import MISTAKE, UNSOUND, to_table


def every_command(app=None, path=()):
    """The words of each command, and what Typer knows of it."""
    app = app or cli.typer.main.get_command(cli.app)
    for name, one in app.commands.items():
        if hasattr(one, "commands"):
            yield from every_command(one, (*path, name))
        else:
            yield (*path, name), one


COMMANDS = dict(every_command())


def test_the_doctor_finds_this_installation_sound(command):
    code, shown, _ = command("doctor", "--json")
    found = json.loads(shown)
    assert code == 0 and set(found["checks"].values()) == {None}
    assert len(found["checks"]) == len(doctor.CHECKS)
    assert {"python", "jax", "devices", "memory", "precision", "compile cache"} <= set(
        found["installation"]
    )


def test_the_doctor_lists_every_extra_with_its_versions_or_what_installs_it(monkeypatch):
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    found = doctor.describe_extras()
    assert {name.removeprefix("extra ") for name in found} == {*project["optional-dependencies"]}
    needs = ["numpy>=2", "ray[default]>=2.40; extra == 'ray'", 'a>1; extra == "two"']
    needs += ["b-c[d]; python_version > '3' and extra == 'two'"]
    monkeypatch.setattr(doctor.importlib.metadata, "requires", lambda _: needs)
    versions = {"ray": "2.60", "a": "1.2"}
    monkeypatch.setattr(doctor, "version_of", versions.get)
    assert doctor.describe_extras() == {
        "extra ray": "ray 2.60",
        "extra two": "b-c not installed: pip install 'twofold[two]'",
    }


def test_brackets_in_a_table_are_shown(capsys):
    table = to_table(["mass [kg]", ""], [["pip install 'a[b]'", "[red]"]], "of [x]")
    Console(width=80).print(table)
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("mass [kg]", "'a[b]'", "[red]", "of [x]"))


def test_the_doctor_says_what_is_wrong(command, monkeypatch):
    def broken():
        """numbers are numbers"""
        raise AssertionError("2 is 3")

    def sound():
        """text is text"""

    monkeypatch.setattr(doctor, "CHECKS", (broken, sound))
    code, shown, _ = command("doctor")
    assert code == UNSOUND and "AssertionError: 2 is 3" in shown and "passed" in shown


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example_of_itself(words):
    text = " ".join((COMMANDS[words].callback.__doc__ or "").split())
    assert f"Example: twofold {' '.join(words)}" in text
    options = {
        option
        for param in COMMANDS[words].params
        for option in (*param.opts, *param.secondary_opts)
        if option.startswith("-")
    }
    example = text.partition("Example:")[2]
    assert set(re.findall(r" (--?[a-z][\w-]*)", example)) <= options


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_speaks_json_and_reads_its_options_from_a_file(words):
    assert {"as_json", "config"} <= {param.name for param in COMMANDS[words].params}


def test_an_unknown_option_or_command_is_a_mistake(command):
    assert command("fit", "--tagret", "y")[0] == MISTAKE
    code, shown, said = command("fti")
    assert code == MISTAKE and "fit" in said and shown == ""
    code, shown, _ = command("--version")
    assert code == 0 and shown.startswith("twofold ")


def test_the_shell_completes_commands_and_names():
    twofold = Path(sys.executable).with_name("twofold")
    if not twofold.exists():
        pytest.skip("twofold is not installed as a command here")
    ask = {"_TWOFOLD_COMPLETE": "complete_bash"}
    cases = {"twofold po": "policy"}
    for words, expected in cases.items():
        count = str(len(words.split()) - 1)
        environment = os.environ | ask | {"COMP_WORDS": words, "COMP_CWORD": count}
        done = subprocess.run([twofold], env=environment, capture_output=True, text=True)
        assert expected in done.stdout.split(), done.stderr


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path):
    code = "from twofold.cli.app import main; main()"
    words = [sys.executable, "-c", code, "env", "list", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        said = process.stderr.read()
    assert b"Traceback" not in said and b"Broken" not in said
