"""Softmax: in the runtime at the end of a network, on the chip elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import (
    BF16,
    F32,
    Calibrated,
    Lowering,
    LoweringBuilder,
    LoweringNode,
    Return,
    ScalarType,
    Uniform,
    Value,
    Wants,
)
from tpuc_chip_parts.lowering import is_stated
from tpuc_ops import top, tpu
from tpuc_ops.integers import without_point, zero_point
from tpuc_ops.shapes import positive_axis

from tpuc_cv18.kernels.byte_softmax import byte_softmax_refusal
from tpuc_cv18.lowerings.casts import cast
from tpuc_cv18.lowerings.factors import stored_steps
from tpuc_cv18.lowerings.table import TABLE
from tpuc_cv18.operands import MAX_EXTENT

_LOWEST_BYTE = -128
_BYTES = Uniform(ScalarType("u8"), F32, 1.0)
_ENDS = (Return, top.Permute, top.DetectionOutput)
"""Ops that may follow the last softmax of a network; the CPU also executes the last of them."""


@TABLE.lowers(top.Softmax, "bf16", "int8")
class SoftmaxFloat(Lowering[top.Softmax]):
    """The last softmax of a network runs in f32 in the runtime: 8 bits cannot represent the tail of a distribution over
    many classes. A softmax read by other ops is computed in bf16 on the chip, which then need not wait for the CPU;
    so are logarithms. Prequantized bytes use tables, whose rounding error is far below a step.
    """

    def takes_zero_points(self, node: LoweringNode) -> bool:
        return _has_table(node) or not zero_point(node.result_type)

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        if _has_table(node):
            return (Wants.MODE,)
        return (Wants.AS_IS if zero_point(node.operand_types[0]) else Wants.FLOAT,)

    def refuse(self, node: LoweringNode) -> str | None:
        return (
            "the runtime computes a softmax only at the end of a network"
            if _stays_on_chip(node) and not _has_table(node)
            else None
        )

    def lower(self, node: LoweringNode[top.Softmax], build: LoweringBuilder) -> Sequence[Value]:
        if _has_table(node):
            return [_by_table(node, build)]
        lowered = tpu.Softmax(axis=node.op.axis, beta=node.op.beta, log=node.op.log)
        (value,) = node.operands
        if value.tensor.is_quantized and value.tensor.storage.is_unsigned:
            value = cast(value, value.tensor.shape_only().with_element(F32), f"{node.name}_floats", build)
        elif value.tensor.is_quantized:
            value = _floats(value, node, build)
        return [build(lowered, [value], value.tensor.at(None))]


def _floats(value: Value, node: LoweringNode, build: LoweringBuilder) -> Value:
    """Integers with a zero point as floats shifted by a constant, to which softmax is invariant."""
    plain = without_point(value.tensor).at(None)
    moved = build(tpu.Reshape(shape=plain.dims), [value], plain, f"{node.name}_moved")
    return cast(moved, plain.shape_only().with_element(F32), f"{node.name}_floats", build)


def _stays_on_chip(node: LoweringNode[top.Softmax]) -> bool:
    dims = node.operand_types[0].dims
    if dims[positive_axis(node.op.axis, len(dims))] > MAX_EXTENT:
        return False
    return not all(isinstance(user, _ENDS) for user in node.users) or node.op.log or node.op.beta != 1.0


def _has_table(node: LoweringNode[top.Softmax]) -> bool:
    """True for prequantized bytes, or for an operand that was prequantized and lost its zero point."""
    has_bytes = isinstance(node.operand_types[0].element, (Uniform, Calibrated))
    if node.mode != "int8" or not (has_bytes and is_stated(node)):
        return False
    dims = node.operand_types[0].dims
    is_short = byte_softmax_refusal(dims[positive_axis(node.op.axis, len(dims))], log=node.op.log) is None
    if not is_short or node.op.beta <= 0:
        return False
    # The runtime rounds to signed bytes without a zero point; other results need a bf16 product.
    return _stays_on_chip(node) or node.result_type.storage.is_unsigned or zero_point(node.result_type) != 0


def _by_table(node: LoweringNode[top.Softmax], build: LoweringBuilder) -> Value:
    """Softmax, or its logarithm, in steps of the result."""
    (value,), result = node.operands, node.quantized_result_type()
    powers = np.exp(-np.arange(256) * (node.op.beta * value.tensor.uniform.scale)).astype(np.float32)
    table = build.weight("powers", powers.reshape(1, 1, 1, 256), "f32")
    op = tpu.Softmax(axis=node.op.axis, beta=node.op.beta, log=node.op.log, factor=1.0 / result.uniform.scale)
    shares = build(op, [value, table], result.with_element(BF16).at(None), f"{node.name}_shares")
    if node.op.log or zero_point(result) != _LOWEST_BYTE:
        return stored_steps(shares, result, node.name, build)
    whole = stored_steps(shares, result.with_element(_BYTES), f"{node.name}_bytes", build)
    moved = tpu.AddConst(const_val=float(_LOWEST_BYTE))
    plain = without_point(result).at(None)
    whole = build(moved, [whole], plain, f"{node.name}_turned")
    return build(tpu.Reshape(shape=result.dims), [whole], result, node.name)
