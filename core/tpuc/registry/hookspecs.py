"""Events that a hook plugin may observe, and chip stages that it may wrap.

A hook plugin is any object with `api_version = 1` and methods marked `@hookimpl`; it is loaded only with `--with NAME`.
Observers return nothing. A stage is wrapped with `@hookimpl(wrapper=True)`: code before the `yield`, the stage's result
from it, and the final result as the return value.
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
    """Events during compilation."""

    @hookspec
    def pass_started(self, name: str, module: Module) -> None:
        """A pass is about to run."""

    @hookspec
    def pass_finished(self, name: str, module: Module, changed: bool, seconds: float) -> None:
        """A pass has run; `changed` is its return value."""

    @hookspec
    def module_dumped(self, path: Path, module: Module) -> None:
        """A module was written as text."""

    @hookspec
    def artifact_written(self, path: Path, kind: str) -> None:
        """An output file is complete; `kind` is its kind (`mlir`, `weights`, `calibration table`, `model`, ...)."""


class Stages:
    """The stages of a chip. `proceed()` runs the chip's own implementation, which is the default.

    A hook that returns something other than None without wrapping replaces the chip's implementation.
    """

    @hookspec(firstresult=True)
    def assign_memory(self, chip: Chip, module: Module, proceed: Callable[[], Any]) -> Any:
        """Assign a DDR address to every value."""

    @hookspec(firstresult=True)
    def generate_code(self, chip: Chip, module: Module, proceed: Callable[[], Any]) -> Any:
        """Turn a placed module into instructions and the compiled file; returns what `proceed` returns."""

    @hookspec(firstresult=True)
    def simulate(self, chip: Chip, inputs: Any, proceed: Callable[[], Any]) -> Any:
        """Run a compiled file on named inputs; returns what `proceed` returns."""


class ChipStages:
    """The chip's own implementation of the stages."""

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
