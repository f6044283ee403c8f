"""Hook plugins observe and wrap, and only when --with names them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from tpuc.errors import PluginError
from tpuc.ir import Module
from tpuc.registry import Registry
from tpuc.registry.hookspecs import hookimpl

from tests.core.fakes import FakeChip, offer

CHIP, MODULE = FakeChip("newchip"), Module("net")


class Watcher:
    """Notes every event; wraps the simulation and replaces code generation."""

    api_version = 1

    def __init__(self) -> None:
        self.events: list[str] = []

    @hookimpl
    def pass_started(self, name: str) -> None:
        self.events.append(f"started {name}")

    @hookimpl(wrapper=True)
    def simulate(self, inputs: Any) -> Generator[None, Any, Any]:
        self.events.append(f"before {inputs}")
        result = yield
        return result + 1

    @hookimpl
    def generate_code(self, module: Module) -> str:
        return f"code of {module.name}"


def test_a_hook_plugin_is_not_loaded_by_being_installed() -> None:
    registry = Registry(offers=[offer("hooks", "watcher", ImportError("never"))])
    registry.hooks.hook.pass_started(name="p", module=MODULE)
    assert [row.state for row in registry.describe("tpuc.hooks")] == ["not enabled"]


def test_with_loads_a_hook_plugin() -> None:
    watcher = Watcher()
    registry = Registry(enabled=["watcher"], offers=[offer("hooks", "watcher", watcher)])
    registry.hooks.hook.pass_started(name="p", module=MODULE)
    assert watcher.events == ["started p"]
    assert [row.state for row in registry.describe("tpuc.hooks")] == ["enabled"]


def test_a_stage_without_plugins_is_the_chip_s_own_work() -> None:
    hook = Registry(offers=[]).hooks.hook
    assert hook.simulate(chip=CHIP, inputs="x", proceed=lambda: 41) == 41
    assert hook.generate_code(chip=CHIP, module=MODULE, proceed=lambda: b"bytes") == b"bytes"
    assert hook.assign_memory(chip=CHIP, module=MODULE, proceed=lambda: None) is None


def test_a_plugin_wraps_a_stage_or_takes_its_place() -> None:
    watcher = Watcher()
    hook = Registry(enabled=["acme"], offers=[offer("hooks", "watcher", watcher)]).hooks.hook
    assert hook.simulate(chip=CHIP, inputs="x", proceed=lambda: 41) == 42
    assert watcher.events == ["before x"]
    assert hook.generate_code(chip=CHIP, module=MODULE, proceed=lambda: b"bytes") == "code of net"


def test_a_broken_hook_plugin_is_named() -> None:
    registry = Registry(enabled=["watcher"], offers=[offer("hooks", "watcher", ImportError("no eyes"))])
    with pytest.raises(
        PluginError, match=r"^hook plugin 'watcher' of acme 1\.0 cannot be loaded: ImportError: no eyes"
    ):
        _ = registry.hooks
