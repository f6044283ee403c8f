"""Every error becomes one sentence and an exit code here, and nowhere else."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import click

from tpuc.cli.app import App
from tpuc.cli.shell import Shell
from tpuc.cli.text import one_line
from tpuc.errors import TpucError, UsageError
from tpuc.files import reason, way_out

FAILED = 1
INTERRUPTED = 130
"""As shells report the end by a signal: 128 and its number, 2 for SIGINT."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    app = App()
    try:
        result = Shell().main(arguments, prog_name="tpuc", standalone_mode=False, obj=app)
        sys.stdout.flush()
    except click.Abort:
        return _fail(app, "interrupted", INTERRUPTED)
    except click.UsageError as error:
        return _fail(app, usage_sentence(error), UsageError.exit_code)
    except click.ClickException as error:
        return _fail(app, one_line(error.format_message()), error.exit_code)
    except TpucError as error:
        return _fail(app, str(error), error.exit_code)
    except OSError as error:
        if error.filename is None:
            _give_up_stdout()
        return _fail(app, file_sentence(error), FAILED)
    except Exception as error:  # noqa: BLE001 # the outermost frame: a traceback is shown with -v only
        return _fail(app, internal_sentence(error), FAILED)
    return result if isinstance(result, int) else 0


def usage_sentence(error: click.UsageError) -> str:
    """Click's complaint as one sentence that names the command and where to read on."""
    message = one_line(error.format_message()).rstrip(".")
    message = message[:1].lower() + message[1:] + ("" if message.endswith("?") else ".")
    if error.ctx is None:
        return message
    _, _, command = error.ctx.command_path.partition(" ")
    place = f"{command}: " if command else ""
    return f"{place}{message} See '{error.ctx.command_path} --help'."


def file_sentence(error: OSError) -> str:
    """What the operating system refused, about which file, and what to do."""
    cause = reason(error)
    thing = error.filename if error.filename is not None else "input or output"
    return f"{thing}: {cause[:1].lower()}{cause[1:]}. {way_out(error)}"


def internal_sentence(error: Exception) -> str:
    """A mistake of ours."""
    what = one_line(f"{type(error).__name__}: {error}").removesuffix(":").rstrip(".")
    return f"internal error: {what}; run again with -v for the traceback"


def _fail(app: App, sentence: str, exit_code: int) -> int:
    if app.verbose:
        click.echo(traceback.format_exc(), err=True, nl=False)
    click.echo(f"tpuc: {sentence}", err=True)
    return exit_code


def _give_up_stdout() -> None:
    """Let the interpreter's last flush go nowhere when stdout itself is broken (a full disk behind `>`)."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
