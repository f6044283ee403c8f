"""Activation functions of bf16: a table of values and one of slopes over a bounded range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tpuc.api import (
    F32,
    Layouts,
    Node,
    PackedConstant,
    Phase,
    PlacedTile,
    Scratch,
    Shape4,
    Space,
    TensorType,
    Tile,
    TileKernel,
)
from tpuc_ops.tpu.active import Active

from tpuc_cv183x.assembler import Cv183xAssembler
from tpuc_cv183x.isa import Arithmetic, ArithmeticOp, DType, Lookup, Operand, Scalar, TensorCopy, natural_strides
from tpuc_cv183x.kernels.common import element_refusal, flat_space, tile_shape
from tpuc_cv183x.lmem import planes_bytes
from tpuc_cv183x.operands import operand

Array: TypeAlias = npt.NDArray[Any]

_ENTRIES = 256
_BF16_BYTES = 2


@dataclass(frozen=True)
class _Form:
    """`function` (a mode of tpu.Active) over `[-reach, reach)` by table; then perhaps times x, or plus relu(x)."""

    function: str
    reach: int
    times_x: bool = False
    plus_relu: bool = False

    @property
    def scale(self) -> float:
        """Entries per unit, a power of two."""
        return _ENTRIES / 2 / self.reach


_FORMS = {
    "SIGMOID": _Form("SIGMOID", 16),
    "SILU": _Form("SIGMOID", 16, times_x=True),
    "TANH": _Form("TANH", 4),
    "EXP": _Form("EXP", 16),
    "ELU": _Form("ELU", 8, plus_relu=True),
    "HSIGMOID": _Form("HSIGMOID", 8),
    "HSWISH": _Form("HSIGMOID", 8, times_x=True),
}
_HARD = (1 / 6, 0.5)
"""Slope and offset of the hard sigmoid within HSWISH."""


class ActiveKernel(TileKernel[Active]):
    """The nearest entry, plus the distance from it times the slope there. Beyond the range its end counts.

    The index is the rounded multiple in the low byte of each element, made by a converting copy.
    """

    def refuse(self, node: Node) -> str | None:
        if node.op.mode not in _FORMS:
            return f"modes {', '.join(sorted(_FORMS))}, this one is {node.op.mode}"
        return element_refusal(node)

    def space(self, node: Node) -> Space:
        return flat_space(node)

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",), ("aligned",))

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (PackedConstant("values", broadcast=True), PackedConstant("slopes", broadcast=True))

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        return 1, _ENTRIES * _BF16_BYTES

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        form = _FORMS[node.op.mode]
        places = np.arange(_ENTRIES, dtype=np.uint8).view(np.int8).astype(np.float64)
        if name == "values":
            table = _evaluate(node.op, form, places / form.scale)
        else:
            above = _evaluate(node.op, form, (places + 0.5) / form.scale)
            table = above - _evaluate(node.op, form, (places - 0.5) / form.scale)
        return table.astype(np.float32).astype(ml_dtypes.bfloat16).reshape(1, -1).view(np.uint8)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        size = planes_bytes(tile_shape(tile), _BF16_BYTES)
        return (Scratch("scaled", size), Scratch("index", size), Scratch("whole", size))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv183xAssembler) -> None:
        form = _FORMS[node.op.mode]
        shape = placed.result.shape
        x, result = operand(placed.operand(0)), operand(placed.result)
        scaled, index, whole = (
            Operand(placed.scratch[name].address, DType.BF16) for name in ("scaled", "index", "whole")
        )

        def step(operation: ArithmeticOp, target: Operand, left: Operand, right: Operand | float) -> None:
            source = right if isinstance(right, Operand) else Scalar.of(right, DType.BF16)
            asm.record(Arithmetic(operation=operation, shape=shape, result=target, left=left, right=source))

        high = 0.0 if form.plus_relu else form.reach - 1 / form.scale
        step(ArithmeticOp.MIN, scaled, x, high)
        step(ArithmeticOp.MAX, scaled, scaled, -float(form.reach))
        step(ArithmeticOp.MUL, scaled, scaled, form.scale)
        _convert(scaled, DType.BF16, index, DType.INT8, shape, asm)
        _convert(index, DType.INT8, whole, DType.BF16, shape, asm)
        step(ArithmeticOp.SUB, scaled, scaled, whole)
        for target, table in ((result, "values"), (whole, "slopes")):
            asm.record(Lookup(shape=shape, result=target, input=index, table=placed.constants[table].address))
        step(ArithmeticOp.MAC, result, scaled, whole)
        if form.times_x:
            step(ArithmeticOp.MUL, result, result, x)
        if form.plus_relu:
            step(ArithmeticOp.MAX, scaled, x, 0.0)
            step(ArithmeticOp.ADD, result, result, scaled)


def _evaluate(op: Active, form: _Form, x: Array) -> Array:
    """The tabulated function in float64's neighbourhood: float32 as the op computes it."""
    coeffs = _HARD if op.mode == "HSWISH" else op.coeffs
    plain = TensorType(x.shape, F32)
    function = Active(mode=form.function, coeffs=coeffs)
    (y,) = function.evaluate(Node(function, (plain,), (plain,)), [x.astype(np.float32)])
    return y.astype(np.float64)


def _convert(
    source: Operand, source_type: DType, target: Operand, target_type: DType, shape: Shape4, asm: Cv183xAssembler
) -> None:
    """Element by element, each in the place of a bf16 number: rows of one element have a step."""
    n, c, h, w = shape
    steps = (*natural_strides(shape, _BF16_BYTES)[:2], _BF16_BYTES)
    asm.record(
        TensorCopy(
            source=source.address,
            destination=target.address,
            shape=(n, c, h * w, 1),
            dtype=source_type,
            destination_dtype=target_type,
            source_strides=steps,
            destination_strides=steps,
        )
    )
