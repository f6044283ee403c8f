"""Casts: on the chip between bytes, bf16 and float32; in the runtime between float32 and int8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from tpuc.api import (
    BF16,
    F32,
    CpuRoutine,
    HostArgument,
    KernelChoice,
    Layouts,
    LocalTensor,
    Node,
    Phase,
    PlacedTile,
    Scratch,
    Shape4,
    Space,
    Tile,
    TileKernel,
    elementwise_view,
)
from tpuc_chip_parts.tiles import tile_shape
from tpuc_ops import tpu
from tpuc_ops.integers import zero_point

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, DType, Operand, Scalar, Target, TensorCopy, natural_strides
from tpuc_cv18.kernels.common import LaneKernel, flat_space
from tpuc_cv18.lmem import WIDENED
from tpuc_cv18.operands import MAX_EXTENT, is_computable, operand

_BF16_BYTES, _F32_BYTES = 2, 4
INT8_BITS = 8
_WORD_BITS, _WORD_PLANES = 16, 2
_UPPER = 2  # offset of the upper half of a float32
_SIGN = 0x80
_LIMIT = round(127.4 / _SIGN * 2**31)
"""Multiplier in units of 2**-31: it maps `_SIGN` to 127, and twice `_SIGN` to at least 255."""


class QuantRoutine(CpuRoutine[tpu.Cast]):
    """Casts float32 to int8 and back by a scale, in the runtime."""

    function = "quant"

    def refuse(self, node: Node) -> str | None:
        for type_ in (node.operand_types[0], node.result_type):
            stored = type_.storage
            if not stored.is_float and (stored.bits != INT8_BITS or stored.is_unsigned or zero_point(type_)):
                point = zero_point(type_)
                return f"the runtime casts between f32 and i8 with zero point 0, this is {stored} with {point}"
        return None

    def arguments(self, node: Node) -> Mapping[str, HostArgument]:
        if node.result_type.is_quantized:
            scale = float(np.float32(1.0 / node.result_type.uniform.scale))
            return {"from": "FP32", "scale": scale, "to": "INT8"}
        return {"from": "INT8", "scale": float(np.float32(node.operand_types[0].uniform.scale)), "to": "NONE"}


class ChipKernel(LaneKernel[tpu.Cast]):
    """Casts on the chip: halves of float32, a bf16 multiplication, and a copy within local memory that converts bytes.

    Bytes cast from float32 in rows over the lanes, which no neighboring op reads in place, stay bf16 in local memory.
    Their store converts them, which is as fast as storing bytes.
    """

    def refuse(self, node: Node[tpu.Cast]) -> str | None:
        op = node.op
        source, result = node.operand_types[0].storage, node.result_type.storage
        rounds = not result.is_float
        if not all(one == F32 or is_computable(one) for one in (source, result)):
            return f"the chip casts between bytes, bf16 and f32, this is {source} to {result}"
        if source.is_float and result.is_float:
            if {source, result} != {BF16, F32}:
                return f"bf16 and f32 only, this is {source} to {result}"
            if result == BF16 and op.round_mode != "TowardsZero" and not op.round_half:
                return f"the chip truncates to bf16 unless round_half is set, this one asks for {op.round_mode}"
            return None
        if _factor(node) != 1.0 and not op.in_half:
            return "a scale needs in_half, because the chip multiplies in bf16"
        if F32 in (source, result) and not op.in_half:
            return "a cast between float32 and bytes goes through bf16, which needs in_half"
        if rounds and op.round_mode != "HalfToEven":
            return f"the chip rounds HalfToEven, this one asks for {op.round_mode}"
        return None

    def space(self, node: Node) -> Space:
        is_wide = F32 in (node.operand_types[0].storage, node.result_type.storage)
        return flat_space(self.lanes, node, MAX_EXTENT // _F32_BYTES if is_wide else MAX_EXTENT)

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",), (WIDENED if self._is_widened(node) else "aligned",))

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        shape = tile_shape(tile)
        half = [Scratch("half", self.planes_bytes(shape, _BF16_BYTES))] if self._has_half(node) else []
        carry = [Scratch("carry", _WORD_PLANES * self.planes_bytes(shape))] if _rounds_half(node) else []
        return (*half, *carry)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        source, result = placed.operand(0), placed.result
        shape = result.shape
        work = placed.scratch.get("half")
        half = Operand(work.address, DType.BF16) if work is not None else None
        widened = result.layout == WIDENED
        if widened:
            half = Operand(result.address, DType.BF16)
        values = operand(source) if source.element == BF16 else half or operand(result)
        if _rounds_half(node):
            carry = placed.scratch["carry"].address
            _round_half(source, carry, values, asm)
            if not node.op.is_bounded:
                _bound(values.address, carry, shape, asm)
        elif source.element == F32:
            upper = Operand(source.address + _UPPER, DType.BF16, natural_strides(self.target, shape, _F32_BYTES))
            _compute(ArithmeticOp.COPY, values, upper, shape, asm)
        elif source.element != BF16:
            _convert(operand(source), values, shape, asm)
        factor = _factor(node)
        if factor != 1.0:
            product = half or values
            _compute(ArithmeticOp.MUL, product, values, shape, asm, Scalar.of(factor, DType.BF16))
            values = product
        if result.element == F32:
            _widen(values, result, asm)
        elif result.element != BF16 and not widened:
            _convert(values, operand(result), shape, asm)

    def _is_widened(self, node: Node) -> bool:
        """True when bytes are held in local memory as bf16 and converted by their store."""
        if node.operand_types[0].storage != F32 or node.result_type.storage.is_float:
            return False
        return self.space(node).results[0].shape != elementwise_view(node.result_type.dims)

    def _has_half(self, node: Node) -> bool:
        """True when an intermediate bf16 value needs its own buffer."""
        if self._is_widened(node):
            return False
        source, result = node.operand_types[0].storage, node.result_type.storage
        if source == BF16:
            return _factor(node) != 1.0
        return BF16 not in (source, result)


def _factor(node: Node) -> float:
    """The bf16 factor that values are multiplied by."""
    source, result = node.operand_types[0], node.result_type
    if not node.op.with_scale or not (source.is_quantized or result.is_quantized):
        return 1.0
    scale = source.uniform.scale if source.is_quantized else 1.0 / result.uniform.scale
    return float(np.float32(scale).astype(ml_dtypes.bfloat16))


def _rounds_half(node: Node) -> bool:
    return node.op.round_half and node.operand_types[0].storage == F32


def _round_half(source: LocalTensor, carry: int, target: Operand, asm: Cv18Assembler) -> None:
    """Round float32 to bf16 in 16-bit integers: subtract from the upper half the sign of the lower half, -1 or 0, which
    an arithmetic shift right isolates.
    """
    shape = source.shape
    strides = natural_strides(asm.target, shape, _F32_BYTES)
    lower = Operand(source.address, DType.INT16, strides, 1)
    upper = Operand(source.address + _UPPER, DType.INT16, strides, 1)
    signs = Operand(carry, DType.INT16)
    words = Operand(target.address, DType.INT16, natural_strides(asm.target, shape, _BF16_BYTES), 1)
    _compute(ArithmeticOp.SHIFT, signs, lower, shape, asm, Scalar.of(1 - _WORD_BITS, DType.INT8))
    _compute(ArithmeticOp.SUB, words, upper, shape, asm, signs)


def _bound(address: int, limits: int, shape: Shape4, asm: Cv18Assembler) -> None:
    """Replace infinities, which the chip reads as NaN, by the largest number, 0x7F7F or 0xFF7F. The lower byte is
    limited to 0x7F below the largest upper byte, which is -1 with the sign bit set, and to 0xFF below others.
    """
    strides = natural_strides(asm.target, shape, _BF16_BYTES)
    lower, upper = (Operand(address + byte, DType.UINT8, strides) for byte in range(_BF16_BYTES))
    limit, negative = Operand(limits, DType.UINT8), Operand(limits, DType.INT8)
    _compute(ArithmeticOp.OR, limit, upper, shape, asm, Scalar.of(_SIGN, DType.UINT8))
    asm.record(
        Arithmetic(
            operation=ArithmeticOp.MUL,
            shape=shape,
            result=limit,
            left=negative,
            right=Scalar.of(-_SIGN, DType.INT8),
            multiplier=_LIMIT,
            relu=True,
        )
    )
    _compute(ArithmeticOp.MIN, lower, lower, shape, asm, limit)


def _compute(
    operation: ArithmeticOp,
    target: Operand,
    left: Operand,
    shape: Shape4,
    asm: Cv18Assembler,
    right: Operand | Scalar | None = None,
) -> None:
    asm.record(Arithmetic(operation=operation, shape=shape, result=target, left=left, right=right))


def _convert(source: Operand, target: Operand, shape: Shape4, asm: Cv18Assembler) -> None:
    asm.record(
        TensorCopy(
            source=source.address,
            destination=target.address,
            shape=shape,
            dtype=source.dtype,
            destination_dtype=target.dtype,
            source_strides=natural_strides(asm.target, shape, source.dtype.bytes)[:3],
            destination_strides=natural_strides(asm.target, shape, target.dtype.bytes)[:3],
        )
    )


def _widen(half: Operand, result: LocalTensor, asm: Cv18Assembler) -> None:
    """Combine bf16 upper halves with zero lower halves to float32."""
    n, c, h, w = result.shape
    everything = Operand(result.address, DType.UINT8)
    _compute(ArithmeticOp.XOR, everything, everything, (n, c, h, w * _F32_BYTES), asm, everything)
    target = Operand(result.address + _UPPER, DType.BF16, natural_strides(asm.target, result.shape, _F32_BYTES))
    _compute(ArithmeticOp.COPY, target, half, result.shape, asm)


class CastKernel(KernelChoice[tpu.Cast]):
    """Casts between float32 and int8 on the host, unless they go through bf16; all others on the chip."""

    def __init__(self, target: Target) -> None:
        self._quant, self._chip = QuantRoutine(), ChipKernel(target)

    def kernel(self, node: Node) -> TileKernel[Any, Cv18Assembler] | CpuRoutine[Any]:
        source, result = node.operand_types[0].storage, node.result_type.storage
        if F32 in (source, result) and not (source.is_float and result.is_float) and not node.op.in_half:
            return self._quant
        return self._chip
