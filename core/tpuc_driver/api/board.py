"""Boards: which chip is on one, and how much memory its networks get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

KIB, MIB = 1 << 10, 1 << 20


def shown_size(size: int) -> str:
    """Bytes for people: `29 KiB`, `5.28 MiB`."""
    return f"{size / MIB:.2f} MiB" if size >= MIB else f"{size / KIB:.0f} KiB"


def shown_bytes(device_bytes: Mapping[str, int]) -> str:
    """`weights 3.95 MiB, commands 92 KiB`."""
    return ", ".join(f"{name} {shown_size(size)}" for name, size in device_bytes.items())


@dataclass(frozen=True)
class Board:
    """A board, registered by name in `tpuc.boards`. `title` is what people call it, `chip` the one to compile for.

    `device_bytes`: the memory that the chip's runtime allocates networks in, as images of the board reserve it. `note`
    says in a sentence where that figure is from, and what else lies there.
    """

    api_version: ClassVar[int] = 1
    title: str
    chip: str
    device_bytes: int
    note: str

    def refuses_chip(self, chip: str) -> str | None:
        """Why a file of a chip does not run here, in a sentence without a full stop; None: it is the board's chip."""
        if chip == self.chip:
            return None
        return f"{self.title} has a {self.chip}, and this is compiled for {chip}"

    def refuses_size(self, needed: int) -> str | None:
        """Why a file that allocates so many bytes does not, likewise."""
        if needed <= self.device_bytes:
            return None
        return (
            f"{self.title} reserves {shown_size(self.device_bytes)} for networks, and this one allocates "
            f"{shown_size(needed)}"
        )
