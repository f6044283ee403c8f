"""Chips that a file of tests needs; where one is not installed, the file is left out."""

from __future__ import annotations

import pytest
from tpuc.api import Chip
from tpuc.registry import Registry


def needed(name: str) -> Chip:
    """The chip of this name, or a skip of the whole file that asks for it while it is imported."""
    registry = Registry()
    if not registry.has("tpuc.chips", name):
        pytest.skip(f"needs the chip {name}", allow_module_level=True)
    return registry.get("tpuc.chips", name)
