"""The target of a compiled file: a board, and a version of its runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tpuc.api import LoadedModel
from tpuc_driver.api.board import Board, shown_bytes, shown_size

from tpuc_check.findings import BOARD, Finding

_LEFT = 1.5
"""A file must fit so many times for a quick plan to show that it fits."""


@dataclass(frozen=True)
class Destination:
    """As far as the user named them. `full`: its sizes are to be those of `tpuc compile`."""

    board: Board | None = None
    runtime_version: str | None = None
    full: bool = False

    def wrong_chip(self, chip: str) -> list[Finding]:
        """That the board has another chip, if it has."""
        reason = None if self.board is None else self.board.refuses_chip(chip)
        if self.board is None or reason is None:
            return []
        return [Finding(BOARD, (), "", reason, f"Compile it with --chip {self.board.chip}")]

    def findings(self, chip: str, loaded: LoadedModel) -> list[Finding]:
        """Why a file of a chip does not run there."""
        return [*self.wrong_chip(chip), *self._too_large(loaded), *self._too_new(loaded)]

    def _too_large(self, loaded: LoadedModel) -> Iterator[Finding]:
        needed = sum(loaded.device_bytes.values())
        reason = None if self.board is None else self.board.refuses_size(needed)
        if self.board is not None and reason is not None:
            way_out = f"Use a smaller network or fewer bits, or reserve more memory: {self.board.note}"
            yield Finding(BOARD, (), "", f"{reason} ({shown_bytes(loaded.device_bytes)})", way_out)

    def _too_new(self, loaded: LoadedModel) -> Iterator[Finding]:
        reason = None if self.runtime_version is None else loaded.refused_by(self.runtime_version)
        if reason is not None:
            way_out = f"Compile it with --runtime-version {self.runtime_version}, or install a newer runtime"
            yield Finding(BOARD, (), "", reason, way_out)

    def has_room(self, loaded: LoadedModel) -> bool:
        """Does a file that uses less of local memory than it could fit with certainty? Its commands may become more."""
        return self.board is None or _LEFT * sum(loaded.device_bytes.values()) <= self.board.device_bytes

    def summary(self, device_bytes: Mapping[str, int], *, exact: bool = True) -> str:
        """What a file takes of the board, as the end of a sentence; empty where there is no board or nothing known."""
        if self.board is None or not device_bytes:
            return ""
        needed, there = shown_size(sum(device_bytes.values())), shown_size(self.board.device_bytes)
        used = f"{'' if exact else 'about '}{needed} of the {there} of {self.board.title}"
        return f"; it uses {used}: {shown_bytes(device_bytes)}"

    def to_json(self, device_bytes: Mapping[str, int]) -> dict[str, Any]:
        """Plain values."""
        return {
            "board": None if self.board is None else self.board.title,
            "board_bytes": None if self.board is None else self.board.device_bytes,
            "runtime_version": self.runtime_version,
            "device_bytes": dict(device_bytes),
        }
