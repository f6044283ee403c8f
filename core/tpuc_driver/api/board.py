"""Boards: the chip on each, and the memory available to networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

KIB, MIB = 1 << 10, 1 << 20


def shown_size(size: int) -> str:
    """A size in bytes as text: `29 KiB`, `5.28 MiB`."""
    return f"{size / MIB:.2f} MiB" if size >= MIB else f"{size / KIB:.0f} KiB"


def shown_bytes(device_bytes: Mapping[str, int]) -> str:
    """`weights 3.95 MiB, commands 92 KiB`."""
    return ", ".join(f"{name} {shown_size(size)}" for name, size in device_bytes.items())


@dataclass(frozen=True)
class Board:
    """A board, registered by name in `tpuc.boards`. `title` is its usual name, `chip` the one to compile for.

    `device_bytes`: the memory in which the chip's runtime allocates networks, as reserved by the board's images. `note`
    states the source of that figure and what else uses the memory, in one sentence.
    """

    api_version: ClassVar[int] = 1
    title: str
    chip: str
    device_bytes: int
    note: str

    def refuses_chip(self, chip: str) -> str | None:
        """Why a file for a chip does not run here, in a sentence without a full stop; None for the board's chip."""
        if chip == self.chip:
            return None
        return f"{self.title} has a {self.chip}, but the file is compiled for {chip}"

    def refuses_size(self, needed: int) -> str | None:
        """Why a file that allocates this many bytes does not run here, likewise."""
        if needed <= self.device_bytes:
            return None
        return (
            f"{self.title} reserves {shown_size(self.device_bytes)} for networks, but this one needs "
            f"{shown_size(needed)}"
        )
