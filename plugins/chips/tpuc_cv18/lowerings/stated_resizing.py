"""Linear Resize of prequantized bytes by arbitrary factors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from tpuc.api import LoweringBuilder, LoweringNode, Uniform, Value
from tpuc_chip_parts.lowering import interpolation_matrix
from tpuc_ops import top, tpu
from tpuc_ops.integers import zero_point

from tpuc_cv18.lowerings.bf16_composer import Bf16Composer
from tpuc_cv18.lowerings.common import Array, as_bf16


def in_steps(node: LoweringNode[top.Interp], build: LoweringBuilder) -> Value:
    """Compute the resize of integers minus their zero point, which bf16 represents exactly, with interpolation weights
    split into two bf16 parts of 16 bits together. The last product is in steps of the result from its zero point,
    and a cast rounds it once more.
    """
    return _Steps(node, build).value()


class _Steps(Bf16Composer):
    def value(self) -> Value:
        op, source, result = self.node.op, self.node.operand_types[0], self.node.quantized_result_type()
        (_, _, h, w), (_, _, rows, columns) = source.dims, result.dims
        factor, value = 1.0 / result.uniform.scale, self.node.operands[0]
        if isinstance(value.tensor.element, Uniform):
            factor, value = factor * value.tensor.element.scale, self.integers()
        else:
            value = self.operand()
        point, values = zero_point(result), [value]
        down, right = (interpolation_matrix(op, *side) for side in ((h, rows, op.scale_h), (w, columns, op.scale_w)))
        if columns != w and rows == h:
            values = self._columns(value, right * factor, point)
        elif columns != w:
            values = self._columns(value, right, 0, keeps_rest=True)
        if rows != h or columns == w:
            values = [self._rows(values, down * factor, point)]
        return self.build(tpu.Cast(with_scale=False, round_mode="HalfToEven"), values, result, self.node.name)

    def _columns(self, value: Value, matrix: Array, point: int, *, keeps_rest: bool = False) -> list[Value]:
        """The product of all image rows with a matrix `[w, columns]`; with `keeps_rest`, also its rounding error."""
        n, c, h, w = value.tensor.dims
        columns, parts = matrix.shape[1], _parts(matrix)
        rows = [self.reshape(value, (1, n * c * h, w))] * len(parts)
        product = self._product(rows, parts, self._point(point, (1, columns)))
        results = [product]
        if keeps_rest:
            one = -np.eye(columns, dtype=np.float32)
            results.append(self._product([*rows, product], [*parts, one], self.build.none()))
        return [self.reshape(one, (n, c, h, columns)) for one in results]

    def _product(self, values: list[Value], parts: list[Array], bias: Value) -> Value:
        """The sum of the products, rounded once."""
        rows, weight = self._joined(values, 2), self.constant(np.concatenate(parts, 0))
        dims = (*rows.tensor.dims[:2], parts[0].shape[1])
        return self.do(tpu.MatMul(), [rows, weight, bias, self.build.none(), self.build.none()], dims)

    def _rows(self, values: list[Value], matrix: Array, point: int) -> Value:
        """A 1x1 convolution of each image with the rows as channels, by a matrix `[h, rows]`. The remainder of the
        values is multiplied only by the larger part of the weights.
        """
        n, c, h, w = values[0].tensor.dims
        parts, rows = _parts(matrix), matrix.shape[1]
        images = [self.reshape(one, (n * c, h, 1, w)) for one in values]
        joined = self._joined([images[0]] * len(parts) + images[1:], 1)
        filters = np.concatenate([*parts, *parts[: len(images) - 1]], 0).T.reshape(rows, -1, 1, 1)
        op = tpu.Conv2D(kernel_shape=(1, 1), with_bias=bool(point))
        operands = [joined, self.constant(filters), self._point(point, (1, rows, 1, 1))]
        return self.reshape(self.do(op, operands, (n * c, rows, 1, w)), (n, c, rows, w))

    def _joined(self, values: list[Value], axis: int) -> Value:
        if len(values) == 1:
            return values[0]
        dims = list(values[0].tensor.dims)
        dims[axis] = sum(value.tensor.dims[axis] for value in values)
        return self.do(tpu.Concat(axis=axis), values, dims)

    def _point(self, point: int, dims: tuple[int, ...]) -> Value:
        if not point:
            return self.build.none()
        return self.build.weight("point_f32", np.full(dims, point, np.float32))


def _parts(matrix: Array) -> list[Array]:
    """The nearest bf16 numbers, and those nearest to the remainder where there is one."""
    near = matrix.astype(ml_dtypes.bfloat16).astype(np.float32)
    rest = matrix - near
    return [near, rest] if as_bf16(rest).any() else [near]
