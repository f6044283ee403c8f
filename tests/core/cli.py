"""Runs the command line in this process, with plugins of our own and in a folder of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tpuc.registry import Offer
from tpuc_driver.cli import main


@dataclass(frozen=True)
class Outcome:
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str


@dataclass
class CommandLine:
    """`tpuc` in an empty folder."""

    folder: Path
    capture: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch

    def __call__(self, *arguments: str) -> Outcome:
        self.capture.readouterr()
        code = main(arguments)
        out, err = self.capture.readouterr()
        return Outcome(code, out, err)

    def install(self, *offers: Offer) -> None:
        """Let these be all the plugins there are."""
        self.patch.setattr("tpuc.registry.registry.installed_offers", lambda: offers)

    def file(self, name: str, text: str = "") -> Path:
        """A file in the folder."""
        path = self.folder / name
        path.write_text(text, "utf-8")
        return path
