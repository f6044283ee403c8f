"""Casts between floats and stored integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import (
    Box,
    Candidate,
    Node,
    Phase,
    PlacedTile,
    Scratch,
    Shape4,
    Space,
    Tile,
    TileKernel,
    View,
    elementwise_view,
)
from tpuc_chip_parts.tiles import tile_shape
from tpuc_ops import tpu
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import (
    ArithmeticOp,
    DType,
    LaneTransfer,
    Operand,
    Requantise,
    RequantiseOp,
    Scalar,
    TransferOp,
)
from tpuc_bm1684x.isa.geometry import LANES
from tpuc_bm1684x.kernels.common import elementwise_spaces, flat_space, in_spaces, parallel_axes
from tpuc_bm1684x.kernels.elementwise import arithmetic, convert
from tpuc_bm1684x.lmem import Bm1684xLmem
from tpuc_bm1684x.operands import MAX_EXTENT, dtype_of, operand

_NARROW = (DType.F16, DType.BF16)


class CastKernel(TileKernel[tpu.Cast, Bm1684xAssembler]):
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

    def kernels(self, node: Node) -> Sequence[Candidate]:
        transposed = _transposed_space(node)
        return in_spaces(self, (*elementwise_spaces(node), *(() if transposed is None else (transposed,))))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        (view,) = space.operands
        assert view is not None
        if view != space.results[0]:
            return [Box((0, 0, 0, 0), view.shape)]
        return super().reads(node, space, tile)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        lmem, shape = Bm1684xLmem(), tile_shape(tile)
        buffers: list[Scratch] = []
        if _is_transposed(node, shape):
            shape = elementwise_view(node.result_type.dims)
            size = node.result_type.storage.bits // 8
            buffers.append(Scratch("lanes", lmem.tensor_bytes("aligned", shape, size)))
        if _needs_f32(node):
            buffers.append(Scratch("f32", lmem.tensor_bytes("aligned", shape, 4)))
        return buffers

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        source, result = operand(placed.operand(0)), operand(placed.result)
        shape = placed.result.shape
        if _is_transposed(node, shape):
            lanes = Operand(placed.scratch["lanes"].address, result.dtype)
            self._cast(node, placed, elementwise_view(node.result_type.dims), source, lanes, asm)
            asm.record(
                LaneTransfer(
                    operation=TransferOp.TRANSPOSE_WC,
                    shape=shape,
                    dtype=result.dtype,
                    result=result.address,
                    source=lanes.address,
                )
            )
        else:
            self._cast(node, placed, shape, source, result, asm)

    def _cast(
        self, node: Node, placed: PlacedTile, shape: Shape4, source: Operand, result: Operand, asm: Bm1684xAssembler
    ) -> None:
        if source.dtype is result.dtype:
            convert(asm, shape, result, source)
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


def _transposed_space(node: Node) -> Space | None:
    """One value per lane becomes a row in one lane, which leaves by one run instead of one per value."""
    size = node.result_type.size
    lanes, row = View(elementwise_view(node.result_type.dims)), View((1, 1, 1, size))
    if lanes.shape != (1, size, 1, 1) or not LANES < size <= MAX_EXTENT:
        return None
    return Space(parallel_axes(row.shape, whole="w"), (lanes,), (row,))


def _is_transposed(node: Node, shape: Shape4) -> bool:
    """Is a tile of that shape one of the space above?"""
    space = _transposed_space(node)
    return space is not None and shape == space.results[0].shape


def _needs_f32(node: Node) -> bool:
    """Is f32 neither the operand nor the result, or are there steps before the integer?"""
    types = (dtype_of(node.operand_types[0].storage), dtype_of(node.result_type.storage))
    if node.result_type.is_quantised:
        return True
    return DType.F32 not in types and types[0] is not types[1]
