"""A board: which chip is on it, and how much memory its networks get."""

from __future__ import annotations

from tpuc_driver.api.board import Board

KIT = Board("The kit", "cv181x", 24 * 2**20, "share of memory that the kit's manual leaves to networks")
