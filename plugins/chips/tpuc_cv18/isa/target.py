"""What differs between the chips that share these instructions, kernels and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tpuc.api import Engine, IllegalCommand
from tpuc.api.encoding import BitLayout

from tpuc_cv18.isa.geometry import LANE_BYTES
from tpuc_cv18.isa.tables import Layouts


@dataclass(frozen=True)
class Profile:
    """A timing model. `note`: how well its figures are known. `is_measured`: fits of a real chip where there are any,
    else the rules of the vendor's estimator, with memory as fast as `ddr_bytes_per_second`.
    """

    note: str
    ddr_bytes_per_second: int
    is_measured: bool = False


@dataclass(frozen=True, eq=False)
class Target:
    """One chip. `layouts`: the bit layouts of its descriptors. `record_magic` begins every record of a command buffer,
    `number` stands in the header of a DMA buffer.

    `largest_step` is the limit of a window's pads and strides, and of inserted zeros. `clock_hz`: of the vendor's cycle
    estimator. `profiles`: its timing models by name, the default first.
    """

    name: str
    lanes: int
    clock_hz: int
    record_magic: int
    number: int
    layouts: Layouts
    largest_step: int = 15
    profiles: Mapping[str, Profile] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def lmem_bytes(self) -> int:
        """All lanes together."""
        return self.lanes * LANE_BYTES

    def groups_of(self, channels: int) -> int:
        """How often `channels` that begin in lane 0 go around the lanes."""
        return -(-channels // self.lanes)


def _no_layouts(engine: Engine) -> BitLayout:
    raise IllegalCommand(f"an instruction of the {engine.label} engine was never given its chip; use `on(target)`")


NO_CHIP = Target("no chip", lanes=0, clock_hz=0, record_magic=0, number=0, layouts=_no_layouts)
"""Of an instruction that no assembler has recorded yet."""
