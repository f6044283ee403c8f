"""The CV182x, CV181x and CV180x chip definitions; sources: ISA notes in README.md."""

from __future__ import annotations

from collections.abc import Mapping

from tpuc.api import FrameAlignment
from tpuc_cv18.base import Cv18Chip
from tpuc_cv18.isa.tables import read_layouts
from tpuc_cv18.isa.target import Profile, Target

from tpuc_cv18xx.maixpy import MaixChip

ESTIMATED_BYTES_PER_SECOND = 1886_000_000 * 4
"""A 32-bit bus at 1886 MT/s, which the vendor's estimator assumes for every chip."""
_LAYOUTS = read_layouts("tpuc_cv18xx")


def _profiles(board_rate: int, board: str) -> Mapping[str, Profile]:
    """The two timing models of a chip, with a board's memory bandwidth and with that of the vendor's estimator. They
    rarely disagree about plans, so plans are made for the board only.
    """
    return {
        "board": Profile(
            f"the vendor's rules with the memory bandwidth of {board} and the transfer start-up cycles of a CV1835; "
            "not measured on a board",
            board_rate,
            counts_starts=True,
        ),
        "vendor": Profile(
            "rules and constants of the vendor's open estimator, with bf16 counted as bf16; not measured on a board",
            ESTIMATED_BYTES_PER_SECOND,
            is_planned=False,
        ),
    }


def _target(
    name: str, lanes: int, clock_hz: int, record_magic: int, number: int | None, memory: tuple[int, str]
) -> Target:
    return Target(
        name,
        lanes=lanes,
        clock_hz=clock_hz,
        record_magic=record_magic,
        number=number,
        layouts=_LAYOUTS,
        profiles=_profiles(*memory),
        largest_insert=14,
        largest_stride=31,
        gmem_start=0,
        has_channel_sums=False,
        has_comparisons=True,
        has_lookup_bit=False,
        has_float_pads=False,
        dilates_per_channel=False,
        frame_alignment=FrameAlignment(64, 64),
    )


_DDR3 = (3_732_000_000, "16 bits at 1866 MT/s (Duo S; the width is a guess)")
_DDR2 = (2_666_000_000, "16 bits at 1333 MT/s (Duo; a guess)")
CV182X = _target("cv182x", 8, 750_000_000, 0xA6, 0x1822, _DDR3)
CV181X = _target("cv181x", 8, 500_000_000, 0xA7, None, _DDR3)
CV180X = _target("cv180x", 2, 500_000_000, 0xA8, None, _DDR2)

CV182X_CHIP, CV181X_CHIP, CV180X_CHIP = Cv18Chip(CV182X), MaixChip(CV181X), Cv18Chip(CV180X)
