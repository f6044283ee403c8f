"""JSON Schemas of the files that commands write and read, for editors and programs of other people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

NAMES = ("network", "report", "memory-plan", "tpuc-toml")
"""Of the schemas."""


def schema(name: str) -> Mapping[str, Any]:
    """A schema by its name."""
    return json.loads(files(__name__).joinpath(f"{name}.json").read_text(encoding="utf-8"))
