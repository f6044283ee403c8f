"""The layers of a network in order, and the values that each reads."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from tpuc.api import (
    ArrayAttr,
    Calibrated,
    Constant,
    ElementType,
    IntegerAttr,
    Module,
    Operation,
    Return,
    TensorType,
    Uniform,
    UniformPerAxis,
    Value,
)


@dataclass(frozen=True)
class Layer:
    """One op: `operands` and `name` are names of values; weights are omitted from `operands`. `resident`: the operands
    that the planner left in local memory.
    """

    name: str
    op: str
    shape: str
    element: str
    operands: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...]
    resident: tuple[str, ...] = ()


def layers_of(module: Module) -> list[Layer]:
    """Return the ops that compute a tensor, in order."""
    found: list[Layer] = []
    for operation in module.main.operations:
        if isinstance(operation.op, (Constant, Return)):
            continue
        attributes = tuple(_attributes(operation.op))
        operands = tuple(dict.fromkeys(value.name for value in operation.operands if _is_computed(value)))
        resident = tuple(operation.operands[index].name for index in _resident_in(operation))
        for result in operation.results:
            if isinstance(result.type, TensorType):
                shape = "x".join(map(str, result.type.dims)) or "scalar"
                element = element_text(result.type.element)
                found.append(Layer(result.name, operation.op.name, shape, element, operands, attributes, resident))
    return found


def element_text(element: ElementType) -> str:
    """Describe how values are stored."""
    match element:
        case Calibrated(expressed=expressed, minimum=minimum, maximum=maximum):
            return f"{expressed} in {minimum:.6g} to {maximum:.6g}"
        case Uniform(storage=storage, scale=scale, zero_point=zero_point):
            return f"{storage}, scale {scale:.6g}, zero point {zero_point}"
        case UniformPerAxis(storage=storage, axis=axis):
            return f"{storage}, a scale for each index of axis {axis}"
        case _:
            return str(element)


def _attributes(op: Any) -> list[tuple[str, str]]:
    fields = dataclasses.fields(op) if dataclasses.is_dataclass(op) else ()
    return [(field.name, str(getattr(op, field.name))) for field in fields]


def _resident_in(operation: Operation) -> list[int]:
    """Return the operands that a planned module finds in local memory."""
    stated = operation.extra_attributes.get("resident_in")
    values = stated.items if isinstance(stated, ArrayAttr) else ()
    found = (value.value for value in values if isinstance(value, IntegerAttr))
    return [index for index in found if index < len(operation.operands)]


def _is_computed(value: Value) -> bool:
    if not isinstance(value.type, TensorType):
        return False
    return value.defining is not None and not isinstance(value.defining.op, Constant)
