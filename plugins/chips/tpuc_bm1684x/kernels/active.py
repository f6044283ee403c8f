"""Activations of floats, computed in f32."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy.typing as npt
from tpuc.api import Node, PackedConstant, Phase, PlacedTile, Scratch, Shape4, Tile
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, DType, Operand, Scalar
from tpuc_bm1684x.kernels.binary import DIVISION_STEPS
from tpuc_bm1684x.kernels.elementwise import ElementwiseKernel, arithmetic, tile_shape
from tpuc_bm1684x.kernels.exponential import (
    COEFFICIENTS,
    COEFFICIENTS_SHAPE,
    Exponential,
    coefficients,
    emit_square_root,
    exponential_scratch,
)
from tpuc_bm1684x.kernels.widening import Widened, widening_scratch

Array: TypeAlias = npt.NDArray[Any]

_SATURATED = 80.0  # a sigmoid is 0 or 1 to f32 precision long before; its exponential and quotient stay finite


@dataclass(frozen=True)
class _Emitter:
    """One tile: `x` and `result` alike; `exponential` where the mode has one."""

    asm: Bm1684xAssembler
    shape: Shape4
    x: Operand
    result: Operand
    exponential: Exponential | None
    coeffs: tuple[float, ...]

    def do(
        self,
        operation: ArithmeticOp,
        result: Operand,
        left: Operand | float,
        right: Operand | float | None = None,
        rounding: Rounding = Rounding.HALF_TO_EVEN,
    ) -> None:
        """AR with numbers as immediates."""
        iterations = DIVISION_STEPS if operation is ArithmeticOp.DIV else 0
        first = left if isinstance(left, Operand) else Scalar.of(left, DType.F32)
        second = right if right is None or isinstance(right, Operand) else Scalar.of(right, DType.F32)
        arithmetic(self.asm, operation, self.shape, result, first, second, rounding=rounding, iterations=iterations)

    def one_plus_exponential(self, factor: float) -> Operand:
        """``1 + e**(factor * x)``, the exponent kept below 80."""
        assert self.exponential is not None
        s, t = self.exponential.s, self.exponential.t
        self.do(ArithmeticOp.MUL, s, self.x, factor)
        self.do(ArithmeticOp.MIN, s, s, _SATURATED)
        self.exponential.emit(t)
        self.do(ArithmeticOp.ADD, t, t, 1.0)
        return t

    def sigmoid(self) -> None:
        self.do(ArithmeticOp.DIV, self.result, 1.0, self.one_plus_exponential(-1.0))

    def silu(self) -> None:
        self.do(ArithmeticOp.DIV, self.result, self.x, self.one_plus_exponential(-1.0))

    def tanh(self) -> None:
        """``1 - 2 / (1 + e**2x)``."""
        t = self.one_plus_exponential(2.0)
        self.do(ArithmeticOp.DIV, t, 2.0, t)
        self.do(ArithmeticOp.SUB, self.result, 1.0, t)

    def exp(self) -> None:
        assert self.exponential is not None
        self.do(ArithmeticOp.COPY, self.exponential.s, self.x)
        self.exponential.emit(self.result, bounded=False)

    def elu(self) -> None:
        """``max(x, 0) + alpha * (e**min(x, 0) - 1)``: one of the two is 0."""
        assert self.exponential is not None
        s, t = self.exponential.s, self.exponential.t
        self.do(ArithmeticOp.MIN, s, self.x, 0.0)
        self.exponential.emit(t)
        self.do(ArithmeticOp.SUB, t, t, 1.0)
        self.do(ArithmeticOp.MUL, t, t, self.coeffs[0])
        self.do(ArithmeticOp.MAX, self.result, self.x, 0.0)
        self.do(ArithmeticOp.ADD, self.result, self.result, t)

    def hard_sigmoid(self) -> None:
        alpha, beta = self.coeffs or (1 / 6, 0.5)
        self.do(ArithmeticOp.MUL, self.result, self.x, alpha)
        self.do(ArithmeticOp.ADD, self.result, self.result, beta)
        self.do(ArithmeticOp.MAX, self.result, self.result, 0.0)
        self.do(ArithmeticOp.MIN, self.result, self.result, 1.0)

    def hard_swish(self) -> None:
        self.hard_sigmoid()
        self.do(ArithmeticOp.MUL, self.result, self.result, self.x)

    def square(self) -> None:
        self.do(ArithmeticOp.MUL, self.result, self.x, self.x)

    def absolute(self) -> None:
        self.do(ArithmeticOp.ABS, self.result, self.x)

    def square_root(self) -> None:
        emit_square_root(self.asm, self.shape, self.result, self.x)

    def rounded(self, rounding: Rounding) -> None:
        self.do(ArithmeticOp.CAST, self.result, self.x, rounding=rounding)


_MODES: Mapping[str, Callable[[_Emitter], None]] = {
    "ABSVAL": _Emitter.absolute,
    "CEIL": lambda emitter: emitter.rounded(Rounding.UP),
    "ELU": _Emitter.elu,
    "EXP": _Emitter.exp,
    "FLOOR": lambda emitter: emitter.rounded(Rounding.DOWN),
    "HSIGMOID": _Emitter.hard_sigmoid,
    "HSWISH": _Emitter.hard_swish,
    "ROUND": lambda emitter: emitter.rounded(Rounding.HALF_TO_EVEN),
    "SIGMOID": _Emitter.sigmoid,
    "SILU": _Emitter.silu,
    "SQRT": _Emitter.square_root,
    "SQUARE": _Emitter.square,
    "TANH": _Emitter.tanh,
}
_EXPONENTIAL = ("ELU", "EXP", "SIGMOID", "SILU", "TANH")


class ActiveKernel(ElementwiseKernel):
    """Sigmoids and their kin come from the exponential, the others from bounds and products."""

    def refuse(self, node: Node) -> str | None:
        if node.op.mode not in _MODES:
            return f"mode {node.op.mode} has no kernel; there are {', '.join(_MODES)}"
        source, result = node.operand_types[0].storage, node.result_type.storage
        if source != result:
            return f"operand and result of one type, these are {source} and {result}"
        return super().refuse(node)

    def tiling_key(self, node: Node) -> Hashable:
        return node.op.mode

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (COEFFICIENTS,) if node.op.mode in _EXPONENTIAL else ()

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        return COEFFICIENTS_SHAPE

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        return coefficients()

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        shape = tile_shape(tile)
        exponential = exponential_scratch(shape) if node.op.mode in _EXPONENTIAL else ()
        return (*exponential, *widening_scratch(node, shape, shape))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape = placed.result.shape
        exponential = None
        if node.op.mode in _EXPONENTIAL:
            exponential = Exponential.at(asm, shape, placed.scratch, placed.constants)
        wide = Widened.of(placed, asm)
        coeffs = tuple(node.op.coeffs or ())
        _MODES[node.op.mode](_Emitter(asm, shape, wide.input, wide.result, exponential, coeffs))
        wide.finish(placed, asm)
