"""The parameters of CV186x and BM1688; sources: ISA notes in README.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from tpuc_bm1684x.isa.rates import Profile, second
from tpuc_bm1684x.isa.target import TAG_BIT, Target

TAGGED = 1 << 39
"""Set in DMA addresses outside local memory."""
WEIGHTS, ACTIVATIONS, TAGS = 1, 2, 8
"""Tags of addresses: weights, activations, and how many there are. The vendor's compiler gives inputs and outputs tags
of their own; here they lie among the activations, so that one output may be part of another.
"""


def tagged(tag: int) -> int:
    """The address of the first byte behind the base of a tag."""
    return TAGGED | tag << TAG_BIT


PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        "vendor": Profile(
            "the cost of each command in the vendor's kernel library, with its default of 24 GB/s of memory; equal for "
            "more than 99.5 % of random commands; not measured on a board",
            second(24e9),
        ),
        "shared": Profile(
            "the same with 15 GB/s of memory, which the vendor's compiler states in layer groups and for work that two "
            "cores share; not measured on a board",
            second(15e9),
        ),
    }
)
"""Timing models."""

CV186X = Target(
    "cv186x",
    "tpuc_bm1688",
    lanes=32,
    lane_bytes=0x2_0000,
    eu_bytes=16,
    bank_bytes=0x2000,
    packing=MappingProxyType({1: 32, 2: 16, 4: 1}),
    pixels=MappingProxyType({1: 4, 2: 2, 4: 4}),
    smem_bytes=0xC000,
    l2_bytes=0,
    lmem_base=0,
    smem_base=0,
    l2_base=0,
    ddr_base=TAGGED,
    ddr_end=TAGGED << 1,
    ddr_tags=TAGS,
    file_chip="CV186X",
    address_modes=(2,),
    clock_hz=900_000_000,
    profiles=PROFILES,
    has_ids=False,
    states_signs=True,
    has_registers=True,
    has_compact_records=True,
    shifts_pools=False,
    adds_narrow_products=False,
    has_ends_of_roots=True,
)
"""32 lanes of 128 KiB, one core."""

BM1688 = replace(CV186X, name="bm1688", file_chip="BM1688", cores=2, shared_profile="shared")
"""The same core, twice."""
