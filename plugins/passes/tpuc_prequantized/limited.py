"""Keep the limits of pre-quantized values that become floats: saturation is part of their meaning.

A quantizer folds a relu into the lowest integer, and percentile calibration clips outliers. Symmetric integers reach
equally far on both sides of 0, and some lowerings pass on the integers of their operands.
"""

from __future__ import annotations

from collections.abc import Collection, MutableMapping

from tpuc.api import Location, Module, NetworkInput, Op, Operation, TensorType, Uniform, Value, Wants, free_name
from tpuc_lower.lowering.cells import Cells
from tpuc_ops import top
from tpuc_ops.quantized import KeepsScale
from tpuc_ops.traits import MovesElements

from tpuc_prequantized.casts import is_within
from tpuc_prequantized.common import computed_values


def keep_limits(
    module: Module, kept: Collection[Value], modes: MutableMapping[str, str], cells: Cells | None
) -> set[Value]:
    """Add a Clip after every stated value, except the `kept` ones, that may exceed its limits; return the clipped
    values. `modes` of operations follow renames, since a Clip takes over the name of the value. `cells` tell which
    inputs are read as floats.
    """
    clipped: set[Value] = set()
    names = {value.name for value in computed_values(module)}
    for value in list(computed_values(module)):
        operation, element = value.defining, value.tensor.element
        if operation is None or not isinstance(element, Uniform) or value in kept:
            continue
        low, high = ((bound - element.zero_point) * element.scale for bound in element.bounds)
        if _is_symmetric_input(operation, element, module, cells) or _is_within(value, element, low, high):
            continue
        if operation.op == top.MulConst(const_val=1.0):
            operation.op = top.Clip(min=low, max=high)
            continue
        is_input = isinstance(operation.op, NetworkInput)
        name = free_name(f"{value.name}_{'clipped' if is_input else 'unclipped'}", names.__contains__)
        names.add(name)
        own = value.name
        if not is_input:
            operation.location = Location(tuple(name if one == own else one for one in operation.location.names))
            if own in modes:
                modes[name] = modes[own]
        location = Location((name if is_input else own,))
        clip = Operation(top.Clip(min=low, max=high), [value], [value.tensor], location)
        value.replace_with(clip.result)
        clip.set_operand(0, value)
        assert operation.block is not None
        operation.block.insert_after(operation, clip)
        clipped.add(value)
    return clipped


def _is_symmetric_input(operation: Operation, element: Uniform, module: Module, cells: Cells | None) -> bool:
    """True for a cast from floats to integers that reach equally far on both sides of 0, to within a step. Casts
    saturate.
    """
    low, high = (bound - element.zero_point for bound in element.bounds)
    even = isinstance(operation.op, NetworkInput) and (abs(high + low) <= 1 or low == 0)
    return even and (cells is None or _is_read_stored(operation.result, module, cells))


def _is_read_stored(value: Value, module: Module, cells: Cells) -> bool:
    """True if all readers, directly or after moves, take the integers of the mode."""
    for user, index in value.uses:
        if isinstance(user.op, MovesElements):
            if not all(_is_read_stored(result, module, cells) for result in user.results):
                return False
            continue
        mode = cells.mode_of(user)
        rule = cells.lowering(user.op, mode)
        if rule is None or mode != cells.mode:
            return False
        if rule.requires(cells.node(module, user, mode))[index] is not Wants.MODE:
            return False
    return True


def _is_within(value: Value, element: Uniform, low: float, high: float) -> bool:
    """True if its op cannot exceed these limits by more than half a step, or its operands have the same limits."""
    operation = value.defining
    assert operation is not None
    operands = [one for one in operation.operands if not one.is_constant and isinstance(one.type, TensorType)]
    types = [operand.tensor for operand in operands]
    if _is_between(operation.op) and types and all(type_.element == element for type_ in types):
        return True
    return is_within(value, low - element.scale / 2, high + element.scale / 2)


def _is_between(op: Op) -> bool:
    """True if its results lie between the smallest and the largest operand."""
    return isinstance(op, (KeepsScale, top.AvgPool))
