"""What differs between the chips that share these instructions, kernels and files."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc_cv183x.isa.geometry import LANE_BYTES
from tpuc_cv183x.isa.tables import Layouts, load_table


@dataclass(frozen=True, eq=False)
class Target:
    """One chip. `layouts`: the bit layouts of its descriptors. `record_magic` begins every record of a command buffer,
    `number` stands in the header of a DMA buffer.

    `largest_step` is the limit of a window's pads and strides, and of inserted zeros. `clock_hz`: of the vendor's cycle
    estimator. `families`: whose tables serve the chip beside its own.
    """

    name: str
    lanes: int
    clock_hz: int
    record_magic: int
    number: int
    largest_step: int = 15
    layouts: Layouts = load_table
    families: tuple[str, ...] = ()

    @property
    def lmem_bytes(self) -> int:
        """All lanes together."""
        return self.lanes * LANE_BYTES

    def groups_of(self, channels: int) -> int:
        """How often `channels` that begin in lane 0 go around the lanes."""
        return -(-channels // self.lanes)


CV183X = Target("cv183x", lanes=32, clock_hz=650_000_000, record_magic=0xA5, number=0x1835)
