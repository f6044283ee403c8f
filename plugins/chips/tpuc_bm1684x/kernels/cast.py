"""Casts between floats and stored integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import Layouts, Node, Phase, PlacedTile, Scratch, Space, Tile, TileKernel
from tpuc_ops.quant.arithmetic import Rounding
from tpuc_ops.tpu.cast import Cast

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, DType, Operand, Requantise, RequantiseOp, Scalar
from tpuc_bm1684x.kernels.common import elementwise_spaces, flat_space
from tpuc_bm1684x.kernels.elementwise import arithmetic
from tpuc_bm1684x.lmem import Bm1684xLmem
from tpuc_bm1684x.operands import dtype_of, operand

_NARROW = (DType.F16, DType.BF16)


class CastKernel(TileKernel[Cast]):
    """Between types by way of f32.

    To integers: times 1/scale, plus the zero point, then a rounding, saturating conversion. From them: (q - zp) times
    scale.
    """

    def refuse(self, node: Node) -> str | None:
        source, result = node.operand_types[0], node.result_type
        if source.is_quantised and result.is_quantised:
            return "one side must be a float, both are quantised"
        return None

    def space(self, node: Node) -> Space:
        return flat_space(node)

    def spaces(self, node: Node) -> Sequence[Space]:
        return elementwise_spaces(node)

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",), ("aligned",))

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        if not _needs_f32(node):
            return ()
        shape = (tile.size("n"), tile.size("c"), tile.size("h"), tile.size("w"))
        return (Scratch("f32", Bm1684xLmem().tensor_bytes("aligned", shape, 4)),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        source, result = operand(placed.operand(0)), operand(placed.result)
        shape = placed.result.shape
        if source.dtype is result.dtype:
            # AR CAST between equal float types rounds to whole numbers.
            arithmetic(asm, ArithmeticOp.COPY, shape, result, source)
            return
        middle = Operand(placed.scratch["f32"].address, DType.F32) if "f32" in placed.scratch else None
        if node.operand_types[0].is_quantised:
            uniform = node.operand_types[0].uniform
            asm.record(
                Requantise(
                    operation=RequantiseOp.FLOAT_DEQUANTISE,
                    shape=shape,
                    result=middle or result,
                    input=source,
                    scale=uniform.scale,
                    zero_point=uniform.zero_point,
                )
            )
            source = middle or result
        elif middle and source.dtype in _NARROW:
            arithmetic(asm, ArithmeticOp.CAST, shape, middle, source)
            source = middle
        if node.result_type.is_quantised:
            assert middle is not None
            uniform = node.result_type.uniform
            factor = Scalar.of(float(np.float32(1.0 / uniform.scale)), DType.F32)
            arithmetic(asm, ArithmeticOp.MUL, shape, middle, source, factor)
            if uniform.zero_point:
                offset = Scalar.of(float(uniform.zero_point), DType.F32)
                arithmetic(asm, ArithmeticOp.ADD, shape, middle, middle, offset)
            source = middle
        if source is not result:
            rounding = Rounding.HALF_TO_EVEN if result.dtype.is_float else Rounding(node.op.round_mode)
            arithmetic(asm, ArithmeticOp.CAST, shape, result, source, rounding=rounding)


def _needs_f32(node: Node) -> bool:
    """Is f32 neither the operand nor the result, or are there steps before the integer?"""
    types = (dtype_of(node.operand_types[0].storage), dtype_of(node.result_type.storage))
    if node.result_type.is_quantised:
        return True
    return DType.F32 not in types and types[0] is not types[1]
