"""Casts between floats and stored integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import Layouts, Node, Phase, PlacedTile, Scratch, Space, Tile, TileKernel
from tpuc_ops.quant.arithmetic import Rounding
from tpuc_ops.tpu.cast import Cast

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, DType, Operand, Requantise, RequantiseOp, Scalar
from tpuc_bm1684x.kernels.common import flat_space, too_large
from tpuc_bm1684x.kernels.elementwise import arithmetic
from tpuc_bm1684x.lmem import Bm1684xLmem
from tpuc_bm1684x.operands import dtype_of, operand


class CastKernel(TileKernel[Cast]):
    """Float to int8: times 1/scale in f32, then a rounding, saturating conversion. int8 to f32: (q - zp) * scale."""

    def refuse(self, node: Node) -> str | None:
        source, result = node.operand_types[0], node.result_type
        if source.is_quantised and result.is_quantised:
            return "one side must be a float, both are quantised"
        return too_large(node.operand_types)

    def space(self, node: Node) -> Space:
        return flat_space(node)

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",), ("aligned",))

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        if not node.result_type.is_quantised:
            return ()
        shape = (tile.size("n"), tile.size("c"), tile.size("h"), tile.size("w"))
        return (Scratch("scaled", Bm1684xLmem().tensor_bytes("aligned", shape, 4)),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        source, result = placed.operand(0), placed.result
        if node.operand_types[0].is_quantised:
            uniform = node.operand_types[0].uniform
            asm.record(
                Requantise(
                    operation=RequantiseOp.FLOAT_DEQUANTISE,
                    shape=result.shape,
                    result=operand(result),
                    input=operand(source),
                    scale=uniform.scale,
                    zero_point=uniform.zero_point,
                )
            )
            return
        if source.element == result.element:
            # AR CAST between equal float types rounds to whole numbers.
            arithmetic(asm, ArithmeticOp.COPY, result.shape, operand(result), operand(source))
            return
        scaled = operand(source)
        if node.result_type.is_quantised:
            uniform = node.result_type.uniform
            scaled = Operand(placed.scratch["scaled"].address, DType.F32)
            factor = Scalar.of(float(np.float32(1.0 / uniform.scale)), DType.F32)
            arithmetic(asm, ArithmeticOp.MUL, result.shape, scaled, operand(source), factor)
            if uniform.zero_point:
                offset = Scalar.of(float(uniform.zero_point), DType.F32)
                arithmetic(asm, ArithmeticOp.ADD, result.shape, scaled, scaled, offset)
        target = Operand(result.address, dtype_of(result.element))
        arithmetic(asm, ArithmeticOp.CAST, result.shape, target, scaled, rounding=Rounding(node.op.round_mode))
