"""Readers are found by the suffixes of image files."""

from __future__ import annotations

from tpuc.registry import Registry
from tpuc_images.reader import READER, SUFFIXES


def test_every_suffix_has_the_reader() -> None:
    registry = Registry()
    ours = {f".{row.name}" for row in registry.describe("tpuc.readers") if row.package == "tpuc"}
    assert ours == SUFFIXES
    assert {registry.get("tpuc.readers", suffix[1:]) for suffix in SUFFIXES} == {READER}
