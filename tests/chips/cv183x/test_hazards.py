"""The proof over waits on files of this chip."""

from __future__ import annotations

from pathlib import Path

from tpuc_cv183x.chip import CV183X

from tests.chips.cv18.small_program import file_of, negate
from tests.chips.cv18.subject import FileSubject
from tests.chips.hazard_checks import HazardConformance, without_waits
from tests.chips.mutants import Subject

GOLDENS = Path(__file__).parent / "goldens"


class TestHazards(HazardConformance):
    chip = "cv183x"
    mode = "bf16"
    derives = "tpuc_cv18.codegen.derive_waits"
    others = sorted(GOLDENS.glob("*.cvimodel"))
    idle = 2
    hazard = (
        "segment 0: compute command 1 (tensor.mul) and DMA command 1 (dma.load) may run at the same time and both use "
        "lmem 0x0..0x20, lanes 0..7: the first waits for no DMA command, the second waits for no compute command; let "
        "the later one wait for the earlier one"
    )

    def subject(self, data: bytes) -> Subject:
        return FileSubject(data, CV183X)

    def unordered(self) -> bytes:
        return file_of(without_waits([one.on(CV183X) for one in negate()]), CV183X).to_bytes()
