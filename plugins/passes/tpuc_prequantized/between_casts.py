"""Ops between casts of a pre-quantized network that a chip computes from the integers of their operands."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tpuc.api import ABSENT, LoweringNode, Module, NetworkInput, NoneType, Operation, TensorType, Uniform, Value
from tpuc_lower.lowering.cells import Cells, is_kept
from tpuc_ops.quant.casts import Dequantize, Quantize


def computed_from_integers(module: Module, cells: Cells) -> set[str]:
    """Names of ops with dequantized operands and requantized results, where the chip's integer cell preserves the
    stated types on both sides.
    """
    return {operation.name for operation in module.main.operations[:-1] if _is_one(operation, module, cells)}


def _is_one(operation: Operation, module: Module, cells: Cells) -> bool:
    if is_kept(operation) or isinstance(operation.op, (NetworkInput, Quantize, Dequantize)):
        return False
    cell, node = cells.lowering(operation.op, cells.mode), _stated(operation, module, cells)
    return cell is not None and node is not None and cell.refuse(node) is None and cell.takes_zero_points(node)


def _stated(operation: Operation, module: Module, cells: Cells) -> LoweringNode | None:
    """The operation with the surrounding integers as its types; None where there are other values."""
    if len(operation.results) != 1:
        return None
    operands = list(_integers_behind(operation))
    result = operation.result
    casts = {user.result.tensor.element if isinstance(user.op, Quantize) else None for user in result.users}
    if None in operands or len(casts) != 1 or not isinstance(element := casts.pop(), Uniform):
        return None
    types = tuple(type_ for type_ in operands if type_ is not None)
    node = cells.node(module, operation, cells.mode)
    return dataclasses.replace(node, operand_types=types, result_types=(result.tensor.with_element(element),))


def _integers_behind(operation: Operation) -> Iterator[TensorType | None]:
    """The types of its operands before a cast, and those of constants unchanged; None for other floats."""
    for operand in operation.operands:
        if isinstance(operand.type, NoneType):
            yield ABSENT
        elif operand.is_constant:
            yield None if operand.tensor.is_quantized else operand.tensor
        else:
            yield _before_cast(operand)


def _before_cast(value: Value) -> TensorType | None:
    made = value.defining
    stored = made.operands[0] if made is not None and isinstance(made.op, Dequantize) else value
    return stored.tensor if isinstance(stored.tensor.element, Uniform) and not stored.is_constant else None
