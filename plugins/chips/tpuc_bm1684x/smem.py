"""Static memory as the firmware initializes it: series coefficients read by vendor programs (command_stream.md)."""

from __future__ import annotations

import functools
import json
from importlib import resources

import numpy as np

from tpuc_bm1684x.isa.target import Target
from tpuc_bm1684x.isa.types import Array


def initial_smem(target: Target) -> Array:
    """A new copy of the initial contents: the tables of the chip's `data/smem.json`, zero elsewhere."""
    return _contents(target.tables, target.smem_bytes).copy()


@functools.cache
def _contents(package: str, size: int) -> Array:
    memory = np.zeros(size, np.uint8)
    text = resources.files(package).joinpath("data", "smem.json").read_text(encoding="utf-8")
    for table in json.loads(text):
        data = bytes.fromhex(table["bytes"])
        offset = int(table["offset"], 16)
        memory[offset : offset + len(data)] = np.frombuffer(data, np.uint8)
    return memory
