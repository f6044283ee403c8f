"""Matrix products with transposed operands or results, vectors, or broadcasting: rewrite them as plain products."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from tpuc.api import LoweringBuilder, LoweringNode, TensorType, Value
from tpuc_chip_parts.lowering import InnerBuilder
from tpuc_ops import top, tpu
from tpuc_ops.shapes import broadcast as broadcast_shapes

from tpuc_bm1684x.lowerings.common import Array
from tpuc_bm1684x.lowerings.places import reshaped
from tpuc_bm1684x.lowerings.repetition import broadcast

Lower: TypeAlias = "Callable[[LoweringNode, LoweringBuilder], Sequence[Value]]"


def is_transposed(node: LoweringNode[top.MatMul]) -> bool:
    """True when the product is not in plain form."""
    return node.op.left_transpose or node.op.output_transpose or _has_vector(node) or _batches(node) is not None


def _has_vector(node: LoweringNode) -> bool:
    return any(len(type_.dims) < 2 for type_ in node.operand_types[:2])


def _batches(node: LoweringNode) -> tuple[int, ...] | None:
    """The leading dimensions that both operands are broadcast to; None where an operand has a single matrix, which the
    kernels multiply with all of the other operand.
    """
    left, right = ((1,) * (2 - len(type_.dims)) + type_.dims for type_ in node.operand_types[:2])
    for one, other in ((right, left), (left, right)):
        if all(extent == 1 for extent in one[:-2]) and len(one) <= len(other):
            return None
    common = broadcast_shapes(left[:-2], right[:-2])
    return common if (left[:-2], right[:-2]) != (common, common) else None


def lower_transposed(node: LoweringNode[top.MatMul], build: LoweringBuilder, lower: Lower) -> Sequence[Value]:
    """Transpose and broadcast the operands, lower the plain product with `lower`, and transpose the result."""
    op = node.op
    batches = _batches(node)
    sides = [_side(node, build, index, op.left_transpose and index == 0, batches) for index in (0, 1)]
    (left, left_constant), (right, right_constant) = sides
    rows = left.dims[-2]
    columns = right.dims[-2] if op.right_transpose else right.dims[-1]
    product = (*broadcast_shapes(left.dims[:-2], right.dims[:-2]), rows, columns)
    same = product == node.result_type.dims and not op.output_transpose
    name = node.name if same else f"{node.name}_plain"
    plain = dataclasses.replace(
        node,
        op=dataclasses.replace(op, left_transpose=False, output_transpose=False),
        operand_types=(left.type_, right.type_, *node.operand_types[2:]),
        result_types=(node.result_type.with_shape(product),),
        name=name,
        result_names=(name,),
        operands=(left.value, right.value, *node.operands[2:]),
        constants=(left_constant, right_constant, *node.constants[2:]),
    )
    (value,) = lower(plain, build if same else InnerBuilder(build, name))
    if same:
        return [value]
    if not op.output_transpose:
        return [reshaped(build, value, node.result_type.dims, node.name)]
    order = (*range(len(product) - 2), len(product) - 1, len(product) - 2)
    dims = tuple(product[axis] for axis in order)
    last = node.name if dims == node.result_type.dims else f"{node.name}_exchanged"
    value = build(tpu.Permute(order=order), [value], value.tensor.with_shape(dims).at(None), last)
    return [reshaped(build, value, node.result_type.dims, node.name)]


@dataclasses.dataclass(frozen=True)
class _Side:
    """One operand of the plain product: its TOP type and the lowered value."""

    type_: TensorType
    value: Value

    @property
    def dims(self) -> tuple[int, ...]:
        return self.type_.dims


def _side(
    node: LoweringNode, build: LoweringBuilder, index: int, exchanged: bool, batches: tuple[int, ...] | None
) -> tuple[_Side, Array | None]:
    type_, value, constant = node.operand_types[index], node.operands[index], node.constants[index]
    dims = (1,) * (2 - len(type_.dims)) + type_.dims
    transposed = (*dims[:-2], dims[-1], dims[-2]) if exchanged else dims
    whole = transposed if batches is None else (*batches, *transposed[-2:])
    if constant is not None:
        array = constant.reshape(dims)
        array = np.swapaxes(array, -1, -2) if exchanged else array
        array = np.ascontiguousarray(np.broadcast_to(array, whole))
        if array.shape != constant.shape or exchanged:
            value = build.weight(f"operand{index}_plain", array)
        return _Side(type_.with_shape(whole), value), array
    name = f"{node.name}_operand{index}"
    value = reshaped(build, value, dims, f"{name}_matrix")
    if exchanged:
        order = (*range(len(dims) - 2), len(dims) - 1, len(dims) - 2)
        value = build(
            tpu.Permute(order=order), [value], value.tensor.with_shape(transposed).at(None), f"{name}_exchanged"
        )
    if whole != transposed:
        value = broadcast(build, value, whole, name)
    return _Side(type_.with_shape(whole), value), None
