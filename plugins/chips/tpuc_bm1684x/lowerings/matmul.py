"""Matrix products of two computed tensors."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from tpuc.api import F32, LoweringBuilder, LoweringNode, TensorType, Value
from tpuc_ops import top, tpu
from tpuc_ops.quant.arithmetic import decompose_search

from tpuc_bm1684x.lowerings.common import float_weight, has_zero_points


def lower_computed(node: LoweringNode[top.MatMul], build: LoweringBuilder) -> Sequence[Value]:
    """Multiply matrix by matrix. Two computed integer operands without zero points stay integers; others become
    floats.
    """
    op = node.op
    values, result = _operands(node, build)
    left, right = values
    right, right_transpose = _rows_of(build, right, op.right_transpose, node.name)
    dims = result.dims
    for_left, for_right = _shapes(node)
    if right_transpose != op.right_transpose:
        for_right = (*for_right[:-2], for_right[-1], for_right[-2])
    left = _reshaped(build, left, for_left, f"{node.name}_left")
    right = _reshaped(build, right, for_right, f"{node.name}_right")
    shape = (*max(for_left[:-2], for_right[:-2], key=math.prod), for_left[-2], dims[-1])
    bias = node.constants[2] if len(node.constants) > 2 else None
    lowered = tpu.MatMul(right_transpose=right_transpose)
    if bias is None:
        lowered = dataclasses.replace(lowered, do_relu=op.do_relu, relu_limit=op.relu_limit)
    if result.is_quantized:
        factor = left.tensor.uniform.scale * right.tensor.uniform.scale / result.uniform.scale
        multiplier, shift = decompose_search(factor)
        lowered = dataclasses.replace(lowered, multipliers=(multiplier,), rshifts=(shift,), round_mode="HalfUp")
    plain = shape == dims
    name = node.name if plain and bias is None else f"{node.name}_product"
    value = build(lowered, [left, right, *[build.none()] * 3], result.with_shape(shape).at(None), name)
    if not plain:
        value = _reshaped(build, value, dims, node.name if bias is None else f"{node.name}_shaped")
    if bias is None:
        return [value]
    added = float_weight(build, "bias", bias.reshape(-1), result.storage.name)
    return [build(tpu.Add(do_relu=op.do_relu, relu_limit=op.relu_limit), [value, added], result)]


def _rows_of(build: LoweringBuilder, right: Value, transposed: bool, name: str) -> tuple[Value, bool]:
    """The right operand, and whether its matrices are transposed. Where a permutation moves its contiguous dimension to
    the rows, the product reads the matrices the other way round, and the dimension stays contiguous.
    """
    source = right.defining
    if source is None or not isinstance(source.op, tpu.Permute):
        return right, transposed
    *outer, rows, columns = source.op.order
    x = source.operands[0]
    if rows != x.tensor.rank - 1 or x.tensor.rank < 3:
        return right, transposed
    order = (*outer, columns, rows)
    if order == tuple(range(len(order))):
        return x, not transposed
    type_ = right.tensor.with_shape(tuple(x.tensor.dims[axis] for axis in order))
    return build(tpu.Permute(order=order), [x], type_.at(None), f"{name}_rows"), not transposed


def _shapes(node: LoweringNode) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Extents of both operands in the product. With a single right matrix, all rows of the left operand form one
    matrix. A single left matrix multiplies every right one.
    """
    left, right = (type_.dims for type_ in node.operand_types[:2])
    if math.prod(right[:-2]) > 1:
        return (*(1,) * (len(right) - len(left)), *left), right
    return (1, math.prod(left[:-1]), left[-1]), (1, *right[-2:])


def _operands(node: LoweringNode, build: LoweringBuilder) -> tuple[tuple[Value, Value], TensorType]:
    """Both operands in one element type, and the type of the result."""
    pairs = list(zip(node.operands[:2], node.constants[:2], strict=True))
    computed = [value for value, constant in pairs if constant is None]
    quantized = [value.tensor for value in computed if value.tensor.is_quantized]
    with_bias = len(node.constants) > 2 and node.constants[2] is not None
    if len(quantized) == 2 and not with_bias:
        result = node.quantized_result_type()
        if not has_zero_points(*quantized):
            return (node.operands[0], node.operands[1]), result
    result = node.float_result_type()
    values: list[Value] = []
    for index, (value, constant) in enumerate(pairs):
        if constant is not None:
            value = float_weight(build, f"operand{index}", constant.reshape(_shapes(node)[index]), result.storage.name)
        elif value.tensor.is_quantized:
            wide = value.tensor.with_element(F32).at(None)
            value = build(tpu.Cast(with_scale=True), [value], wide, f"{node.name}_operand{index}")
        values.append(value)
    return (values[0], values[1]), result


def _reshaped(build: LoweringBuilder, value: Value, dims: tuple[int, ...], name: str) -> Value:
    if value.tensor.dims == dims:
        return value
    return build(tpu.Reshape(shape=dims), [value], value.tensor.with_shape(dims).at(None), name)
