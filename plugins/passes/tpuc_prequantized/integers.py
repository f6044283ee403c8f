"""Let ops between casts compute on the integers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from tpuc.api import NoneType, Op, Operation, Pattern, Rewriter, Uniform, UniformPerAxis, Value, numpy_dtype
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.quant.arithmetic import dequantize
from tpuc_ops.quant.casts import Dequantize, Quantize, parameters, scales_of
from tpuc_ops.quantized import ComputesIntegers, KeepsScale, Product, Rescales
from tpuc_optimize.canonicalization.common import Names, is_output, sole_producer
from tpuc_optimize.canonicalization.relu import ReluIntoProducer

from tpuc_prequantized.casts import NEAREST, is_weight

BIAS = 2
"""Position of the bias of a product; its scale is that of the sums."""


class ComputeIntegers(Pattern):
    """An op with dequantized operands and a result that is only quantized computes on integers."""

    matches = (Quantize,)

    def __init__(self, names: Names) -> None:
        self._names = names

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        value, target = operation.operands[0], operation.result.tensor
        producer = value.defining
        if producer is None or not isinstance(producer.op, ComputesIntegers) or len(producer.results) > 1:
            return False
        if len(value.uses) > 1 or not isinstance(target.element, Uniform):
            return False
        found = [_stored(producer, index) for index in range(len(producer.operands))]
        operands = [value for value in found if value is not None]
        if len(operands) < len(found) or all(_is_constant(value) for value in operands):
            return False
        types = tuple(value.tensor for value in operands if not isinstance(value.type, NoneType))
        if not producer.op.takes_integers(types, target.element):
            return False
        if isinstance(producer.op, KeepsScale):
            operands = [self._in_scale(rewriter, value, target.element) for value in operands]
        if isinstance(producer.op, Product):
            bias = _stored_bias(rewriter, producer.op, operands)
            if bias is None:
                return False
            if bias.size:
                name = self._names.new(f"{operands[BIAS].name}_i32")
                operands = [*operands[:BIAS], rewriter.weight(name, bias, "i32")]
        op = _rounding_to_even(producer.op)
        rewriter.replace(operation, rewriter.build(op, operands, target, operation.name))
        return True

    def _in_scale(self, rewriter: Rewriter, value: Value, element: Uniform) -> Value:
        if isinstance(value.type, NoneType) or value.tensor.element == element:
            return value
        name = self._names.new(f"{value.name}_rescaled")
        if is_weight(value):  # chips rescale no constants, and what an op keeps is rounded once
            real = dequantize(rewriter.module.weights[value.name], *parameters(value.tensor)).astype(np.float32)
            return rewriter.weight(name, _rounded(real, element), element)
        return rewriter.build(NEAREST, [value], value.tensor.with_element(element), name)


class ReluIntoIntegers(Pattern):
    """A relu between values of one scale is fused into the op before it."""

    matches = (top.Relu,)

    def __init__(self, names: Names) -> None:
        self._fuse = ReluIntoProducer(names)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        type_ = operation.operands[0].tensor
        if not type_.is_quantized or type_.element != operation.result.tensor.element:
            return False
        producer = sole_producer(operation)
        if producer is None or is_output(operation.operands[0]):
            return False
        return self._fuse.rewrite(operation, rewriter)


def _rounding_to_even(op: Op) -> Op:
    """The op with rounding half to even; ops with exact sums or without rounding stay."""
    return dataclasses.replace(op, round_mode="HalfToEven") if isinstance(op, Rescales) else op


def _rounded(real: Array, element: Uniform) -> Array:
    """The integers as QuantizeLinear gives them."""
    whole = np.rint(real / np.float32(element.scale)) + element.zero_point
    return np.clip(whole, *element.bounds).astype(numpy_dtype(element.storage))


def _stored(operation: Operation, index: int) -> Value | None:
    """The integers of an operand, or an operand that needs none; None where the operand is a float."""
    value = operation.operands[index]
    if isinstance(value.type, NoneType):
        return value
    is_bias = isinstance(operation.op, Product) and index == BIAS
    if is_weight(value):
        return value if is_bias and not value.tensor.is_quantized else None
    before = value.defining
    if is_bias or before is None or not isinstance(before.op, Dequantize):
        return None
    return before.operands[0]


def _stored_bias(rewriter: Rewriter, op: Product, operands: Sequence[Value]) -> Array | None:
    """The bias in integer steps of the sums, empty when there is none; None where it exceeds 32 bits."""
    if len(operands) <= BIAS or isinstance(operands[BIAS].type, NoneType):
        return np.empty(0, np.int32)
    source, filters, bias = operands
    element = filters.tensor.element
    assert isinstance(element, (Uniform, UniformPerAxis))
    scale = scales_of(op.of_outputs(element)) * source.tensor.uniform.scale
    steps = np.rint(rewriter.module.weights[bias.name].reshape(-1).astype(np.float64) / scale)
    return steps.astype(np.int32) if np.abs(steps).max(initial=0) < 1 << 31 else None


def _is_constant(value: Value) -> bool:
    return isinstance(value.type, NoneType) or is_weight(value)
