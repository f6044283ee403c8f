"""Float activation functions, mostly computed in f32."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from tpuc.api import Node, PackedConstant, Phase, PlacedTile, Scratch, Tile
from tpuc_chip_parts.tiles import tile_shape
from tpuc_ops.arrays import Array
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, DType, Operand
from tpuc_bm1684x.kernels.binary import DIVISION_STEPS, NARROW_DIVISION_STEPS
from tpuc_bm1684x.kernels.elementwise import ElementwiseKernel
from tpuc_bm1684x.kernels.emitter import FloatEmitter
from tpuc_bm1684x.kernels.exponential import (
    COEFFICIENTS,
    COEFFICIENTS_SHAPE,
    NARROW_TERMS,
    TERMS,
    Exponential,
    coefficients,
    emit_reciprocal_root,
    emit_square_root,
    exponential_scratch,
)
from tpuc_bm1684x.kernels.hyperbolic import HYPERBOLIC
from tpuc_bm1684x.kernels.series import SERIES as _SERIES
from tpuc_bm1684x.kernels.series import Series, table_bytes, table_row
from tpuc_bm1684x.kernels.widening import Widened, widening_scratch

_SATURATED = 80.0  # a sigmoid is 0 or 1 to f32 precision long before; its exponential and quotient stay finite


class ActiveEmitter(FloatEmitter):
    """Emits activation functions made of the exponential, clamps and products."""

    def one_plus_exponential(self, factor: float) -> Operand:
        """``1 + e**(factor * x)``, with the exponent limited to 80."""
        assert self.exponential is not None
        s, t = self.exponential.s, self.exponential.t
        self.do(ArithmeticOp.MUL, t, self.x, factor)
        self.do(ArithmeticOp.MIN, s, t, _SATURATED)
        self.exponential.emit(t)
        self.do(ArithmeticOp.ADD, s, t, 1.0)
        return s

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
        """``max(x, 0) + alpha * (e**min(x, 0) - 1)``; one of the terms is always 0."""
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
        """``x * min(relu(x + 3), 6) / 6``; the sum is exact where the curve reaches 0."""
        self.do(ArithmeticOp.ADD, self.result, self.x, 3.0)
        self.do(ArithmeticOp.MAX, self.result, self.result, 0.0)
        self.do(ArithmeticOp.MIN, self.result, self.result, 6.0)
        self.do(ArithmeticOp.MUL, self.result, self.result, 1 / 6)
        self.do(ArithmeticOp.MUL, self.result, self.result, self.x)

    def square(self) -> None:
        self.do(ArithmeticOp.MUL, self.result, self.x, self.x)

    def absolute(self) -> None:
        self.do(ArithmeticOp.ABS, self.result, self.x)

    def square_root(self) -> None:
        emit_square_root(self.asm, self.shape, self.result, self.x)

    def reciprocal_root(self) -> None:
        emit_reciprocal_root(self.asm, self.shape, self.result, self.x)

    def rounded(self, rounding: Rounding) -> None:
        self.do(ArithmeticOp.CAST, self.result, self.x, rounding=rounding)


_MODES: Mapping[str, Callable[[ActiveEmitter], None]] = {
    "ABSVAL": ActiveEmitter.absolute,
    "CEIL": lambda emitter: emitter.rounded(Rounding.UP),
    "ELU": ActiveEmitter.elu,
    "EXP": ActiveEmitter.exp,
    "FLOOR": lambda emitter: emitter.rounded(Rounding.DOWN),
    "HSIGMOID": ActiveEmitter.hard_sigmoid,
    "HSWISH": ActiveEmitter.hard_swish,
    "ROUND": lambda emitter: emitter.rounded(Rounding.HALF_TO_EVEN),
    "RSQRT": ActiveEmitter.reciprocal_root,
    "SIGMOID": ActiveEmitter.sigmoid,
    "SILU": ActiveEmitter.silu,
    "SQRT": ActiveEmitter.square_root,
    "SQUARE": ActiveEmitter.square,
    "TANH": ActiveEmitter.tanh,
}
SERIES: Mapping[str, Series] = {**_SERIES, **HYPERBOLIC}
MODES = frozenset((*_MODES, *SERIES))
"""The modes of `tpu.Active` with a kernel."""
_WITH_EXTRA = ("GELU", *HYPERBOLIC)
_QUOTIENTS = ("SIGMOID", "SILU")
"""Modes that end with a division, without cancellation: results of 16 bits need less exact steps."""
_NARROW = ("HSWISH",)
"""Modes with few steps and no cancellation. They are computed directly in 16-bit floats, in half the time."""
_EXPONENTIAL = ("ELU", "EXP", "SIGMOID", "SILU", "TANH")


class ActiveKernel(ElementwiseKernel):
    """Computes sigmoid-like functions from the exponential, some functions from polynomial series, and others from
    clamps and products.
    """

    def refuse(self, node: Node) -> str | None:
        if node.op.mode not in MODES:
            return f"mode {node.op.mode} has no kernel, only {', '.join(sorted(MODES))}"
        source, result = node.operand_types[0].storage, node.result_type.storage
        if source != result:
            return f"operand and result of one type, these are {source} and {result}"
        return super().refuse(node)

    def tiling_key(self, node: Node) -> Hashable:
        return node.op.mode

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (COEFFICIENTS,) if _has_buffers(node) else ()

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        return (1, table_bytes(SERIES[node.op.mode])) if node.op.mode in SERIES else COEFFICIENTS_SHAPE

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        return table_row(SERIES[node.op.mode]) if node.op.mode in SERIES else coefficients()

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        shape = tile_shape(tile)
        buffers = [*exponential_scratch(shape, self.lmem)] if _has_buffers(node) else []
        if node.op.mode in _WITH_EXTRA:
            buffers.append(Scratch("extra", self.lmem.tensor_bytes("aligned", shape, 4)))
        return (*buffers, *(() if node.op.mode in _NARROW else widening_scratch(node, shape, shape, self.lmem)))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape = placed.result.shape
        is_rounded = node.op.mode in _QUOTIENTS and "wide_result" in placed.scratch
        terms, steps = (NARROW_TERMS, NARROW_DIVISION_STEPS) if is_rounded else (TERMS, DIVISION_STEPS)
        exponential = None
        if _has_buffers(node):
            exponential = Exponential.at(asm, shape, placed.scratch, placed.constants, terms)
        extra = Operand(placed.scratch["extra"].address, DType.F32) if "extra" in placed.scratch else None
        wide = Widened.of(placed, asm)
        coeffs = tuple(node.op.coeffs or ())
        table = placed.constants["coefficients"].address if _has_buffers(node) else 0
        emitter = ActiveEmitter(asm, shape, wide.input, wide.result, exponential, coeffs, extra, table, steps)
        if node.op.mode in SERIES:
            SERIES[node.op.mode].emit(emitter)
        else:
            _MODES[node.op.mode](emitter)
        wide.finish(placed, asm)


def _has_buffers(node: Node) -> bool:
    return node.op.mode in _EXPONENTIAL or node.op.mode in SERIES
