"""Mistakes of the user's as sentences, and what the exit codes mean."""

# A fault of twofold's own; a mistake in the command or its input; an installation that is not
# sound; Ctrl-C, as shells have it.
FAULT, MISTAKE, UNSOUND, STOPPED = 1, 2, 3, 130


class CommandError(ValueError):
    """A mistake in a command or its input."""


class StoppedError(Exception):
    """Ctrl-C was pressed; says what is left of what was done."""


def exit_code(error: BaseException) -> int:
    """What a script should learn of an error.

    The library's own errors are all of these kinds, and say what was wrong with what they got.
    """
    if isinstance(error, KeyboardInterrupt | StoppedError):
        return STOPPED
    expected = isinstance(error, ValueError | OSError | ImportError | ArithmeticError)
    return MISTAKE if expected else FAULT
