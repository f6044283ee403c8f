"""Products of two tensors with zero points in prequantized networks: bf16 from tables."""

from __future__ import annotations

import numpy as np
from tpuc.api import BF16, F32, LoweringBuilder, LoweringNode, ScalarType, TensorType, Uniform, Value, numpy_dtype
from tpuc_chip_parts.lowering import is_stated
from tpuc_ops import top, tpu
from tpuc_ops.integers import zero_point
from tpuc_ops.quant.arithmetic import dequantize

from tpuc_cv18.lowerings.common import as_bf16


def multiplies_two(node: LoweringNode[top.Mul]) -> bool:
    """True for a product of two stored tensors in a prequantized network."""
    types = node.operand_types
    computed = len(types) == 2 and all(constant is None for constant in node.constants)
    return computed and is_stated(node) and all(type_.is_quantized for type_ in types)


def has_points(node: LoweringNode[top.Mul]) -> bool:
    """True when a stored operand or their product has a zero point."""
    if len(node.operands) != 2 or any(constant is not None for constant in node.constants):
        return False
    types = (*(value.tensor for value in node.operands), node.quantized_result_type())
    return all(type_.is_quantized for type_ in types) and any(zero_point(type_) for type_ in types)


def product_by_tables(node: LoweringNode[top.Mul], build: LoweringBuilder) -> Value:
    """Multiply the first operand in its own steps, which bf16 represents exactly, by the second in steps of the result
    per step of the first; then add the result's zero point.
    """
    op, result = node.op, node.quantized_result_type()
    own = node.operands[0].tensor.uniform.scale
    factors = [
        steps_by_table(value, own / result.uniform.scale if index else 1.0 / own, f"{node.name}_factor{index}", build)
        for index, value in enumerate(node.operands)
    ]
    limit = op.relu_limit / result.uniform.scale if op.relu_limit > 0 else op.relu_limit
    wide = result.with_element(BF16).at(None)
    product = tpu.Mul(do_relu=op.do_relu, relu_limit=limit)
    value = build(product, factors, wide, f"{node.name}_product")
    return stored_steps(value, result, node.name, build)


def steps_by_table(value: Value, factor: float, name: str, build: LoweringBuilder, offset: float = 0.0) -> Value:
    """The real values of bytes times a factor, as bf16."""
    type_: TensorType = value.tensor
    every = np.arange(256, dtype=np.uint8).view(numpy_dtype(type_.storage))
    real = dequantize(every, type_.uniform.scale, type_.uniform.zero_point).astype(np.float64) * factor + offset
    table = build.weight(f"{name}_table", as_bf16(real.reshape(1, 1, 1, 256)), "bf16")
    return build(tpu.Lut(), [value, table], type_.shape_only().with_element(BF16), name)


def stored_steps(
    value: Value, result: TensorType, name: str, build: LoweringBuilder, origin: float | None = None
) -> Value:
    """Convert floats that count steps from a type's zero point to bytes of that type, called `name`."""
    origin = float(zero_point(result)) if origin is None else origin
    if origin:
        moved = tpu.AddConst(const_val=origin)
        value = build(moved, [value], result.with_element(BF16).at(None), f"{name}_moved")
    whole = Uniform(ScalarType("u8" if result.storage.is_unsigned else "i8"), F32, 1.0)
    cast = tpu.Cast(in_half=True, round_mode="HalfToEven")
    value = build(cast, [value], result.with_element(whole).at(None), f"{name}_whole")
    return build(tpu.Reshape(shape=result.dims), [value], result, name)
