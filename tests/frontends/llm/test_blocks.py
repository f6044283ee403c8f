"""Compiling many blocks: equal ones are planned once, and the file is written while they are compiled."""

from __future__ import annotations

import errno
import io
from pathlib import Path
from typing import Any

import pytest
from tpuc.api import Module, TpucError, UsageError
from tpuc_driver.session import Session, parts
from tpuc_plan import group_layers
from tpuc_plan.module_planner import ModulePlanner

from tests.frontends.llm.models import write_model

HEADS = ("lm_head", "greedy_head", "sample_head")

pytestmark = pytest.mark.chip("bm1684x")


def compiled(folder: Path, name: str) -> Path:
    path = folder / name / "m.bmodel"
    Session(chip="bm1684x", quantize="f16", opt=1).compile(folder / "model", path, dims={"seq": 8})
    return path


def test_blocks_of_one_shape_are_planned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(tmp_path / "model", "llama", num_hidden_layers=3)
    planned: list[str] = []
    run = ModulePlanner.run

    def counted(self: ModulePlanner) -> Any:
        planned.append(self.module.name)
        return run(self)

    monkeypatch.setattr(ModulePlanner, "run", counted)
    file = Session(chip="bm1684x").opened(compiled(tmp_path, "out"))
    last = ["block_2", "block_cache_2"]
    assert planned == ["embedding", "embedding_cache", "block_0", "block_cache_0", *last, *HEADS]
    files = [data for _, data in file.chip.extract(file.data)]
    rest = io.BytesIO()
    start = file.chip.combine_parts(iter(files), rest)
    assert start + rest.getvalue() == file.chip.combine(files)
    with pytest.raises(
        UsageError, match=r"two networks have the name 'embedding'; compile one of them under another name\."
    ):
        file.chip.combine_parts([files[0], files[1], files[0]], io.BytesIO())


def unknown(module: Module) -> None:
    """A module that is never equal to another one."""


@pytest.mark.slow
def test_plans_of_other_blocks_change_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(tmp_path / "model", "llama", num_hidden_layers=3)
    once = compiled(tmp_path, "once").read_bytes()
    monkeypatch.setattr(group_layers, "structure_of", unknown)
    assert compiled(tmp_path, "each").read_bytes() == once


def test_a_full_disk_is_named_and_nothing_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    write_model(tmp_path / "model", "llama", num_hidden_layers=1)
    monkeypatch.setattr(parts, "TemporaryFile", full)
    with pytest.raises(TpucError, match=r"m\.bmodel: cannot be written: [Nn]o space left on device\. Free some space"):
        compiled(tmp_path, "out")
    assert not (tmp_path / "out").exists()
