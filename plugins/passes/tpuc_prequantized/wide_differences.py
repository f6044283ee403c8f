"""Compute 16-bit differences of 8-bit values in floats where a network squares them."""

from __future__ import annotations

from tpuc.api import F32, Location, Module, Op, Operation, Value, free_name
from tpuc_ops import top
from tpuc_ops.quant.casts import Dequantize, Quantize
from tpuc_optimize.canonicalization.common import insert_before

from tpuc_prequantized.common import computed_values


def differences_to_floats(module: Module) -> None:
    """Convert such differences and their squares to floats, until the squares are rounded to 8 bits."""
    names = {value.name for value in computed_values(module)}

    def before(anchor: Operation, op: Op, operands: list[Value]) -> Value:
        """A new float value."""
        name = free_name(f"{operands[0].name}_real", names.__contains__)
        names.add(name)
        return insert_before(anchor, Operation(op, operands, [operands[0].tensor.with_element(F32)], Location((name,))))

    for operation in list(module.main.operations):
        if not _widens(operation):
            continue
        for index, operand in enumerate(operation.operands):
            if not operand.is_constant:
                operation.set_operand(index, before(operation, Dequantize(), [operand]))
        difference = operation.result
        difference.type = difference.tensor.with_element(F32)
        for square, _ in list(difference.uses):
            real = before(square, square.op, [difference])
            rounded = Operation(Quantize(), [real], [square.result.tensor], square.location)
            square.result.replace_with(insert_before(square, rounded))
            square.erase()


def _widens(operation: Operation) -> bool:
    """True if it produces 16 bits from 8, for squares only."""
    if not isinstance(operation.op, top.Sub) or not operation.result.tensor.is_quantized:
        return False
    bits = operation.result.tensor.storage.bits
    return all(operand.tensor.storage.bits < bits for operand in operation.operands) and all(
        isinstance(user.op, top.Pow) for user, _ in operation.result.uses
    )
