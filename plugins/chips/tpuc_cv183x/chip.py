"""The CV183x chip definition; sources: ISA notes in docs/chips/cv183x.md."""

from __future__ import annotations

from tpuc.api import FrameAlignment
from tpuc_cv18.base import Cv18Chip
from tpuc_cv18.isa.tables import read_layouts
from tpuc_cv18.isa.target import Profile, Target

DDR_BYTES_PER_SECOND = 1886_000_000 * 4
"""A 32-bit bus at 1886 MT/s, for every chip (chip.md)."""
PROFILES = {
    "vendor": Profile(
        "rules of the vendor's open estimator, within 3 % of the figures that the vendor's compiler prints for its "
        "files; not measured on a board",
        DDR_BYTES_PER_SECOND,
    ),
    "measured": Profile(
        "convolutions and transfers fitted to a public trace of ResNet-50 on a CV1835, the rest as in 'vendor'; "
        "copies differ from 'vendor' by up to a factor of 1.8",
        DDR_BYTES_PER_SECOND,
        is_measured=True,
    ),
}
"""Timing models, with the source and certainty of their figures."""

CV183X = Target(
    "cv183x",
    lanes=32,
    clock_hz=650_000_000,
    record_magic=0xA5,
    number=0x1835,
    converts_below=2.0**64,
    layouts=read_layouts("tpuc_cv183x"),
    frame_alignment=FrameAlignment(32, 4096),
    profiles=PROFILES,
)
CHIP = Cv18Chip(CV183X)
