"""The casts of MLIR's `quant` dialect, between expressed values, quantized values, and plain storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Node, Op, RoundMode, TensorType, Types, Uniform, UniformPerAxis, numpy_dtype

from tpuc_ops.arrays import Array, stored
from tpuc_ops.quant.arithmetic import Rounding, dequantize, quantize_float
from tpuc_ops.quant.tflite import rescale


@dataclass(frozen=True)
class Quantize(Op):
    """Quantize floats to the declared type: ``round(x / scale) + zero point``, saturated.

    Without `round_mode`, halves are rounded away from zero. With HalfToEven the quotient is a float32, as in ONNX's
    QuantizeLinear, otherwise a float64. Integers of another scale are requantized: in TFLite's fixed point if halves
    are rounded away from zero, otherwise through floats.
    """

    name = "quant.qcast"
    round_mode: RoundMode | None = None

    def rounding(self) -> Rounding:
        """Return the rounding mode of quotients."""
        return Rounding(self.round_mode or "HalfAwayFromZero")

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        source, rounding, x = node.operand_types[0].element, self.rounding(), operands[0]
        if isinstance(source, Uniform) and rounding is not Rounding.HALF_AWAY_FROM_ZERO:
            x = dequantize(x, source.scale, source.zero_point)
        elif isinstance(source, Uniform):
            target = node.result_type.uniform
            return [rescale(x, source, target, target.bounds)]
        scale, zero_point = parameters(node.result_type)
        dtype = numpy_dtype(node.result_type.storage)
        if rounding is Rounding.HALF_TO_EVEN:
            x, scale = np.asarray(x, np.float32) / np.asarray(scale, np.float32), 1.0
        q = quantize_float(x, scale, zero_point, rounding, dtype)
        element = node.result_type.element
        return [np.clip(q, *element.bounds) if isinstance(element, Uniform) else q]


@dataclass(frozen=True)
class Dequantize(Op):
    """Dequantize integers: ``(q - zero point) * scale``."""

    name = "quant.dcast"

    def infer(self, operands: Types) -> Types:
        (q,) = operands
        return (q.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        scale, zero_point = parameters(node.operand_types[0])
        return [stored(dequantize(operands[0], scale, zero_point), node.result_type)]


@dataclass(frozen=True)
class StorageCast(Op):
    """Reinterpret integers as a quantized type or as its plain storage."""

    name = "quant.scast"

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [operands[0]]


def scales_of(element: Uniform | UniformPerAxis) -> Array:
    """Return the scale, or the scales of all channels, as an array."""
    return np.asarray(element.scales if isinstance(element, UniformPerAxis) else [element.scale])


def parameters(type: TensorType) -> tuple[Array, Array]:
    """Return scales and zero points of a quantized type, shaped to broadcast with the tensor; raises ValueError for
    other types.
    """
    match type.element:
        case Uniform(scale=scale, zero_point=zero_point):
            return np.asarray(scale), np.asarray(zero_point)
        case UniformPerAxis(axis=axis, scales=scales, zero_points=zero_points):
            shape = [1] * type.rank
            shape[axis] = -1
            return np.reshape(scales, shape), np.reshape(zero_points, shape)
        case element:
            raise ValueError(f"a quantized type is needed, this one stores {element}")
