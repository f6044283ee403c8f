"""The importer table, and code shared by several families of importers."""

from __future__ import annotations

from typing import TypeAlias

from tpuc.api import ForeignNode, ImportBuilder, ImporterTable, Op, Value
from tpuc_importing.operands import constant_input, integers, reshape

Shape: TypeAlias = tuple[int, ...]

TABLE = ImporterTable("onnx", "top")


def axes_of(node: ForeignNode, build: ImportBuilder, index: int) -> Shape | None:
    """Return the axes from the attribute (old opsets) or from operand `index` (new ones); None if absent."""
    if "axes" in node.attributes:
        return integers(node.attributes["axes"])
    array = constant_input(node, build, index, "the list of axes")
    return None if array is None else integers(array)


def aligned(node: ForeignNode, build: ImportBuilder, index: int) -> Value:
    """Return an operand; a constant gets the rank of the result, because chips align dimensions from the front."""
    name = node.inputs[index]
    array, rank = build.constant(name), len(build.shape(node.outputs[0]))
    if array is None or array.ndim == rank:
        return build.value(name)
    return build.weight(name, array.reshape((1,) * (rank - array.ndim) + array.shape))


def with_number(node: ForeignNode, build: ImportBuilder, op: Op, index: int) -> Value:
    """Apply `op` to operand `index`; a scalar of higher rank adds dimensions to the result."""
    name, shape = node.outputs[0], build.shape(node.outputs[0])
    value = build.value(node.inputs[index])
    if value.tensor.dims == shape:
        return build.build(op, [value], name)
    return reshape(build, build.build(op, [value], f"{name}_flat"), shape, name)


def is_integer(elem_type: str) -> bool:
    """True for ONNX element types, in lower case, that hold integers."""
    return elem_type.startswith(("int", "uint"))
