"""Events that a hook plugin may observe, and chip stages that it may wrap.

A hook plugin is any object with `api_version = 1` and methods marked `@hookimpl`; it is loaded with `--with NAME` only.
Observers return nothing. A stage is wrapped with `@hookimpl(wrapper=True)`: code before the `yield`, the stage's
result from it, and the result to hand on as the return value.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from tpuc.api.chip import Chip
    from tpuc.ir import Module

hookspec = pluggy.HookspecMarker("tpuc")
hookimpl = pluggy.HookimplMarker("tpuc")


class Events:
    """What happens while a network is compiled."""

    @hookspec
    def pass_started(self, name: str, module: Module) -> None:
        """A pass is about to run."""

    @hookspec
    def pass_finished(self, name: str, module: Module, changed: bool, seconds: float) -> None:
        """A pass has run; `changed` is what it reported."""

    @hookspec
    def module_dumped(self, path: Path, module: Module) -> None:
        """A module was written as text."""

    @hookspec
    def artifact_written(self, path: Path, kind: str) -> None:
        """An output file is complete; `kind` is what it is (`mlir`, `weights`, `calibration table`, `model`, ...)."""


class Stages:
    """What a chip does. `proceed()` is the chip's own work; without a plugin nothing else happens.

    A hook that returns something other than None without wrapping takes the chip's place.
    """

    @hookspec(firstresult=True)
    def assign_memory(self, chip: Chip, module: Module, proceed: Callable[[], Any]) -> Any:
        """Give every value its place in DDR."""

    @hookspec(firstresult=True)
    def generate_code(self, chip: Chip, module: Module, proceed: Callable[[], Any]) -> Any:
        """Turn a placed module into instructions and the compiled file; the result is what `proceed` returns."""

    @hookspec(firstresult=True)
    def simulate(self, chip: Chip, inputs: Any, proceed: Callable[[], Any]) -> Any:
        """Run a compiled file on named inputs; the result is what `proceed` returns."""


class ChipStages:
    """The stages as the chip itself does them."""

    @hookimpl(trylast=True)
    def assign_memory(self, proceed: Callable[[], Any]) -> Any:
        """Place values."""
        return proceed()

    @hookimpl(trylast=True)
    def generate_code(self, proceed: Callable[[], Any]) -> Any:
        """Generate code."""
        return proceed()

    @hookimpl(trylast=True)
    def simulate(self, proceed: Callable[[], Any]) -> Any:
        """Simulate."""
        return proceed()


def make_manager() -> pluggy.PluginManager:
    """An event bus on which only the chip's own stages are registered."""
    manager = pluggy.PluginManager("tpuc")
    manager.add_hookspecs(Events)
    manager.add_hookspecs(Stages)
    manager.register(ChipStages(), "chip-stages")
    return manager
