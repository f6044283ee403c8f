"""The cells of BM1684X, with its own instructions."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import (
    Axis,
    KernelTable,
    Layouts,
    LoweringTable,
    Node,
    Phase,
    PlacedTile,
    Scratch,
    Space,
    Tile,
    TileKernel,
    View,
    elementwise_view,
)
from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import Arithmetic, ArithmeticOp, DType, Operand, Scalar
from tpuc_bm1684x.lmem import Bm1684xLmem
from tpuc_bm1684x.operands import MAX_EXTENT, operand
from tpuc_ops.quant.arithmetic import Rounding

from acme_ops.gelu7 import SLOPE_SHIFT, Gelu7
from acme_ops.lowering import Gelu7Any
from acme_ops.stored_gelu7 import StoredGelu7

LOWERINGS = LoweringTable("bm1684x", "acme")
LOWERINGS.lowers(Gelu7, "f32", "int8")(Gelu7Any)

KERNELS = KernelTable("bm1684x", "acme")
LMEM = Bm1684xLmem()


@KERNELS.runs(StoredGelu7)
class StoredGelu7Kernel(TileKernel[StoredGelu7, Bm1684xAssembler]):
    """Integers: both clamped parts go to int16, one of them shifted right, and are added. f32: the formula itself."""

    def refuse(self, node: Node) -> str | None:
        type = node.result_type
        if type.is_quantized and type.uniform.zero_point:
            return f"only zero point 0, this one has {type.uniform.zero_point}"
        extent = max(elementwise_view(type.dims))
        return f"at most {MAX_EXTENT} per dimension, this one has {extent}" if extent > MAX_EXTENT else None

    def space(self, node: Node) -> Space:
        shape = elementwise_view(node.result_type.dims)
        axes = tuple(
            Axis(name, size, granularity=LMEM.lanes if name == "c" else 1)
            for name, size in zip("nchw", shape, strict=True)
        )
        return Space(axes, (View(shape),), (View(shape),))

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",), ("aligned",))

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        shape = (tile.size("n"), tile.size("c"), tile.size("h"), tile.size("w"))
        size = LMEM.tensor_bytes("aligned", shape, 4 if node.result_type.storage.is_float else 2)
        return (Scratch("below", size), Scratch("above", size))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        x, result = operand(placed.operand(0)), operand(placed.result)
        wide = DType.F32 if result.dtype.is_float else DType.INT16
        below, above = (Operand(placed.scratch[name].address, wide) for name in ("below", "above"))
        total = ArithmeticOp.ADD if wide.is_float else ArithmeticOp.ADD_SATURATE

        def step(
            operation: ArithmeticOp, target: Operand, left: Operand, right: Operand | Scalar, shift: int | None = None
        ) -> None:
            third = None if shift is None else Scalar.of(shift, DType.INT8)
            asm.record(
                Arithmetic(
                    operation=operation,
                    shape=placed.result.shape,
                    result=target,
                    left=left,
                    right=right,
                    third=third,
                    rounding=Rounding.HALF_UP,
                )
            )

        for part, low, high, shift in ((below, node.op.low, 0.0, SLOPE_SHIFT), (above, 0.0, node.op.high, 0)):
            step(ArithmeticOp.MAX, result, x, Scalar.of(low, x.dtype))
            step(ArithmeticOp.MIN, result, result, Scalar.of(high, x.dtype))
            if wide.is_float:
                step(ArithmeticOp.MUL, part, result, Scalar.of(1.0 / (1 << shift), DType.F32))
            else:
                step(ArithmeticOp.MUL_SATURATE, part, result, Scalar.of(1, DType.INT8), -shift)
        step(total, result, above, below)
