"""The command line. Nothing here imports numpy or a plugin before a command needs it."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.cli.app import App, pass_app
from tpuc.cli.command import Command, CommandGroup

__all__ = ["App", "Command", "CommandGroup", "main", "pass_app"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `tpuc ARGUMENTS` (those of the process when None); returns the exit code."""
    from tpuc.cli.run import run

    return run(arguments)
