"""The only place that turns errors into one sentence and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import click
from tpuc.errors import TpucError, UsageError
from tpuc.files import reason, way_out

from tpuc_driver.blame import Blame
from tpuc_driver.cli.app import App
from tpuc_driver.cli.exit_codes import FAILED, INTERRUPTED
from tpuc_driver.cli.interrupts import Interrupt
from tpuc_driver.cli.shell import Shell
from tpuc_driver.cli.streams import BROKEN_PIPE, NobodyReads, give_up_stdout, shown_streams
from tpuc_driver.cli.text import one_line, sentence
from tpuc_driver.cli.warned import warnings_as_remarks

NAME = "tpuc"
COMPLETION = "_TPUC_COMPLETE"
"""Environment variable set when a shell asks for completions."""


def run(arguments: Sequence[str] | None, interrupt: Interrupt) -> int:
    """Run the command line; returns the exit code."""
    app = App()
    with shown_streams() as stdout, warnings_as_remarks(app):
        try:
            code = _code(sys.argv[1:] if arguments is None else [*arguments], app, interrupt)
        except NobodyReads:
            return BROKEN_PIPE
    return code or (FAILED if stdout.is_lost else 0)


def _code(arguments: list[str], app: App, interrupt: Interrupt) -> int:
    try:
        result = _dispatch(arguments, app)
        sys.stdout.flush()
    except (KeyboardInterrupt, click.Abort):
        return _fail(app, "interrupted", INTERRUPTED)
    except NobodyReads:
        raise
    except Exception as error:  # noqa: BLE001 # the outermost frame: a traceback is shown with -v only
        if interrupt.pressed:
            return _fail(app, "interrupted", INTERRUPTED)
        return _fail(app, *_explanation(error, app))
    return result if isinstance(result, int) else 0


def _dispatch(arguments: list[str], app: App) -> Any:
    """As `click.Command.main`, with our own handling of interrupts and closed output."""
    shell = Shell()
    app.arguments = tuple(arguments)
    if COMPLETION in os.environ:
        return shell.main(arguments, prog_name=NAME, standalone_mode=False, obj=app)
    try:
        with shell.make_context(NAME, arguments, obj=app) as context:
            return shell.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code


def _explanation(error: Exception, app: App) -> tuple[str, int]:
    """The message for an error, and the exit code."""
    if not isinstance(error, (click.ClickException, OSError, MemoryError)):
        blamed = Blame(app.make_registry().offers).explain(error)
        if blamed is not None:
            return blamed, error.exit_code if isinstance(error, TpucError) else FAILED
    match error:
        case click.UsageError():
            return usage_sentence(error), UsageError.exit_code
        case click.ClickException():
            return one_line(error.format_message()), error.exit_code
        case TpucError():
            return error.sentence(), error.exit_code
        case OSError():
            if error.filename is None:
                give_up_stdout()
            return file_sentence(error), FAILED
        case MemoryError():
            return memory_sentence(error), FAILED
        case _:
            return internal_sentence(error), FAILED


def usage_sentence(error: click.UsageError) -> str:
    """Click's usage error as one sentence that names the command and its help."""
    message = one_line(_complaint(error)).rstrip(".")
    message = message[:1].lower() + message[1:] + ("" if message.endswith("?") else ".")
    if error.ctx is None:
        return message
    _, _, command = error.ctx.command_path.partition(" ")
    place = f"{command}: " if command else ""
    return f"{place}{message} See '{error.ctx.command_path} --help'."


def _complaint(error: click.UsageError) -> str:
    """Click's message, in words that do not depend on its version."""
    if not isinstance(error, click.NoSuchOption):
        return error.format_message()
    close = sorted(error.possibilities or ())
    return f"no such option '{error.option_name}'." + (f" Did you mean '{close[0]}'?" if close else "")


def file_sentence(error: OSError) -> str:
    """The operating system's error, the file, and the way out."""
    cause = reason(error)
    thing = error.filename if error.filename is not None else "input or output"
    return f"{thing}: {cause[:1].lower()}{cause[1:]}. {way_out(error)}"


def memory_sentence(error: MemoryError) -> str:
    """What exceeded this machine's memory."""
    what = one_line(str(error)).rstrip(".")
    reason = f": {what[:1].lower()}{what[1:]}" if what else ""
    return f"not enough memory{reason}. Close other programs, or use a smaller batch."


def internal_sentence(error: Exception) -> str:
    """An internal error."""
    what = one_line(f"{type(error).__name__}: {error}").removesuffix(":").rstrip(".")
    return f"internal error: {what}; run again with -v for the traceback"


def _fail(app: App, text: str, exit_code: int) -> int:
    if app.verbose:
        click.echo(traceback.format_exc(), err=True, nl=False)
    click.echo(f"tpuc: {sentence(text)}", err=True)
    return exit_code
