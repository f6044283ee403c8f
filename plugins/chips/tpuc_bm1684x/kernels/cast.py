"""Casts between floats and quantized integers."""

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
    Uniform,
    View,
    elementwise_view,
)
from tpuc_chip_parts.lanes import Lanes
from tpuc_chip_parts.tiles import tile_shape
from tpuc_ops import tpu
from tpuc_ops.quant.arithmetic import Rounding
from tpuc_ops.tpu.cast import WHOLE

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import (
    ArithmeticOp,
    DType,
    LaneTransfer,
    Operand,
    Requantize,
    RequantizeOp,
    Scalar,
    TransferOp,
)
from tpuc_bm1684x.kernels.common import OfChip, elementwise_spaces, flat_space, in_spaces
from tpuc_bm1684x.kernels.elementwise import arithmetic, convert
from tpuc_bm1684x.kernels.planes import plane_candidates
from tpuc_bm1684x.operands import MAX_EXTENT, dtype_of, operand

_NARROW = (DType.F16, DType.BF16)
_WIDE = 32
"""Bits of the integers that CPU layers produce."""


class CastKernel(OfChip, TileKernel[tpu.Cast, Bm1684xAssembler]):
    """Converts types through f32.

    To integers: multiply by 1/scale, add the zero point, and convert with rounding and saturation; or divide exactly
    with `_quotients`. From integers: (q - zp) * scale.
    """

    def refuse(self, node: Node) -> str | None:
        source, result = node.operand_types[0], node.result_type
        if source.is_quantized and result.is_quantized:
            return "operand or result must be a float, both are quantized"
        wide = next((one for one in (source, result) if one.is_quantized and one.storage.bits == _WIDE), None)
        if wide is not None and (wide is result or (wide.uniform.scale, wide.uniform.zero_point) != (1, 0)):
            return "32-bit integers must have scale 1 and zero point 0, and be cast to floats"
        return None

    def space(self, node: Node) -> Space:
        return flat_space(node, self.target)

    def kernels(self, node: Node) -> Sequence[Candidate]:
        transposed = _transposed_space(node, self.lanes)
        spaces = (*elementwise_spaces(node, self.target), *(() if transposed is None else (transposed,)))
        return (*plane_candidates(self, node, self.target), *in_spaces(self, spaces))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        (view,) = space.operands
        assert view is not None
        if view != space.results[0]:
            return [Box((0, 0, 0, 0), view.shape)]
        return super().reads(node, space, tile)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        lmem, shape = self.lmem, tile_shape(tile)
        buffers: list[Scratch] = []
        if _is_transposed(node, shape, self.lanes):
            shape = elementwise_view(node.result_type.dims)
            size = node.result_type.storage.bits // 8
            buffers.append(Scratch("lanes", lmem.tensor_bytes("aligned", shape, size)))
        names = ["f32"] if _needs_f32(node) else []
        if _divides(node):
            names += ["near", "rest"]
        return [*buffers, *(Scratch(name, lmem.tensor_bytes("aligned", shape, 4)) for name in names)]

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        source, result = operand(placed.operand(0)), operand(placed.result)
        shape = placed.result.shape
        if _is_transposed(node, shape, self.lanes):
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
        if source.dtype is result.dtype or source.dtype is DType.INT32:
            convert(asm, shape, result, source)
            return
        middle = Operand(placed.scratch["f32"].address, DType.F32) if "f32" in placed.scratch else None
        if node.operand_types[0].is_quantized:
            uniform = node.operand_types[0].uniform
            asm.record(
                Requantize(
                    operation=RequantizeOp.FLOAT_DEQUANTIZE,
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
        if _divides(node):
            assert middle is not None
            near, rest = (Operand(placed.scratch[name].address, DType.F32) for name in ("near", "rest"))
            source = _quotients(node.result_type.uniform, shape, source, (near, rest, middle), asm)
        elif node.result_type.is_quantized:
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


_HALVES = 1.5 * 2.0**22
"""Adding and subtracting this rounds a small number to the nearest multiple of one half."""
_BEYOND = 1024.0
"""Upper bound of quotients that fit in a byte."""
_UPPER_BITS = np.uint32(0xFFFFFC00)
"""Keeps 14 bits of a float32 significand: its product with a multiple of one half is exact."""


def _divides(node: Node[tpu.Cast]) -> bool:
    return not node.operand_types[0].is_quantized and node.op.divides(node.result_type)


def _quotients(
    uniform: Uniform, shape: Shape4, source: Operand, scratch: tuple[Operand, Operand, Operand], asm: Bm1684xAssembler
) -> Operand:
    """``rint(x / scale) + zero point``. `source` may be the last operand of `scratch`.

    Let t be the multiple of one half nearest to x * (1/scale). With the scale split in two parts, ``x - t * scale`` is
    exact, so t plus that remainder times 1/scale is the quotient, rounded once.
    """
    near, rest, other = scratch
    scale = np.float32(uniform.scale)
    upper = (scale.view(np.uint32) & _UPPER_BITS).view(np.float32)
    reciprocal = float(np.float32(1.0) / scale)

    def step(operation: ArithmeticOp, result: Operand, left: Operand, right: Operand | float) -> None:
        operand = right if isinstance(right, Operand) else Scalar.of(right, DType.F32)
        arithmetic(asm, operation, shape, result, left, operand)

    def whole(number: Operand, offset: float, back: float) -> None:
        step(ArithmeticOp.ADD, number, number, offset)
        step(ArithmeticOp.ADD, number, number, back)

    step(ArithmeticOp.MUL, near, source, reciprocal)
    whole(near, _HALVES, -_HALVES)
    step(ArithmeticOp.MIN, near, near, _BEYOND)
    step(ArithmeticOp.MAX, near, near, -_BEYOND)
    step(ArithmeticOp.MUL, rest, near, float(upper))
    step(ArithmeticOp.SUB, rest, source, rest)
    step(ArithmeticOp.MUL, other, near, float(scale - upper))
    step(ArithmeticOp.SUB, rest, rest, other)
    step(ArithmeticOp.MUL, rest, rest, reciprocal)
    step(ArithmeticOp.ADD, near, near, rest)
    if uniform.zero_point:
        whole(near, WHOLE, uniform.zero_point - WHOLE)
    return near


def _transposed_space(node: Node, across: Lanes) -> Space | None:
    """Space in which one value per lane becomes a row in one lane, so that it is stored as one run instead of one run
    per value.
    """
    size = node.result_type.size
    lanes, row = View(elementwise_view(node.result_type.dims)), View((1, 1, 1, size))
    if lanes.shape != (1, size, 1, 1) or not across.count < size <= MAX_EXTENT:
        return None
    return Space(across.parallel_axes(row.shape, whole="w"), (lanes,), (row,))


def _is_transposed(node: Node, shape: Shape4, across: Lanes) -> bool:
    """True when a tile of that shape belongs to `_transposed_space`."""
    space = _transposed_space(node, across)
    return space is not None and shape == space.results[0].shape


def _needs_f32(node: Node) -> bool:
    """True when the cast needs an f32 buffer: for scaling before an integer result, or when neither type is f32."""
    types = (dtype_of(node.operand_types[0].storage), dtype_of(node.result_type.storage))
    if node.result_type.is_quantized:
        return True
    return DType.F32 not in types and types[0] is not types[1]
