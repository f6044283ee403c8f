"""The interface for subcommand (`tpuc.commands`) and hook (`tpuc.hooks`) plugins. Imports click and pluggy."""

from __future__ import annotations

from tpuc.files import check_writable, write_all
from tpuc.registry.hookspecs import hookimpl
from tpuc.schedule.options import build_object, needs_options, parse_pass_text

from tpuc_driver.cli.app import App, pass_app
from tpuc_driver.cli.command import Command, CommandGroup
from tpuc_driver.cli.options import (
    layout_option,
    preprocess_options,
    runtime_option,
    specializing_options,
    trust_option,
)
from tpuc_driver.cli.outputs import check_output
from tpuc_driver.cli.pools import PoolChoice, PoolsCommand, pool_options
from tpuc_driver.cli.session import check_inputs, check_one_data_source, open_compiled, open_session
from tpuc_driver.cli.text import columns
from tpuc_driver.cli.values import (
    COUNT,
    EMPTY,
    FILE,
    INTEGERS,
    MODE,
    NAMES,
    NUMBER,
    NUMBERS,
    OUTPUT,
    PATHS,
    POSITIVE,
    SHAPES,
    Shapes,
)

__all__ = [
    "COUNT",
    "EMPTY",
    "FILE",
    "INTEGERS",
    "MODE",
    "NAMES",
    "NUMBER",
    "NUMBERS",
    "OUTPUT",
    "PATHS",
    "POSITIVE",
    "SHAPES",
    "App",
    "Command",
    "CommandGroup",
    "PoolChoice",
    "PoolsCommand",
    "Shapes",
    "build_object",
    "check_inputs",
    "check_one_data_source",
    "check_output",
    "check_writable",
    "columns",
    "hookimpl",
    "layout_option",
    "needs_options",
    "open_compiled",
    "open_session",
    "parse_pass_text",
    "pass_app",
    "pool_options",
    "preprocess_options",
    "runtime_option",
    "specializing_options",
    "trust_option",
    "write_all",
]
