"""Files of the vendor's compiler and one made by hand: reading, disassembling, running."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import CorruptFile, Engine, Unsupported
from tpuc_cv18.container import CviModel, SectionKind
from tpuc_cv18.disassembler import disassemble
from tpuc_cv18.isa import Segment, Target, decode_cmdbuf, decode_dmabuf, encode_cmdbuf, encode_dmabuf
from tpuc_cv18.loaded import load_model

from tests.chips.cv18xx import NAMES, TARGETS
from tests.families import each

GOLDENS = Path(__file__).parent / "goldens"
FILES = [
    pytest.param(target, path, id=path.stem)
    for target in TARGETS
    for path in sorted((GOLDENS / target.name).glob("*.cvimodel"))
]


def _arrays(path: Path, kind: str) -> dict[str, NDArray[Any]]:
    start = f"{path.stem}.{kind}."
    with np.load(path.parent / "outputs.npz") as outputs:
        return {key.removeprefix(start): value for key, value in outputs.items() if key.startswith(start)}


def _commands(path: Path, target: Target) -> tuple[bytes, Segment]:
    section = CviModel.from_bytes(path.read_bytes(), target).section(SectionKind.CMDBUF)
    assert section is not None
    (segment,) = decode_cmdbuf(section.data, target)
    return section.data, segment


@pytest.mark.parametrize(("target", "path"), FILES)
class TestFiles:
    def test_the_vendors_runtime_gives_the_same_outputs(self, target: Target, path: Path) -> None:
        results = load_model(path.read_bytes(), path.stem, target).run(_arrays(path, "in"))
        wanted = _arrays(path, "out")
        assert wanted
        for key, array in wanted.items():
            assert np.array_equal(results[key].reshape(-1), array.reshape(-1)), key

    def test_command_buffers_come_back_bit_for_bit(self, target: Target, path: Path) -> None:
        data, segment = _commands(path, target)
        assert encode_cmdbuf(segment.order, target) == data

    def test_the_disassembly_shows_every_command(self, target: Target, path: Path) -> None:
        _, segment = _commands(path, target)
        text = disassemble(path.read_bytes(), target)
        assert text.count("\n    tiu ") == len(segment.stream(Engine.COMPUTE))
        assert text.count("\n    tdma ") == len(segment.stream(Engine.DMA))
        assert "unreadable" not in text

    def test_dma_buffers_come_back_where_they_are_known(self, target: Target, path: Path) -> None:
        _, segment = _commands(path, target)
        if target.number is None:
            with pytest.raises(Unsupported, match=f"dmabuf: its format for {target.name} is unknown"):
                encode_dmabuf([segment], target)
            return
        (stored,) = decode_dmabuf(encode_dmabuf([segment], target), target)
        for engine in Engine:
            assert stored.stream(engine) == segment.stream(engine)


@each("target", TARGETS, ids=NAMES)
def test_files_of_another_chip_of_the_package_are_refused(target: Target) -> None:
    for other in TARGETS:
        if other is target:
            continue
        path = GOLDENS / other.name / f"handmade_conv_int8_{other.name}.cvimodel"
        with pytest.raises(
            Unsupported, match=f"cvimodel for chip '{other.name}': only files for {target.name} can be read here"
        ):
            load_model(path.read_bytes(), "f", target)
        with pytest.raises(CorruptFile, match=f"not {target.record_magic:#x} as for {target.name}"):
            decode_cmdbuf(_commands(path, other)[0], target)
