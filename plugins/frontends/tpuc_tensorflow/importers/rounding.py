"""Fake quantization: a cast to integers and back, with which compiled networks compute."""

from __future__ import annotations

import numpy as np
from tpuc.api import F32, ForeignNode, ScalarType, Uniform, UniformPerAxis
from tpuc_importing.operands import required_constant
from tpuc_ops.quant.casts import Dequantize, Quantize
from tpuc_tflite.building import Arranged, Results

from tpuc_tensorflow.evaluation.rounding import Grid, grid_of
from tpuc_tensorflow.importers.building import TensorflowBuilder
from tpuc_tensorflow.importers.common import TABLE

STORED_BITS = 8


@TABLE.imports("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quant(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import fake quantization; bounds are attributes or constant operands, per tensor or per channel (the last
    dimension).
    """
    if node.op_type == "FakeQuantWithMinMaxArgs":
        low, high = (np.array([node.attributes.get(name, value)], np.float32) for name, value in _DEFAULTS)
    else:
        low, high = (required_constant(node, build, index, "a bound") for index in (1, 2))
    bits, narrow = node.attributes.get("num_bits", 8), bool(node.attributes.get("narrow_range", False))
    if bits > STORED_BITS:
        raise build.refuse(node, f"it rounds to {bits} bits, but chips compute with at most {STORED_BITS}")
    grid = grid_of(low, high, bits, narrow)
    order = build.order(node.inputs[0])
    value = build.value(node.inputs[0], order)
    stored = value.tensor.with_element(_element(grid, order))
    whole = build.build(Quantize(round_mode="HalfUp"), [value], f"{node.outputs[0]}/stored", [stored])
    return Arranged(build.build(Dequantize(), [whole], node.outputs[0], [value.tensor]), order)


_DEFAULTS = (("min", -6.0), ("max", 6.0))


def _element(grid: Grid, order: tuple[int, ...]) -> Uniform | UniformPerAxis:
    low, high = (None if grid.low == 0 else grid.low, None if grid.high == 255 else grid.high)
    scales, zeros = np.broadcast_arrays(grid.scale, grid.zero)
    numbers = [float(scale) for scale in scales.reshape(-1)], [int(zero) for zero in zeros.reshape(-1)]
    if scales.size == 1:
        return Uniform(ScalarType("u8"), F32, numbers[0][0], numbers[1][0], low, high)
    axis = order.index(len(order) - 1)
    return UniformPerAxis(ScalarType("u8"), F32, axis, tuple(numbers[0]), tuple(numbers[1]), low, high)
