"""Boards with these chips and the memory that their images reserve for networks; sources: docs/chips/boards.md."""

from __future__ import annotations

from tpuc_driver.api.board import Board

_MIB = 1 << 20

DUO64 = Board(
    "Milk-V Duo (64 MB)",
    "cv180x",
    28_102_656,
    "it is ION_SIZE in memmap.py of the board's SDK; some images have 16 MiB there, and some nothing at all",
)
DUO256 = Board(
    "Milk-V Duo 256M",
    "cv181x",
    75 * _MIB,
    "it is ION_SIZE in memmap.py of the board's SDK, and a camera takes 22 MiB of it",
)
RECAMERA = Board(
    "reCamera",
    "cv181x",
    50 * _MIB,
    "it is ION_SIZE in memmap.py of reCamera OS, 50 or 60 MiB by version, and the camera takes 22 MiB of it",
)
LICHEERV_NANO = Board(
    "LicheeRV Nano",
    "cv181x",
    48 * _MIB,
    "it is ION_SIZE in memmap.py of the board's SDK, 48 or 105 MiB by image",
)
MAIXCAM = Board(
    "MaixCAM",
    "cv181x",
    128 * _MIB,
    "it is ION_SIZE in memmap.py of the board's system, and camera and screen take a part of it",
)
