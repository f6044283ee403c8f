"""Choose signed or unsigned bytes for pre-quantized values by the chip's speed."""

from __future__ import annotations

from dataclasses import replace

from tpuc.api import Module, NetworkInput, ScalarType, Uniform, Value
from tpuc_ops import top

_I8, _U8 = ScalarType("i8"), ScalarType("u8")


def plain_bytes(element: Uniform) -> Uniform:
    """The same numbers as unsigned bytes where 0 is the lowest of them, else as signed ones."""
    lowest = 0 if element.storage.is_unsigned else -128
    return with_sign(element, unsigned=element.zero_point == lowest)


def with_sign(element: Uniform, *, unsigned: bool) -> Uniform:
    """The same numbers as signed or unsigned bytes."""
    if unsigned == element.storage.is_unsigned:
        return element
    move = 128 if unsigned else -128
    low, high = (None if bound is None else bound + move for bound in (element.low, element.high))
    storage = _U8 if unsigned else _I8
    return replace(element, storage=storage, zero_point=element.zero_point + move, low=low, high=high)


def kept_signed(module: Module) -> set[Value]:
    """Values whose signed bytes stay signed: inputs and outputs, which users access as in the network, and operands and
    results of averages, which round them away from 0.
    """
    kept = {*module.main.inputs, *module.main.outputs}
    for operation in module.main.operations:
        if isinstance(operation.op, top.AvgPool):
            kept |= {operation.operands[0], operation.result}
        elif isinstance(operation.op, NetworkInput):
            kept.add(operation.result)
    return kept
