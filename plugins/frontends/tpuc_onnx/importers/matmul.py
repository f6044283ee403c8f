"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import ForeignNode, Op, ScalarType, Value
from tpuc_importing.operands import permute, reshape
from tpuc_ops import top
from tpuc_ops.quant.casts import Dequantize
from tpuc_ops.weight_only import packed

from tpuc_onnx.building import OnnxBuilder
from tpuc_onnx.importers.common import TABLE


@TABLE.imports("MatMul")
def matmul(node: ForeignNode, build: OnnxBuilder) -> Value:
    """Import a product with numpy's semantics: a vector on the left is a row, one on the right a column."""
    name, shape = node.outputs[0], build.shape(node.outputs[0])
    grouped = _grouped(build, node, turned=False)
    if grouped is not None:
        op, operands = grouped
        left = build.value(node.inputs[0])
        if left.tensor.rank > 1:
            return build.build(op, [left, *operands, build.none()], name)
        left = reshape(build, left, (1, *left.tensor.dims), f"{name}_row")
        return reshape(build, build.build(op, [left, *operands, build.none()], f"{name}_2d"), shape, name)
    left, right = build.value(node.inputs[0]), build.value(node.inputs[1])
    flat = left.tensor.rank == 1 or right.tensor.rank == 1
    if left.tensor.rank == 1:
        left = reshape(build, left, (1, *left.tensor.dims), f"{name}_row")
    if right.tensor.rank == 1:
        right = reshape(build, right, (*right.tensor.dims, 1), f"{name}_column")
    result = build.build(top.MatMul(), [left, right, build.none()], f"{name}_2d" if flat else name)
    return reshape(build, result, shape, name)


@TABLE.imports("Gemm")
def gemm(node: ForeignNode, build: OnnxBuilder) -> Value:
    """Import ``alpha * a @ b + beta * c``; factors and transposition are folded into constants."""
    name, shape = node.outputs[0], build.shape(node.outputs[0])
    op, factors = _gemm_factors(node, build)
    has_summand = len(node.inputs) > 2 and bool(node.inputs[2])
    bias = _bias(node, build, shape[1]) if has_summand else build.none()
    if bias is not None:
        return build.build(op, [*factors, bias], name)
    product = build.build(op, [*factors, build.none()], f"{name}_product")
    return build.build(top.Add(), [product, _summand(node, build)], name)


def _gemm_factors(node: ForeignNode, build: OnnxBuilder) -> tuple[Op, Sequence[Value]]:
    """Return the op of a Gemm and its operands before the bias."""
    is_plain = node.attributes.get("alpha", 1.0) == 1.0 and not node.attributes.get("transA", 0)
    grouped = _grouped(build, node, turned=bool(node.attributes.get("transB", 0))) if is_plain else None
    if grouped is not None:
        op, operands = grouped
        return op, [build.value(node.inputs[0]), *operands]
    left, right, transposed = _factors(node, build)
    return top.MatMul(right_transpose=transposed), [left, right]


def _grouped(build: OnnxBuilder, node: ForeignNode, *, turned: bool) -> tuple[Op, Sequence[Value]] | None:
    """Return the op of a product with integers that share scales in groups, with matrix, scales and zero points; None
    for another right factor, and where the left one is quantized too.
    """
    name = node.inputs[1]
    matrix = build.grouped.get(name)
    if matrix is None or _is_quantized(build.value(node.inputs[0])):
        return None
    stored = (matrix.turned() if turned else matrix).stored()
    if stored is None:
        return None
    op, integers, scale, zp = stored
    weight = build.weight(f"{name}_integers", packed(integers, op.weight_bits), ScalarType("ui8"))
    tables = build.weight(f"{name}_scale", scale), build.weight(f"{name}_zp", zp, ScalarType("ui8"))
    return op, [weight, *tables]


def _is_quantized(value: Value) -> bool:
    """True if a value was dequantized, and perhaps moved."""
    defining = value.defining
    while defining is not None and isinstance(defining.op, (top.Reshape, top.Permute, top.Squeeze, top.Unsqueeze)):
        defining = defining.operands[0].defining
    return defining is not None and isinstance(defining.op, (top.DequantizeLinear, Dequantize))


def _factors(node: ForeignNode, build: OnnxBuilder) -> tuple[Value, Value, bool]:
    """Return both factors, `alpha` folded into one of them, and whether the right one must still be transposed."""
    name, alpha = node.outputs[0], node.attributes.get("alpha", 1.0)
    left = build.value(node.inputs[0])
    array = build.plain_constant(node.inputs[1]) if alpha == 1.0 else build.constant(node.inputs[1])
    transposed = bool(node.attributes.get("transB", 0))
    if node.attributes.get("transA", 0):
        left = permute(build, left, (1, 0), f"{name}_left")
    if array is None:
        if alpha != 1.0:
            left = build.build(top.MulConst(const_val=alpha), [left], f"{name}_alpha")
        return left, build.value(node.inputs[1]), transposed
    if not transposed and alpha == 1.0:
        return left, build.value(node.inputs[1]), False
    matrix = (array.T if transposed else array) * np.float32(alpha)
    return left, build.weight(f"{node.inputs[1]}_matrix", matrix), False


def _bias(node: ForeignNode, build: OnnxBuilder, columns: int) -> Value | None:
    """Return ``beta * c`` as one number per column, None if it is computed or differs by row."""
    array, beta = build.constant(node.inputs[2]), node.attributes.get("beta", 1.0)
    if array is None or (array.ndim == 2 and array.shape[0] > 1):
        return None
    if beta == 1.0 and array.shape == (columns,):
        return build.value(node.inputs[2])
    return build.weight(f"{node.inputs[2]}_bias", np.broadcast_to(array.reshape(-1), (columns,)) * np.float32(beta))


def _summand(node: ForeignNode, build: OnnxBuilder) -> Value:
    """Return ``beta * c`` as a value of the result's rank."""
    name, beta = node.inputs[2], node.attributes.get("beta", 1.0)
    array = build.constant(name)
    if array is not None:
        return build.weight(f"{name}_summand", array * np.float32(beta))
    value = build.value(name)
    value = reshape(build, value, (1,) * (2 - value.tensor.rank) + value.tensor.dims, f"{node.outputs[0]}_row")
    return value if beta == 1.0 else build.build(top.MulConst(const_val=beta), [value], f"{node.outputs[0]}_beta")
