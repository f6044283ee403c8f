"""What a plugin needs for a subcommand (`tpuc.commands`) or a hook (`tpuc.hooks`). Imports click and pluggy."""

from __future__ import annotations

from tpuc.cli import App, Command, CommandGroup, pass_app
from tpuc.hookspecs import hookimpl

__all__ = ["App", "Command", "CommandGroup", "hookimpl", "pass_app"]
