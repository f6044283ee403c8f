"""A board: which chip is on it, and how much memory its networks get."""

from __future__ import annotations

from tpuc_driver.api.board import Board

KIT = Board("The kit", "cv181x", 24 * 2**20, "the kit's manual leaves so much of its memory to networks")
