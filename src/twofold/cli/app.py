"""``twofold``: the command line."""

import os
import sys
import traceback
import warnings
from typing import Annotated, Any

import typer
import typer.core

from twofold import __version__
from twofold.cli import campaign, env, policy
from twofold.cli.decompose import decompose
from twofold.cli.demo import demo
from twofold.cli.doctor import doctor
from twofold.cli.errors import FAULT, StoppedError, exit_code
from twofold.cli.fit import fit
from twofold.cli.report import report
from twofold.cli.suggest import suggest

DEBUG = "--debug"
EPILOG = (
    "Exit codes: 0 done, 1 a fault of twofold's own, 2 a mistake in the command or its input, "
    "3 the self-test of twofold doctor has failed, 130 stopped by Ctrl-C."
)


class Commands(typer.core.TyperGroup):
    """Typer would end at Ctrl-C without the sentence that came with it."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stopped:
            raise StoppedError(str(stopped) or "stopped") from stopped


app = typer.Typer(
    cls=Commands,
    help="Predict, split the uncertainty in two, and decide with each part.",
    epilog=EPILOG,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
for command in (fit, decompose, suggest, report, demo, doctor):
    app.command()(command)
for group in (campaign, policy, env):
    app.add_typer(group.app, name=group.__name__.rpartition(".")[2])


def show_version(wanted: bool) -> None:
    """Print the version, and nothing else."""
    if wanted:
        print(f"twofold {__version__}")
        raise typer.Exit()


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=show_version, help="Show it.")
    ] = False,
    debug: Annotated[
        bool, typer.Option(DEBUG, help="Show where an error came from; may stand anywhere.")
    ] = False,
) -> None:
    """Predict, split the uncertainty in two, and decide with each part."""


def note(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as a sentence instead of a line of code."""
    print(f"twofold: note: {message}", file=sys.stderr)


def main() -> None:
    """Run; an error is one sentence on stderr and an exit code."""
    words = sys.argv[1:]
    # What compilers have to say is not for users; errors come as exceptions.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = note
            app(args=[word for word in words if word != DEBUG], prog_name="twofold")
    except BrokenPipeError:
        # Who reads the output has seen enough; what is left must not be written at the end either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (Exception, KeyboardInterrupt) as error:
        raise SystemExit(told(error, DEBUG in words)) from error


def told(error: BaseException, debug: bool) -> int:
    """Say what went wrong; returns the exit code."""
    if debug:
        traceback.print_exception(error)
    code = exit_code(error)
    text = str(error) or "stopped"
    if code == FAULT:
        text = f"{type(error).__name__}: {text}; {DEBUG} shows where, please report it"
    print(f"twofold: {text}", file=sys.stderr)
    return code
