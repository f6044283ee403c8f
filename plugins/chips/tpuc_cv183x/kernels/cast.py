"""Casts: on the chip between bytes, bf16 and float32; by the runtime between float32 and int8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tpuc.api import (
    BF16,
    F32,
    CpuRoutine,
    HostArgument,
    KernelChoice,
    Layouts,
    Node,
    Phase,
    PlacedTile,
    Space,
    TileKernel,
)
from tpuc_ops.tpu.cast import Cast

from tpuc_cv183x.assembler import Cv183xAssembler
from tpuc_cv183x.isa import Arithmetic, ArithmeticOp, DType, Operand, TensorCopy, natural_strides
from tpuc_cv183x.kernels.common import flat_space
from tpuc_cv183x.operands import MAX_EXTENT, dtype_of, operand

_BF16_BYTES, _F32_BYTES = 2, 4
_UPPER = 2  # offset of the upper half of a float32


class QuantRoutine(CpuRoutine[Cast]):
    """float32 to int8 and back, by a scale."""

    function = "quant"

    def refuse(self, node: Node) -> str | None:
        for type_ in (node.operand_types[0], node.result_type):
            if type_.is_quantised and (type_.uniform.zero_point or type_.storage.is_unsigned):
                return "the runtime's quantisation knows int8 with zero point 0 alone"
        return None

    def arguments(self, node: Node) -> Mapping[str, HostArgument]:
        if node.result_type.is_quantised:
            scale = float(np.float32(1.0 / node.result_type.uniform.scale))
            return {"from": "FP32", "scale": scale, "to": "INT8"}
        return {"from": "INT8", "scale": float(np.float32(node.operand_types[0].uniform.scale)), "to": "NONE"}


class ConvertKernel(TileKernel[Cast]):
    """Bytes to bf16 and back: a copy within local memory that converts. Scales are products of their own."""

    def refuse(self, node: Node) -> str | None:
        if node.op.with_scale:
            return "a conversion without scale; lowering writes the scale as a product"
        if not node.result_type.storage.is_float and node.op.round_mode != "HalfToEven":
            return f"the chip rounds HalfToEven, this one asks for {node.op.round_mode}"
        return None

    def space(self, node: Node) -> Space:
        return flat_space(node)

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",), ("aligned",))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv183xAssembler) -> None:
        source, result = placed.operand(0), placed.result
        kinds = dtype_of(source.element), dtype_of(result.element)
        asm.record(
            TensorCopy(
                source=source.address,
                destination=result.address,
                shape=source.shape,
                dtype=kinds[0],
                destination_dtype=kinds[1],
                source_strides=natural_strides(source.shape, kinds[0].bytes)[:3],
                destination_strides=natural_strides(source.shape, kinds[1].bytes)[:3],
            )
        )


class FloatKernel(TileKernel[Cast]):
    """bf16 is the upper half of float32: taken out, or put over zeros."""

    def refuse(self, node: Node) -> str | None:
        source, result = node.operand_types[0].storage, node.result_type.storage
        if result == BF16 and node.op.round_mode != "TowardsZero":
            return f"the chip leaves the lower half out, this one asks for {node.op.round_mode}"
        if {source, result} != {BF16, F32}:
            return f"bf16 and f32 only, this is {source} to {result}"
        return None

    def space(self, node: Node) -> Space:
        return flat_space(node, MAX_EXTENT // _F32_BYTES)

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",), ("aligned",))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv183xAssembler) -> None:
        source, result = placed.operand(0), placed.result
        n, c, h, w = result.shape
        steps = natural_strides(result.shape, _F32_BYTES)
        if result.element == BF16:
            left = Operand(source.address + _UPPER, DType.BF16, steps)
            asm.record(Arithmetic(operation=ArithmeticOp.COPY, shape=result.shape, result=operand(result), left=left))
            return
        everything = Operand(result.address, DType.UINT8)
        asm.record(
            Arithmetic(
                operation=ArithmeticOp.XOR,
                shape=(n, c, h, w * _F32_BYTES),
                result=everything,
                left=everything,
                right=everything,
            )
        )
        target = Operand(result.address + _UPPER, DType.BF16, steps)
        asm.record(Arithmetic(operation=ArithmeticOp.COPY, shape=result.shape, result=target, left=operand(source)))


class CastKernel(KernelChoice[Cast]):
    """float32 and integers meet on the host; everything else on the chip."""

    def __init__(self) -> None:
        self._quant, self._convert, self._float = QuantRoutine(), ConvertKernel(), FloatKernel()

    def kernel(self, node: Node) -> TileKernel[Any] | CpuRoutine[Any]:
        source, result = node.operand_types[0].storage, node.result_type.storage
        if source.is_float and result.is_float:
            return self._float
        return self._quant if F32 in (source, result) else self._convert
