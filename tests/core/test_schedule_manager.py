"""The pass manager runs stages, verifies, dumps and reports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tpuc.errors import PluginError, UsageError, VerifyError
from tpuc.ir import Module
from tpuc.registry import Registry
from tpuc.registry.hookspecs import hookimpl
from tpuc.schedule import PIPELINES, Pass, PassContext, PassManager

from tests.core.fakes import Rename, offer
from tests.families import each


class Net(Module):
    """An empty module that counts its verifications, and is invalid while it is called so."""

    verified = 0

    def verify(self) -> None:
        self.verified += 1
        if self.name == "invalid":
            raise VerifyError("value '%3' is used before it is defined")


@dataclass(frozen=True)
class Misnamed(Rename):
    name = "other"


@dataclass(frozen=True)
class Nothing(Pass):
    """Changes nothing."""

    name = "nothing"

    def run(self, module: Module, context: PassContext) -> bool:
        return False


class Watcher:
    """Notes what the manager says."""

    api_version = 1

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    @hookimpl
    def pass_started(self, name: str, module: Module) -> None:
        self.events.append(("started", name, module.name))

    @hookimpl
    def pass_finished(self, name: str, module: Module, changed: bool, seconds: float) -> None:
        assert seconds >= 0
        self.events.append(("finished", name, module.name, changed))

    @hookimpl
    def module_dumped(self, path: Path) -> None:
        self.events.append(("dumped", path.name))


def context(
    work_dir: Path | None = None, watcher: Watcher | None = None, log: Any = print, package: str = "tpuc"
) -> PassContext:
    """With passes of `package`."""
    offers = [
        offer("passes", "rename", Rename, package),
        offer("passes", "nothing", Nothing, package),
        offer("passes", "misnamed", Misnamed),
        offer("hooks", "watcher", watcher),
    ]
    registry = Registry(enabled=["watcher"] if watcher else (), offers=offers)
    return PassContext(registry, work_dir=work_dir, log=log)


def test_a_stage_is_verified_once_at_its_end() -> None:
    module = Net("net")
    manager = PassManager(context(), pipelines={"tidy": ("rename", "nothing", "rename{to=last}")})
    assert manager.run_pipeline("tidy", module) is True
    assert (module.name, module.verified) == ("last", 1)
    assert [(timing.stage, timing.name, timing.changed) for timing in manager.report.passes] == [
        ("tidy", "rename", True),
        ("tidy", "nothing", False),
        ("tidy", "rename", True),
    ]
    assert manager.report.seconds("tidy") == sum(timing.seconds for timing in manager.report.passes)


def test_verify_each_verifies_after_every_pass() -> None:
    module = Net("net")
    PassManager(context(), verify_each=True).run(module, ["rename", "nothing"])
    assert module.verified == 2


def test_a_run_that_changes_nothing_says_so() -> None:
    manager = PassManager(context())
    assert manager.run(Net("net"), ["nothing", Nothing()]) is False
    assert not manager.report.changed


@each(("verify_each", "where"), [(False, "pipeline 'tidy'"), (True, "pass 'rename'")], ids=["per stage", "per pass"])
def test_an_invalid_module_names_what_made_it_so(verify_each: bool, where: str) -> None:
    manager = PassManager(context(), pipelines={"tidy": ["rename{to=invalid}"]}, verify_each=verify_each)
    with pytest.raises(VerifyError) as caught:
        manager.run_pipeline("tidy", Net("net"))
    assert str(caught.value) == f"after {where}: value '%3' is used before it is defined"


def test_a_pass_of_another_package_is_verified_at_once_and_named() -> None:
    manager = PassManager(context(package="acme"), pipelines={"tidy": ["rename{to=invalid}", "nothing"]})
    with pytest.raises(VerifyError) as caught:
        manager.run_pipeline("tidy", Net("net"))
    assert str(caught.value) == "after pass 'rename': value '%3' is used before it is defined"
    assert isinstance(caught.value.culprit, Rename)
    assert caught.value.fault == "pass 'rename' breaks the module: value '%3' is used before it is defined"


def test_unknown_passes_and_pipelines_are_refused_before_anything_runs() -> None:
    module = Net("net")
    manager = PassManager(context())
    with pytest.raises(UsageError) as caught:
        manager.run(module, ["rename", "renam"])
    assert str(caught.value) == ("no pass named 'renam'. Did you mean 'rename'? Installed: misnamed, nothing, rename.")
    with pytest.raises(UsageError, match=r"^no pipeline named 'lowr'\. Did you mean 'lower'\? "):
        manager.run_pipeline("lowr", module)
    assert module.name == "net"


def test_a_pass_with_two_names_is_refused() -> None:
    with pytest.raises(PluginError) as caught:
        PassManager(context()).build("misnamed")
    assert str(caught.value) == (
        "pass 'misnamed' of acme 1.0 calls itself 'other'. Its author has to use the same name in both places."
    )


def test_modules_are_dumped_after_the_named_pass(tmp_path: Path) -> None:
    manager = PassManager(context(tmp_path / "work"), dump_after=["nothing"])
    manager.run(Module("net"), ["rename{to=a}", "nothing"])
    (dump,) = (tmp_path / "work").iterdir()
    assert dump.name == "02_nothing.mlir"
    assert "module @a" in dump.read_text("utf-8")


def test_all_modules_are_dumped_in_order(tmp_path: Path) -> None:
    PassManager(context(tmp_path), dump_after=["all"]).run(Module("net"), ["rename", "nothing", "rename{to=b}"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["01_rename.mlir", "02_nothing.mlir", "03_rename.mlir"]


def test_dump_after_needs_a_place_and_a_known_pass(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        PassManager(context(), dump_after=["all"])
    assert str(caught.value) == "--dump-after needs a folder to write to; give one with --work-dir DIR."
    with pytest.raises(UsageError, match=r"^no pass named 'renam'\. Did you mean 'rename'\?"):
        PassManager(context(tmp_path), dump_after=["renam"])


def test_hooks_hear_of_every_pass_and_dump(tmp_path: Path) -> None:
    watcher = Watcher()
    PassManager(context(tmp_path, watcher), dump_after=["rename"]).run(Module("net"), ["rename"])
    assert watcher.events == [
        ("started", "rename", "net"),
        ("finished", "rename", "renamed", True),
        ("dumped", "01_rename.mlir"),
    ]


def test_every_pass_leaves_a_remark() -> None:
    remarks: list[str] = []
    PassManager(context(log=remarks.append)).run(Net("net"), ["rename", "nothing"])
    assert [remark.rsplit(",", 1)[0] for remark in remarks] == ["rename: changed", "nothing: no change"]


def test_the_stages_of_the_design_are_there() -> None:
    assert list(PIPELINES) == ["top-optimize", "calibrate", "lower", "tpu-optimize", "finalize"]
