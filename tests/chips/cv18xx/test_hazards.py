"""The proof over waits on files of these chips; that of every file that a test compiles is in all tests."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from tpuc_cv18.isa import Target
from tpuc_cv18xx.chip import CV180X, CV181X, CV182X

from tests.chips.cv18.small_program import file_of, negate
from tests.chips.cv18.subject import FileSubject
from tests.chips.hazard_checks import HazardConformance, without_waits
from tests.chips.mutants import Subject

GOLDENS = Path(__file__).parent / "goldens"


def _hazard(where: str) -> str:
    return (
        f"segment 0: compute command 1 (tensor.mul) and DMA command 1 (dma.load) may run at the same time and both use "
        f"lmem {where}: the first waits for no DMA command, the second waits for no compute command; let the later one "
        "wait for the earlier one"
    )


class Hazards(HazardConformance):
    mode = "bf16"
    derives = "tpuc_cv18.codegen.derive_waits"
    target: ClassVar[Target]

    def subject(self, data: bytes) -> Subject:
        return FileSubject(data, self.target)

    def unordered(self) -> bytes:
        return file_of(without_waits([one.on(self.target) for one in negate()]), self.target).to_bytes()


@pytest.mark.slow
class TestCv180x(Hazards):
    chip = "cv180x"
    target = CV180X
    others = sorted((GOLDENS / "cv180x").glob("*.cvimodel"))
    hazard = _hazard("0x0..0x80, lanes 0..1")
    unseen = 2


@pytest.mark.slow
class TestCv181x(Hazards):
    chip = "cv181x"
    target = CV181X
    others = sorted((GOLDENS / "cv181x").glob("*.cvimodel"))
    idle = 2
    hazard = _hazard("0x0..0x20, lanes 0..7")


@pytest.mark.slow
class TestCv182x(Hazards):
    chip = "cv182x"
    target = CV182X
    others = sorted((GOLDENS / "cv182x").glob("*.cvimodel"))
    idle = 2
    hazard = _hazard("0x0..0x20, lanes 0..7")
