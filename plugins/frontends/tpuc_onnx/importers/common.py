"""The table, and what several families of importers share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc.api import ForeignNode, ImportBuilder, ImporterTable, Op, Value
from tpuc_ops import top

Array: TypeAlias = npt.NDArray[Any]
Shape: TypeAlias = tuple[int, ...]

TABLE = ImporterTable("onnx", "top")


def constant_input(node: ForeignNode, build: ImportBuilder, index: int, meaning: str) -> Array | None:
    """An operand that must be constant; None when it is absent."""
    if index >= len(node.inputs) or not node.inputs[index]:
        return None
    array = build.constant(node.inputs[index])
    if array is None:
        raise build.refuse(
            node, f"{meaning} is computed at run time (tensor '{node.inputs[index]}'), and must be a constant"
        )
    return array


def required_constant(node: ForeignNode, build: ImportBuilder, index: int, meaning: str) -> Array:
    """An operand that must be there and be constant."""
    array = constant_input(node, build, index, meaning)
    if array is None:
        raise build.refuse(node, f"{meaning} is missing")
    return array


def integers(array: Array | Sequence[int]) -> Shape:
    """A constant as plain numbers."""
    return tuple(int(item) for item in np.asarray(array).reshape(-1))


def axes_of(node: ForeignNode, build: ImportBuilder, index: int) -> Shape | None:
    """The axes from the attribute (old opsets) or from operand `index` (new ones); None when there are none."""
    if "axes" in node.attributes:
        return integers(node.attributes["axes"])
    array = constant_input(node, build, index, "the list of axes")
    return None if array is None else integers(array)


def optional_value(node: ForeignNode, build: ImportBuilder, index: int) -> Value:
    """An operand that may be missing."""
    return build.value(node.inputs[index]) if index < len(node.inputs) else build.none()


def reshape(build: ImportBuilder, value: Value, shape: Sequence[int], name: str) -> Value:
    """`value` in another shape; itself when it has that shape already."""
    if value.tensor.dims == tuple(shape):
        return value
    if not shape:  # an empty list of extents means that the declared type says them
        return build.build(top.Reshape(), [value], name, [value.tensor.with_shape(())])
    return build.build(top.Reshape(shape=tuple(shape)), [value], name)


def permute(build: ImportBuilder, value: Value, order: Sequence[int], name: str) -> Value:
    """`value` with its axes in another order; itself when the order is the same."""
    if tuple(order) == tuple(range(len(order))):
        return value
    return build.build(top.Permute(order=tuple(order)), [value], name)


def aligned(node: ForeignNode, build: ImportBuilder, index: int) -> Value:
    """An operand; a constant gets the rank of the result, as chips align dimensions from the front."""
    name = node.inputs[index]
    array, rank = build.constant(name), len(build.shape(node.outputs[0]))
    if array is None or array.ndim == rank:
        return build.value(name)
    return build.weight(name, array.reshape((1,) * (rank - array.ndim) + array.shape))


def scalar_operand(node: ForeignNode, build: ImportBuilder) -> tuple[int, float] | None:
    """Position and number of the operand that is a constant of one element, when there are two operands."""
    if len(node.inputs) != 2:
        return None
    for index in (1, 0):
        array = build.constant(node.inputs[index])
        if array is not None and array.size == 1:
            return index, float(array.reshape(()))
    return None


def with_number(node: ForeignNode, build: ImportBuilder, op: Op, index: int) -> Value:
    """`op` on operand `index`; a scalar of higher rank adds dimensions to the result."""
    name, shape = node.outputs[0], build.shape(node.outputs[0])
    value = build.value(node.inputs[index])
    if value.tensor.dims == shape:
        return build.build(op, [value], name)
    return reshape(build, build.build(op, [value], f"{name}_flat"), shape, name)


def is_integer(elem_type: str) -> bool:
    """Does an ONNX element type, in small letters, hold whole numbers?"""
    return elem_type.startswith(("int", "uint"))


def cut_towards_zero(value: Value, name: str, elem_type: str, build: ImportBuilder) -> Value:
    """A quotient as integers of `elem_type` have it."""
    if elem_type.startswith("u"):
        return build.build(top.Floor(), [value], name)
    whole = build.build(top.Floor(), [build.build(top.Abs(), [value], f"{name}_size")], f"{name}_whole")
    return build.build(top.Mul(), [whole, build.build(top.Sign(), [value], f"{name}_sign")], name)
