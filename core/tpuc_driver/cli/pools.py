"""Memory pool options in TVM's spelling, for all commands that plan memory for C source."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click
from tpuc.errors import UsageError

from tpuc_driver.cli.command import Command

R = TypeVar("R")
_META = "tpuc_driver.cli.pools"
_KINDS = ("workspace", "parameter")


@dataclass(frozen=True)
class PoolChoice:
    """The targets in order, and the pool options: `usmp-workspace-pools`, `usmp-workspace-pool-NAME`, and the same with
    `parameter`.
    """

    targets: tuple[str, ...] = ()
    options: Mapping[str, str] | None = None


class PoolsCommand(Command):
    """A command with options that contain the name of a pool: `--usmp-workspace-pool-NAME=TEXT`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Extract the pool options before parsing the others."""
        rest, ctx.meta[_META] = taken(args)
        return super().parse_args(ctx, rest)


def taken(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The words of a command line without pool options, and the pool options; a blank may follow the `=`."""
    rest: list[str] = []
    options: dict[str, str] = {}
    pending = ""
    for word in words:
        if pending:
            options[pending], pending = word, ""
            continue
        key = _key(word)
        if key is None:
            rest.append(word)
            continue
        if key in options:
            raise UsageError(f"--{key} is given twice; keep one.")
        options[key] = word.partition("=")[2]
        pending = "" if options[key] else key
    if pending:
        raise UsageError(f'--{pending} needs a description such as "target=c:rw;size=1000".')
    return rest, options


def _key(word: str) -> str | None:
    """The option that describes one pool; the case of the pool's name is kept."""
    name = word.lstrip("-").partition("=")[0]
    for kind in _KINDS:
        prefix = f"usmp-{kind}-pool-"
        if word.startswith("--") and name[: len(prefix)].replace("_", "-").lower() == prefix:
            return prefix + name[len(prefix) :]
    return None


def pool_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add the pool options, as `pools`, a PoolChoice."""

    @click.option("--target", default="", metavar="NAMES", help="Targets, first the one that runs the ops: accel,c.")
    @click.option(
        "--usmp-workspace-pools",
        default="",
        metavar="NAMES",
        help="Pools for buffers, by preference: dtcm,sram.",
    )
    @click.option(
        "--usmp-parameter-pools", default="", metavar="NAMES", help="Pools for constants, by preference: itcm,flash."
    )
    @click.option("--executor", type=click.Choice(["aot"]), expose_value=False, help="As in TVM; only aot.")
    @click.option(
        "--output-format",
        type=click.Choice(["mlf"]),
        expose_value=False,
        help="As in TVM; only mlf.",
    )
    @functools.wraps(function)
    def gathered(
        *arguments: Any, target: str, usmp_workspace_pools: str, usmp_parameter_pools: str, **settings: Any
    ) -> R:
        named = {"usmp-workspace-pools": usmp_workspace_pools, "usmp-parameter-pools": usmp_parameter_pools}
        described: Mapping[str, str] = click.get_current_context().meta.get(_META, {})
        targets = tuple(name.strip() for name in target.split(",") if name.strip())
        options = {**described, **{name: text for name, text in named.items() if text}}
        return function(*arguments, pools=PoolChoice(targets, options), **settings)

    return gathered
