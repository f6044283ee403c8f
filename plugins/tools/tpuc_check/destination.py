"""The target of a compiled file: a board, and a version of its runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tpuc.api import LoadedModel
from tpuc_driver.api.board import Board, shown_bytes, shown_size

from tpuc_check.findings import BOARD, Finding

_LEFT = 1.5
"""Safety factor: a quickly planned file must fit this many times to show that it fits."""


@dataclass(frozen=True)
class Destination:
    """The target, as far as the user named it. `full`: sizes must be those of `tpuc compile`."""

    board: Board | None = None
    runtime_version: str | None = None
    full: bool = False

    def wrong_chip(self, chip: str) -> list[Finding]:
        """Return a finding if the board has another chip."""
        reason = None if self.board is None else self.board.refuses_chip(chip)
        if self.board is None or reason is None:
            return []
        return [Finding(BOARD, (), "", reason, f"Compile it with --chip {self.board.chip}")]

    def findings(self, chip: str, loaded: LoadedModel) -> list[Finding]:
        """Return the reasons why a file of a chip does not run there."""
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
        """True if a quickly planned file fits with a safety margin, since the final plan may have more commands."""
        return self.board is None or _LEFT * sum(loaded.device_bytes.values()) <= self.board.device_bytes

    def summary(self, device_bytes: Mapping[str, int], *, exact: bool = True) -> str:
        """Return what a file uses of the board, as the end of a sentence; empty without a board or without data."""
        if self.board is None or not device_bytes:
            return ""
        needed, there = shown_size(sum(device_bytes.values())), shown_size(self.board.device_bytes)
        used = f"{'' if exact else 'about '}{needed} of the {there} of {self.board.title}"
        return f"; it uses {used}: {shown_bytes(device_bytes)}"

    def to_json(self, device_bytes: Mapping[str, int]) -> dict[str, Any]:
        """Return plain values."""
        return {
            "board": None if self.board is None else self.board.title,
            "board_bytes": None if self.board is None else self.board.device_bytes,
            "runtime_version": self.runtime_version,
            "device_bytes": dict(device_bytes),
        }
