"""Parameters in which the chips of the family differ: memories, field tables and capabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from tpuc_bm1684x.isa import geometry
from tpuc_bm1684x.isa.rates import FIRST, Profile, Rates
from tpuc_bm1684x.isa.tables import CommandTable, load_tables

TABLES = "tpuc_bm1684x.isa"
TAG_BIT, OFFSET_BITS = 36, 35
"""Position of the tag in a DDR address, and the width of the offset from its base."""

PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        "vendor": Profile(
            "the cost of each command in the vendor's kernel library, equal for all of 100,000 random commands; not "
            "measured on a board",
            FIRST,
        )
    }
)
"""Timing models of BM1684X."""


@dataclass(frozen=True, eq=False)
class Target:
    """One chip. `tables`: the package with the bit layouts of its commands, and the initial static memory.

    `eu_bytes`: what a lane processes per cycle, and the unit of the aligned layout. `packing`: input channels that a
    convolution multiplies per cycle, by bytes per element; filters are stored in pieces of as many.
    `pixels`: results per lane and cycle of a matrix product, by bytes per element.

    `ddr_tags`: DDR addresses in commands name one of this many areas, each with a base that the runtime sets; 0 where
    they are absolute.

    `file_chip`: its name in files. `address_modes`: those of its files that are simulated.

    `profiles`: the timing models, the default first. `shared_profile`: the one for work beside other cores.

    `cores`: with engines, local and static memory of their own; DDR is common.

    `has_ids`: commands carry their number; without it the engines count. `states_signs`: a field states whether an
    integer result is signed; otherwise it follows from the operands. `has_registers`: parameters beyond the fields of a
    command are in registers, among them the zero point of a convolution's filter. `has_compact_records`: a
    requantization table has two words per channel without gaps, instead of three words in 64 bytes. `shifts_pools`:
    depthwise and pooling commands shift 8-bit results. `adds_narrow_products`: multiplication with addition takes
    16-bit floats. `has_ends_of_roots`: roots and quotients of zero and infinity are those of IEEE 754.
    """

    name: str
    tables: str
    lanes: int
    lane_bytes: int
    eu_bytes: int
    bank_bytes: int
    packing: Mapping[int, int]
    pixels: Mapping[int, int]
    smem_bytes: int
    l2_bytes: int
    lmem_base: int
    smem_base: int
    l2_base: int
    ddr_base: int
    ddr_end: int
    profiles: Mapping[str, Profile]
    cores: int = 1
    shared_profile: str = ""
    ddr_tags: int = 0
    file_chip: str = "BM1684X"
    address_modes: tuple[int, ...] = (0, 1)
    clock_hz: int = 1_000_000_000
    has_ids: bool = True
    states_signs: bool = False
    has_registers: bool = False
    has_compact_records: bool = False
    shifts_pools: bool = True
    adds_narrow_products: bool = True
    has_ends_of_roots: bool = False

    @cached_property
    def rates(self) -> Rates:
        """What transfers cost in the default timing model."""
        return next(iter(self.profiles.values())).rates

    @cached_property
    def layouts(self) -> Mapping[str, CommandTable]:
        """The bit layouts of all commands by name."""
        return load_tables(self.tables)

    @property
    def lmem_bytes(self) -> int:
        """Bytes of all lanes together."""
        return self.lanes * self.lane_bytes

    def vector(self, item_bytes: int) -> int:
        """Elements per lane and cycle."""
        return self.eu_bytes // item_bytes

    def slots_of(self, lane: int, channels: int) -> int:
        """Channel groups that `channels` channels occupy from lane `lane` on."""
        return -(-(lane + channels) // self.lanes)

    def in_lmem(self, address: int) -> bool:
        """True for a DMA address in local memory."""
        return self.lmem_base <= address < self.lmem_base + self.lmem_bytes

    def split(self, address: int) -> tuple[int, int]:
        """Tag and offset of a DDR address that has a tag."""
        return address >> TAG_BIT & (self.ddr_tags - 1), address & ((1 << OFFSET_BITS) - 1)

    def format_address(self, address: int) -> str:
        """Format a local address: `3:0x100` for byte 0x100 of lane 3, `0x100` for lane 0."""
        lane, offset = divmod(address, self.lane_bytes)
        return f"{lane}:{offset:#x}" if lane else f"{offset:#x}"

    def format_dma(self, address: int) -> str:
        """Format a DMA address: `lmem:3:0x100`, or the plain number for other memories."""
        local = self.in_lmem(address)
        return f"lmem:{self.format_address(address - self.lmem_base)}" if local else f"{address:#x}"


BM1684X = Target(
    "bm1684x",
    TABLES,
    lanes=geometry.LANES,
    lane_bytes=geometry.LANE_BYTES,
    eu_bytes=geometry.EU_BYTES,
    bank_bytes=geometry.BANK_BYTES,
    packing=MappingProxyType({1: 64, 2: 32, 4: 1}),
    pixels=MappingProxyType({1: 4, 2: 4, 4: 16}),
    smem_bytes=geometry.SMEM_BYTES,
    l2_bytes=geometry.L2_BYTES,
    lmem_base=geometry.LMEM_BASE,
    smem_base=geometry.SMEM_BASE,
    l2_base=geometry.L2_BASE,
    ddr_base=geometry.DDR_BASE,
    ddr_end=geometry.DDR_END,
    profiles=PROFILES,
)
"""64 lanes of 256 KiB, one core."""
