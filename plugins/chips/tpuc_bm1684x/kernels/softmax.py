"""Softmax in f32: the axis lies along w of each lane, so sums and maxima are pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc.api import Layouts, Node, PackedConstant, Phase, PlacedTile, Scratch, Shape4, Space, Tile, TileKernel, View
from tpuc_ops.quant.arithmetic import Rounding
from tpuc_ops.tpu.softmax import Softmax

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import (
    Arithmetic,
    ArithmeticOp,
    DType,
    Operand,
    PoolOp,
    PoolOrDepthwise,
    Scalar,
    SpecialFunction,
    SpecialOp,
)
from tpuc_bm1684x.kernels.common import parallel_axes
from tpuc_bm1684x.kernels.pool import lowest
from tpuc_bm1684x.lmem import Bm1684xLmem
from tpuc_bm1684x.operands import MAX_EXTENT, operand

Array: TypeAlias = npt.NDArray[Any]

# |r| <= ln(2)/2: the first dropped term, r**8 / 8!, is below 6e-9, a tenth of an f32 step at 1.
_TERMS = 8
_SMALLEST_EXPONENT = -126
_EXPONENT_BIAS = 127


class SoftmaxKernel(TileKernel[Softmax]):
    """e**s = 2**n * e**r with n = round(s / ln 2); 2**n is made from its bits."""

    def refuse(self, node: Node) -> str | None:
        op: Softmax = node.op
        if op.log:
            return "log softmax has no kernel yet"
        if node.operand_types[0].storage.name != "f32":
            return f"only f32, this one is {node.operand_types[0].storage.name}"
        if self._view(node).shape[3] > MAX_EXTENT:
            return f"at most {MAX_EXTENT} values along the axis, this one has {self._view(node).shape[3]}"
        return None

    def _view(self, node: Node) -> View:
        dims = node.operand_types[0].dims
        op: Softmax = node.op
        axis = op.axis % len(dims)
        outer, inner = math.prod(dims[:axis]), math.prod(dims[axis + 1 :])
        width = dims[axis]
        return View((1, outer, inner, width), (outer * width * inner, width * inner, 1, inner))

    def space(self, node: Node) -> Space:
        view = self._view(node)
        operands = (view, *(None for _ in node.operand_types[1:]))
        return Space(parallel_axes(view.shape, whole="w"), operands, (view,))

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",) * len(node.operand_types), ("aligned",))

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (PackedConstant("coefficients", broadcast=True),)

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        return 1, 4 * _TERMS

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        row = np.array([1 / math.factorial(term) for term in range(_TERMS)], np.float32)
        return row.view(np.uint8)[None]

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        lmem = Bm1684xLmem()
        rows = (1, tile.size("c"), tile.size("h"))
        whole = lmem.tensor_bytes("aligned", (*rows, tile.size("w")), 4)
        column = lmem.tensor_bytes("aligned", (*rows, 1), 4)
        return (
            Scratch("s", whole),
            Scratch("t", whole),
            Scratch("n", whole),
            Scratch("column", column),
        )

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape = placed.result.shape
        s, t, column = (Operand(placed.scratch[name].address, DType.F32) for name in ("s", "t", "column"))
        n = Operand(placed.scratch["n"].address, DType.INT32)
        repeated = Operand(column.address, DType.F32, _repeat_column(column, shape))

        self._reduce(PoolOp.MAX, operand(placed.operand(0)), column, shape, asm)
        _arithmetic(asm, ArithmeticOp.SUB, shape, s, operand(placed.operand(0)), repeated)
        if node.op.beta != 1.0:
            _arithmetic(asm, ArithmeticOp.MUL, shape, s, s, Scalar.of(node.op.beta, DType.F32))
        _arithmetic(asm, ArithmeticOp.MUL, shape, t, s, Scalar.of(1 / math.log(2), DType.F32))
        _arithmetic(asm, ArithmeticOp.CAST, shape, n, t, rounding=Rounding.HALF_TO_EVEN)
        _arithmetic(asm, ArithmeticOp.CAST, shape, t, n, rounding=Rounding.HALF_TO_EVEN)
        _arithmetic(asm, ArithmeticOp.MUL, shape, t, t, Scalar.of(math.log(2), DType.F32))
        _arithmetic(asm, ArithmeticOp.SUB, shape, s, s, t)
        asm.record(
            SpecialFunction(
                operation=SpecialOp.POLYNOMIAL,
                shape=shape,
                result=t,
                input=s,
                terms=_TERMS,
                table=placed.constants["coefficients"].address,
            )
        )
        _arithmetic(asm, ArithmeticOp.MAX, shape, n, n, Scalar.of(_SMALLEST_EXPONENT, DType.INT32))
        _arithmetic(asm, ArithmeticOp.ADD, shape, n, n, Scalar.of(_EXPONENT_BIAS, DType.INT32))
        _arithmetic(asm, ArithmeticOp.MUL, shape, n, n, Scalar.of(1 << 23, DType.INT32))
        _arithmetic(asm, ArithmeticOp.MUL, shape, s, t, Operand(n.address, DType.F32))
        self._reduce(PoolOp.AVERAGE, s, column, shape, asm)
        asm.record(
            Arithmetic(
                operation=ArithmeticOp.DIV,
                shape=shape,
                result=operand(placed.result),
                left=s,
                right=repeated,
                iterations=3,
            )
        )

    def _reduce(
        self, operation: PoolOp, source: Operand, column: Operand, shape: Shape4, asm: Bm1684xAssembler
    ) -> None:
        n, c, h, w = shape
        asm.record(
            PoolOrDepthwise(
                operation=operation,
                result=column,
                shape=(n, c, h, 1),
                input=source,
                input_size=(h, w),
                kernel=(1, w),
                weight=Scalar.of(1.0, DType.F32) if operation is PoolOp.AVERAGE else None,
                pad_value=lowest(DType.F32) if operation is PoolOp.MAX else None,
            )
        )


def _repeat_column(column: Operand, shape: Shape4) -> Shape4:
    n, c, h, _ = shape
    batch, slot, row, _ = column.strides((n, c, h, 1))
    return (batch, slot, row, 0)


def _arithmetic(
    asm: Bm1684xAssembler,
    operation: ArithmeticOp,
    shape: Shape4,
    result: Operand,
    left: Operand,
    right: Operand | Scalar | None = None,
    rounding: Rounding = Rounding.HALF_TO_EVEN,
) -> None:
    asm.record(Arithmetic(operation=operation, shape=shape, result=result, left=left, right=right, rounding=rounding))
