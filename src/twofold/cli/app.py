"""``twofold``: the command line."""

import errno
import gc
import os
import sys
import traceback
import warnings
from typing import Annotated, Any

import typer
import typer.core
from typer import Option

from twofold import __version__
from twofold.cli import campaign, env, policy
from twofold.cli.doctor import doctor
from twofold.cli.example import example
from twofold.cli.fit import fit
from twofold.cli.predict import decompose, suggest
from twofold.cli.report import report
from twofold.cli.run import verb
from twofold.cli.spelling import as_typed
from twofold.cli.terminal import FAULT, MISTAKE, STOPPED, print_message, print_note
from twofold.cli.update import update

DEBUG = "--debug"
EPILOG = (
    "Exit codes: 0 success, 1 a bug in twofold, 2 a mistake in the command or its input, "
    "3 the self-test of twofold doctor failed, 130 stopped by Ctrl-C."
)


# Base classes of the library's own errors, whose messages explain what was wrong with the input.
EXPECTED = ValueError, OSError, ImportError, ArithmeticError


class StoppedError(Exception):
    """Stopped by Ctrl-C; the message says what is kept."""


class Commands(typer.core.TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        """Keep the message of an interrupted command, which Typer would drop."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stopped:
            raise StoppedError(str(stopped) or "stopped") from stopped


app = typer.Typer(
    cls=Commands, epilog=EPILOG, no_args_is_help=True, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip
for command in (fit, update, decompose, suggest, report, example, doctor):
    verb(app)(command)
for group in (campaign, policy, env):
    app.add_typer(group.app, name=group.__name__.rpartition(".")[2])


@app.callback(invoke_without_command=True)
def about(
    version: Annotated[bool, Option("--version", help="Show the version and exit.")] = False,
    debug: Annotated[bool, Option(DEBUG, help="Show the traceback of an error.")] = False,
) -> None:
    """Predict, split the uncertainty in two, and decide with each part."""
    if version:
        print(f"twofold {__version__}")
        raise typer.Exit()


def main() -> None:
    """Run the command line; an error becomes one sentence on stderr and an exit code."""
    words = [word for word in sys.argv[1:] if word != DEBUG]
    group = words[0] if words else ""
    # Garbage collection at the default rate would take a tenth of the time of a short command.
    gc.set_threshold(20_000)
    # Hide compiler messages from users; errors are raised as exceptions.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        with warnings.catch_warnings():
            # Without the source line.
            warnings.showwarning = lambda one, *_, **__: print_note(as_typed(str(one), group))
            app(args=words, prog_name="twofold")
    except BrokenPipeError:
        # The reader closed the pipe: do not write the rest at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (Exception, KeyboardInterrupt) as error:
        if DEBUG in sys.argv:
            traceback.print_exception(error)
        code, text = explain(error)
        print_message(as_typed(text, group))
        raise SystemExit(code) from error


def explain(error: BaseException) -> tuple[int, str]:
    """The exit code and message of an error."""
    text = str(error) or "stopped"
    if isinstance(error, KeyboardInterrupt | StoppedError):
        return STOPPED, text
    if isinstance(error, OSError) and error.filename is not None:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "; free some space (df shows it), or write to another disk" if full else ""
        return MISTAKE, f"{error.filename}: {error.strerror}{remedy}"
    if isinstance(error, EXPECTED):
        return MISTAKE, text
    name = type(error).__name__
    return FAULT, f"{name}: {text}; please report this bug, with the output of {DEBUG}"
