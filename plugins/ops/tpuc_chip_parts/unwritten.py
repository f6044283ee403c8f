"""Find reads of memory that nothing has written: local memory, and activations in DDR."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from tpuc.api import DecodedStreams, IllegalCommand, Region, show_region

if TYPE_CHECKING:
    from tpuc_ops.arrays import Array

LMEM = "lmem"
_PAGE = 1 << 16
"""Bytes of DDR that are marked together."""


class Written:
    """Which bytes of each memory are written. Local memory belongs to a core, the `spaces` of DDR to all of them.

    `given`: regions of DDR that hold data from the start.
    """

    def __init__(self, lanes: int, lane_bytes: int, spaces: Collection[str], given: Sequence[Region]) -> None:
        self._size = (lanes, lane_bytes)
        self._spaces = {LMEM, *spaces}
        self._given = given
        self._local: dict[int, Array] = {}
        self._pages: dict[int, Array] = {}
        for region in given:
            self.mark(region)

    def run(self, part: DecodedStreams, where: str) -> None:
        """Mark what a part writes; raises IllegalCommand for the first command that reads what nothing has written."""
        for command in part.order:
            instruction = command.instruction
            reads, writes = ([*self._of(regions)] for regions in (instruction.reads(), instruction.writes()))
            if reads == writes:
                continue  # in place: the bytes are as good as before, and whoever uses them is named
            for region in reads:
                if self._lacks(region, part.core):
                    raise IllegalCommand(
                        f"{where}: {command.engine.label} command {command.number} ({instruction.mnemonic()}) reads "
                        f"{show_region(region)}, but nothing has written all of that; write it before"
                    )
            for region in writes:
                self.mark(region, part.core)

    def mark(self, region: Region, core: int = 0) -> None:
        """Mark the bytes of a region as written."""
        for page, lanes, places in self._places(region, core):
            page[lanes, places] = True

    def _of(self, regions: Sequence[Region]) -> Iterator[Region]:
        return (region for region in regions if region.space in self._spaces)

    def _lacks(self, region: Region, core: int) -> bool:
        """True if any byte of a region is unwritten."""
        if any(
            one.space == region.space and one.start <= region.start and region.end <= one.end for one in self._given
        ):
            return False
        return any(not page[lanes, places].all() for page, lanes, places in self._places(region, core))

    def _places(self, region: Region, core: int) -> Iterator[tuple[Array, slice, Array]]:
        """Yield marks, and the lanes and bytes of a region in them."""
        for piece in region.pieces():
            places = (piece.starts()[:, None] + np.arange(piece.run, dtype=np.int64)).reshape(-1)
            if region.space == LMEM:
                if core not in self._local:
                    self._local[core] = np.zeros(self._size, bool)
                yield self._local[core], slice(piece.first_lane, piece.end_lane), places
                continue
            numbers = places // _PAGE
            for number in np.unique(numbers):
                if int(number) not in self._pages:
                    self._pages[int(number)] = np.zeros((1, _PAGE), bool)
                yield self._pages[int(number)], slice(0, 1), places[numbers == number] - number * _PAGE
