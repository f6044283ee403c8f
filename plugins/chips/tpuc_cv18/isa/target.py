"""Differences between the CV18xx chips."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tpuc.api import Engine, FrameAlignment, IllegalCommand
from tpuc.api.encoding import BitLayout

from tpuc_cv18.isa.geometry import LANE_BYTES
from tpuc_cv18.isa.tables import Layouts

FAMILY = "cv18"
"""Whose tables and functions serve all chips, beside their own."""


@dataclass(frozen=True)
class Profile:
    """A timing model. `note`: how well its figures are known. `is_measured`: fits of a real chip where there are any,
    else the rules of the vendor's estimator, with memory as fast as `ddr_bytes_per_second`. `counts_starts`: do
    transfers have start-up cycles, which those rules lack? `is_planned`: are plans compared in it?
    """

    note: str
    ddr_bytes_per_second: int
    is_measured: bool = False
    counts_starts: bool = False
    is_planned: bool = True


@dataclass(frozen=True, eq=False)
class Target:
    """One chip. `layouts`: the bit layouts of its descriptors. `record_magic` begins every record of a command buffer,
    `number` stands in the header of a DMA buffer; None: such a buffer is not known.

    `largest_insert`: how many zeros may stand between elements of an input or taps of a kernel. `largest_stride` of
    windows. `clock_hz`: of the
    vendor's cycle estimator. `profiles`: its timing models by name, the default first.

    `frame_alignment`: where its camera hardware begins rows and planes of images.

    `gmem_start`: the first address in GMEM as descriptors say it. `has_channel_sums`: does it add up the elements of
    channels? `has_comparisons`: does it know the smallest element of a window, and which of two is the larger?
    `has_lookup_bit`: is a look-up said by a bit of its own, rather than by its code alone? `has_float_pads`: has the
    padding of floats a field of its own, rather than that of integers? `dilates_per_channel`: does it heed the dilation
    of a depthwise convolution that is requantised per channel? `converts_below`: larger floats become 0 when they are
    made bytes; None: they saturate.
    """

    name: str
    lanes: int
    clock_hz: int
    record_magic: int
    number: int | None
    layouts: Layouts
    largest_insert: int = 15
    largest_stride: int = 15
    gmem_start: int = 1 << 32
    has_channel_sums: bool = True
    has_comparisons: bool = False
    has_lookup_bit: bool = True
    has_float_pads: bool = True
    dilates_per_channel: bool = True
    converts_below: float | None = None
    frame_alignment: FrameAlignment | None = None
    profiles: Mapping[str, Profile] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def lmem_bytes(self) -> int:
        """All lanes together."""
        return self.lanes * LANE_BYTES

    @property
    def profile(self) -> Profile:
        """The timing model that is the default."""
        return next(iter(self.profiles.values()))

    @property
    def bytes_per_cycle(self) -> float:
        """What memory delivers."""
        return self.profile.ddr_bytes_per_second / self.clock_hz

    def groups_of(self, channels: int) -> int:
        """How often `channels` that begin in lane 0 go around the lanes."""
        return -(-channels // self.lanes)


def _no_layouts(engine: Engine) -> BitLayout:
    raise IllegalCommand(f"an instruction of the {engine.label} engine was never given its chip; use `on(target)`")


NO_CHIP = Target("no chip", lanes=0, clock_hz=0, record_magic=0, number=None, layouts=_no_layouts)
"""Of an instruction that no assembler has recorded yet."""
