"""Inputs of a pre-quantized network that may be passed as quantized integers."""

from __future__ import annotations

from dataclasses import replace

from tpuc.api import (
    STORED_INPUTS,
    Location,
    Module,
    Operation,
    PassContext,
    RoundMode,
    Uniform,
    Value,
    free_name,
)
from tpuc_ops import top
from tpuc_ops.quant.casts import Dequantize, Quantize

from tpuc_prequantized.common import network_inputs


def given_as_stored(module: Module, context: PassContext) -> dict[Value, RoundMode | None]:
    """Inputs that may be passed quantized, and the network's rounding: it only quantizes them."""
    inputs = network_inputs(module)
    chosen = context.find(STORED_INPUTS, frozenset(range(len(inputs))))
    found: dict[Value, RoundMode | None] = {}
    for position, operation in enumerate(inputs):
        value, users = operation.result, operation.result.users
        if position not in chosen:
            continue
        if value.tensor.is_quantized:
            if not any(isinstance(user.op, Dequantize) for user in users):
                found[value] = None
        elif len(casts := {(user.op, user.result.tensor.element) for user in users}) == 1:
            ((op, _),) = casts
            if isinstance(op, Quantize):
                found[value] = op.round_mode
    return found


def keep_own_type(operation: Operation, kept: dict[Value, Uniform], module: Module) -> Uniform:
    """Give an input the integers of the network's file; where the ops that read it need others, a product with 1 makes
    them.
    """
    value, block = operation.result, operation.block
    own, wanted = value.tensor.uniform, kept[value]
    if own == wanted or block is None:
        return wanted
    names = {name for one in module.main.operations for name in one.location.names}
    name = free_name(f"{value.name}_{wanted.storage}", names.__contains__)
    moved = Operation(top.MulConst(const_val=1.0), [value], [value.tensor], Location((name,)))
    value.replace_with(moved.result)
    moved.set_operand(0, value)
    block.insert_after(operation, moved)
    kept[value], kept[moved.result] = own, wanted
    return own


def take_integers(
    operation: Operation, element: Uniform, round_mode: RoundMode | None, module: Module, context: PassContext
) -> None:
    """Change the input's type to integers."""
    argument = operation.operands[0]
    argument.type = argument.tensor.with_element(element)
    if isinstance(operation.op, top.Input):
        operation.op = replace(operation.op, round_mode=round_mode)
    context.remark(
        f"{module.name}: input '{operation.name}' takes {element.storage}, scale {element.scale:.9g}, zero point "
        f"{element.zero_point}, as the network quantizes it; with --float-input the file takes floats"
    )
