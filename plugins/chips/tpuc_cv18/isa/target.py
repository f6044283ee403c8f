"""Parameters in which the CV18xx chips differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tpuc.api import Engine, FrameAlignment, IllegalCommand
from tpuc.api.encoding import BitLayout

from tpuc_cv18.isa.geometry import LANE_BYTES
from tpuc_cv18.isa.tables import Layouts

FAMILY = "cv18"
"""Name of the family whose tables and functions apply to all its chips, in addition to their own."""


@dataclass(frozen=True)
class Profile:
    """A timing model. `note` states how certain its figures are. `is_measured`: fitted to a real chip where data
    exists; otherwise the rules of the vendor's estimator, with a memory bandwidth of `ddr_bytes_per_second`.
    `counts_starts`: transfers have start-up cycles, which those rules omit. `is_planned`: plans are compared in this
    model.
    """

    note: str
    ddr_bytes_per_second: int
    is_measured: bool = False
    counts_starts: bool = False
    is_planned: bool = True


@dataclass(frozen=True, eq=False)
class Target:
    """One chip. `layouts`: the bit layouts of its descriptors. `record_magic` starts each record of a command buffer;
    `number` is in the header of a DMA buffer, None where that format is unknown.

    `largest_insert`: the most zeros between input elements or kernel taps. `largest_stride`: of windows. `clock_hz`:
    the clock in the vendor's cycle estimator. `profiles`: its timing models by name, the default first.
    `frame_alignment`: alignment of image rows and planes in camera memory. `gmem_start`: the first GMEM address in
    descriptors.

    `has_channel_sums`: has the ChannelSum command. `has_comparisons`: has MinPool and GREATER_EQUAL. `has_lookup_bit`:
    a dedicated bit marks table lookups, instead of only the operation code. `has_float_pads`: float padding has its own
    field, instead of sharing that of integers. `dilates_per_channel`: supports dilation in a depthwise convolution with
    per-channel requantization. `converts_below`: floats of at least this magnitude become 0 when converted to bytes;
    None: they saturate.
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
        """Bytes of all lanes together."""
        return self.lanes * LANE_BYTES

    @property
    def profile(self) -> Profile:
        """The default timing model."""
        return next(iter(self.profiles.values()))

    @property
    def bytes_per_cycle(self) -> float:
        """Memory bandwidth per clock cycle."""
        return self.profile.ddr_bytes_per_second / self.clock_hz

    def groups_of(self, channels: int) -> int:
        """Number of channel groups for `channels` channels that start in lane 0."""
        return -(-channels // self.lanes)


def _no_layouts(engine: Engine) -> BitLayout:
    raise IllegalCommand(f"an instruction of the {engine.label} engine was never given its chip; use `on(target)`")


NO_CHIP = Target("no chip", lanes=0, clock_hz=0, record_magic=0, number=None, layouts=_no_layouts)
"""Target of an instruction that no assembler has recorded yet."""
