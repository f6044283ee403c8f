"""Determine the mode of a module, and whether it needs calibration."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tpuc.api.chip import FLOAT_MODES, Chip
from tpuc.errors import UsageError
from tpuc.ir import Module, Operation, TensorType, Value
from tpuc.ir.attributes import StringAttr
from tpuc.ir.traits import NetworkInput
from tpuc.ir.types import Uniform


def split_mode(mode: str | None) -> tuple[str | None, int]:
    """Return the float mode and the bits of the weights of a mode such as `w4f16`; other modes unchanged, with 0."""
    found = re.fullmatch(r"w([4-8])(f16|bf16)", mode or "")
    return (found[2], int(found[1])) if found else (mode, 0)


def check_mode(chip: Chip, mode: str | None) -> None:
    """Check that the chip has the mode; raises UsageError if not."""
    known, mode = chip.description.modes, split_mode(mode)[0]
    if mode is not None and mode not in known:
        raise UsageError(f"chip '{chip.description.name}' has no mode '{mode}'. Its modes: {', '.join(known)}.")


def needs_calibration(mode: str, module: Module) -> bool:
    """Return whether the mode is an integer mode and the network is not yet quantized."""
    return mode not in FLOAT_MODES and not is_quantized(module)


def is_quantized(module: Module) -> bool:
    """Return whether the network computes values that are already quantized."""
    return stored_bits(module) > 0


def stored_bits(module: Module) -> int:
    """Return the bits of the widest quantized value that the network computes, 0 if there is none."""
    values = (value for operation in _computing(module) for value in operation.results if _is_stored(value))
    return max((value.tensor.storage.bits for value in values), default=0)


def takes_calibration(mode: str, module: Module) -> bool:
    """Return whether the mode is an integer mode and some ops of the network compute in float only."""
    if mode in FLOAT_MODES:
        return False
    return any(not any(map(_is_stored, (*o.operands, *o.results))) for o in _computing(module))


def _computing(module: Module) -> Iterable[Operation]:
    operations = (operation for operation in module.main.operations[:-1] if operation.operands)
    return (operation for operation in operations if not isinstance(operation.op, NetworkInput))


def _is_stored(value: Value) -> bool:
    return isinstance(value.type, TensorType) and isinstance(value.type.element, Uniform)


def compiled_mode(module: Module) -> str:
    """Return the mode of a lowered module; raises UsageError for a module that was not lowered."""
    mode = module.attributes.get("module.mode")
    if not isinstance(mode, StringAttr):
        raise UsageError(
            f"{module.name} was not lowered to a chip's ops: no pass of the pipeline 'lower' does so; correct "
            "[pipelines] in tpuc.toml."
        )
    return mode.value.lower()
