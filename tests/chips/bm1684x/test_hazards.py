"""The proof over waits on files of this chip."""

from __future__ import annotations

from pathlib import Path

from tests.chips.bm1684x.subject import FileSubject
from tests.chips.bm1684x.test_simulator import add_one, program
from tests.chips.hazard_checks import HazardConformance, without_waits
from tests.chips.mutants import Subject

GOLDENS = Path(__file__).parent / "goldens"


class TestHazards(HazardConformance):
    chip = "bm1684x"
    mode = "f16"
    derives = "tpuc_bm1684x.subnets.derive_waits"
    others = sorted(GOLDENS.glob("*.bmodel"))
    hazard = (
        "group 0: compute command 1 (ar.add) and DMA command 1 (dma.copy) may run at the same time and both use "
        "lmem 0x0..0x20, lanes 0..7: the first waits for no DMA command, the second waits for no compute command; let "
        "the later one wait for the earlier one"
    )

    def subject(self, data: bytes) -> Subject:
        return FileSubject(data)

    def unordered(self) -> bytes:
        return program(without_waits(add_one())).to_bytes()
