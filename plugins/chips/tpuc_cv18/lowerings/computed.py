"""Products of two computed tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import BF16, LoweringBuilder, LoweringNode, Op, TensorType, Value
from tpuc_chip_parts.lowering import result_with_sign
from tpuc_ops import top, tpu

from tpuc_cv18.isa.geometry import EU_BYTES, round_up
from tpuc_cv18.kernels.batched import spread, steps_of
from tpuc_cv18.lowerings.casts import cast
from tpuc_cv18.lowerings.common import QDM, as_bf16, decompose_qdm

_AWKWARD = 3
"""Minimum ratio of work at which padding and slicing pay off."""


def is_computed(node: LoweringNode) -> bool:
    """True unless the right operand is one constant matrix in plain form."""
    right = node.constants[1]
    return right is None or right.ndim != 2 or node.op.left_transpose or node.op.output_transpose


def computed_refusal(node: LoweringNode) -> str | None:
    """The refusal of products of computed tensors, None if the node is supported."""
    if node.op.hdim_is_batch:
        return "hdim_is_batch has no kernel; permute the operands so that batches come first"
    if any(len(type_.dims) < 2 for type_ in node.operand_types[:2]):
        return "two matrices, one operand is a vector"
    return None


def lower_computed(node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
    """Multiply matrix by matrix, transposing operands before and the result after. Integers stay integers when the
    product's scale is below the result's and nothing is constant; otherwise bf16 is used.
    """
    product = _Product(node, build)
    return [product.value()]


class _Product:
    """The inner ops of one node."""

    def __init__(self, node: LoweringNode, build: LoweringBuilder) -> None:
        self.node, self.build, self.op = node, build, node.op
        self.bias = node.constants[2] if len(node.constants) > 2 else None
        self.factor: float | None = None
        self.result = node.result_type.shape_only().with_element(BF16)
        types = [value.tensor for value in node.operands[:2]]
        has_constant = any(constant is not None for constant in node.constants)
        if node.mode != "int8" or has_constant or not all(type_.is_quantized for type_ in types):
            return
        # The chip computes unsigned products from unsigned operands only.
        unsigned = all(type_.storage.is_unsigned for type_ in types)
        result = result_with_sign(node, unsigned=True) if unsigned else node.quantized_result_type()
        factor = types[0].uniform.scale * types[1].uniform.scale / result.uniform.scale
        if factor < 1.0:
            self.factor, self.result = factor, result

    def value(self) -> Value:
        """The result."""
        op: top.MatMul = self.op
        left, right = self._together(
            self._operand(0, op.left_transpose, "left_turned"), self._operand(1, op.right_transpose, "right_turned")
        )
        columns = right.tensor.dims[-1]
        right = self._widened(right)
        shape = (*left.tensor.dims[:-1], columns)
        whole = (*shape[:-1], right.tensor.dims[-1])
        lowered = tpu.MatMul() if self.bias is not None else tpu.MatMul(do_relu=op.do_relu, relu_limit=op.relu_limit)
        if self.factor is not None:
            multiplier, shift = decompose_qdm(self.factor)
            fields: dict[str, Any] = {"multipliers": (multiplier,), "rshifts": (shift,), **QDM}
            lowered = tpu.MatMul(do_relu=op.do_relu, relu_limit=op.relu_limit, **fields)
        type_ = self.result.with_shape(whole).at(None)
        dims = self.node.result_type.dims
        plain = whole == dims and self.bias is None and not op.output_transpose
        name = self.node.name if plain else f"{self.node.name}_product"
        value = self.build(lowered, [left, right, *(self.build.none() for _ in range(3))], type_, name)
        if plain:
            return value
        if whole != shape:
            cut = tpu.Slice(offset=(0,) * len(shape), steps=(1,) * len(shape), ends=shape)
            value = self._step(cut, value, shape, "cut")
        if op.output_transpose and self.bias is not None:  # one element per column before the transposition
            value = self._with_bias(value, f"{self.node.name}_biased")
            return self.build(tpu.Reshape(shape=dims), [self._transposed(value, "turned")], self.result, self.node.name)
        if op.output_transpose:
            value = self._transposed(value, "turned")
        if self.bias is None:
            return self.build(tpu.Reshape(shape=dims), [value], self.result, self.node.name)
        return self._with_bias(self._reshaped(value, dims, "shaped"), self.node.name)

    def _with_bias(self, value: Value, name: str) -> Value:
        assert self.bias is not None
        added = self.build.weight("bias_bf16", as_bf16(self.bias.reshape(-1)), "bf16")
        type_ = self.result if name == self.node.name else value.tensor.at(None)
        return self.build(tpu.Add(do_relu=self.op.do_relu, relu_limit=self.op.relu_limit), [value, added], type_, name)

    def _operand(self, index: int, transposed: bool, suffix: str) -> Value:
        """An operand in the form that the product needs; a constant is broadcast to the other operand's batches."""
        constant, value = self.node.constants[index], self.node.operands[index]
        if constant is not None:
            constant = constant.swapaxes(-1, -2) if transposed else constant
            other = self.node.operand_types[1 - index].dims[:-2]
            dims = (*np.broadcast_shapes(constant.shape[:-2], other), *constant.shape[-2:])
            dims = dims if len(dims) > 2 else (1, *dims)
            spread = np.ascontiguousarray(np.broadcast_to(constant, dims))
            return self.build.weight(f"operand{index}_bf16", as_bf16(spread), "bf16")
        if self.factor is None and value.tensor.storage != BF16:
            wanted = value.tensor.shape_only().with_element(BF16)
            value = cast(value, wanted, f"{self.node.name}_operand{index}", self.build)
        return self._transposed(value, suffix) if transposed else value

    def _widened(self, right: Value) -> Value:
        """The right operand with zero columns appended, where its own column count distributes poorly over the
        lanes.
        """
        *rest, columns = right.tensor.dims
        vector = EU_BYTES * 8 // right.tensor.storage.bits
        wide = round_up(columns, vector)
        assert self.node.chip is not None
        lanes = self.node.chip.lanes
        own, better = (steps_of(spread(extent, EU_BYTES // vector, lanes), vector, lanes) for extent in (columns, wide))
        if self.node.constants[1] is not None or own < _AWKWARD * better:
            return right
        pad = tpu.Pad(paddings=(*(0,) * (2 * len(rest) + 1), wide - columns))
        return self._step(pad, right, (*rest, wide), "widened")

    def _transposed(self, value: Value, suffix: str) -> Value:
        *batch, rows, columns = value.tensor.dims
        order = (*range(len(batch)), len(batch) + 1, len(batch))
        return self._step(tpu.Permute(order=order), value, (*batch, columns, rows), suffix)

    def _together(self, left: Value, right: Value) -> tuple[Value, Value]:
        """Both operands with equal batches: a single right matrix multiplies all rows; otherwise extents of 1 are
        repeated.
        """
        rows, columns = left.tensor.dims, right.tensor.dims
        if math.prod(columns[:-2]) == 1 and self.node.constants[0] is None:
            left = self._reshaped(left, (1, math.prod(rows[:-1]), rows[-1]), "left")
            return left, self._reshaped(right, (1, *columns[-2:]), "right")
        batch = np.broadcast_shapes(rows[:-2], columns[:-2])
        return self._repeated(left, batch, "left"), self._repeated(right, batch, "right")

    def _repeated(self, value: Value, batch: tuple[int, ...], suffix: str) -> Value:
        dims = value.tensor.dims
        value = self._reshaped(value, (1,) * (len(batch) + 2 - len(dims)) + dims, f"{suffix}_rank")
        for axis, count in enumerate(batch):
            dims = value.tensor.dims
            if dims[axis] != count:
                wanted = (*dims[:axis], count, *dims[axis + 1 :])
                name = f"{self.node.name}_{suffix}_axis{axis}"
                type_ = value.tensor.with_shape(wanted).at(None)
                value = self.build(tpu.Concat(axis=axis), [value] * count, type_, name)
        return value

    def _reshaped(self, value: Value, dims: tuple[int, ...], suffix: str) -> Value:
        return value if value.tensor.dims == dims else self._step(tpu.Reshape(shape=dims), value, dims, suffix)

    def _step(self, op: Op, value: Value, dims: tuple[int, ...], suffix: str) -> Value:
        type_: TensorType = value.tensor.with_shape(dims).at(None)
        return self.build(op, [value], type_, f"{self.node.name}_{suffix}")
