"""The vendor's clock, asked for the commands as they are written: without strides where a command has none.

Some transfers cost something else then, and the clock's own calls always state strides.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from tpuc.api import Instruction
from tpuc_bm1684x.isa import ChannelBroadcast, TransposeNC

STRIDES = 2
"""The last arguments of a transfer before its element type: of the destination, then of the source."""
TOLD_APART = (ChannelBroadcast, TransposeNC)
"""What costs something else without strides."""


def vendor_clock(folder: Path) -> Any:
    """The module of the clock, in the folder of oracle tools."""
    sys.path.insert(0, str(folder))
    try:
        module, calls = (importlib.import_module(name) for name in ("vendor_clock", "vendor_calls"))
    finally:
        sys.path.remove(str(folder))

    def call_of(instruction: Instruction) -> Any:
        call = calls.call_of(instruction)
        if call is None or not isinstance(instruction, TOLD_APART) or instruction.source_strides is not None:
            return call
        name, arguments = call
        return name, [*arguments[: -STRIDES - 1], *(None,) * STRIDES, arguments[-1]]

    def essence(instruction: Instruction) -> Any:
        is_plain = isinstance(instruction, TOLD_APART) and instruction.source_strides is None
        return is_plain, calls.essence(instruction)

    module.call_of, module.essence = call_of, essence
    return module
