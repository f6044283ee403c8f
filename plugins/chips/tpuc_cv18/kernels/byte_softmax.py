"""Softmax and log-softmax of bytes, from tables in two bf16 parts, adding small terms before large ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from tpuc.api import (
    BF16,
    CpuRoutine,
    KernelChoice,
    Node,
    PackedConstant,
    Phase,
    PlacedTile,
    Scratch,
    Shape4,
    Space,
    Tile,
    TileKernel,
    View,
)
from tpuc_chip_parts.tiles import tile_shape
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_ops.shapes import positive_axis

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, AveragePool, DType, MaxPool, Operand, Scalar, Target
from tpuc_cv18.kernels.common import LaneKernel
from tpuc_cv18.kernels.curves import BF16_BYTES, ENTRIES, TABLE_BYTES, Steps, as_table
from tpuc_cv18.kernels.powers import emit_exponent_index, emit_reciprocal, logarithm_table, reciprocal_table
from tpuc_cv18.kernels.softmax import SoftmaxRoutine
from tpuc_cv18.operands import MAX_EXTENT, operand

_LOWEST = {DType.INT8: -128, DType.UINT8: 0}
_TABLES = ("powers", "powers_rests", "exponents", "mantissas")
_LOG_TABLES = ("distances", "distances_rests", "wholes", "wholes_rests", "parts", "parts_rests")
"""Tables for the logarithm: scaled distances from the maximum, and logarithms by the exponent and by the mantissa of a
sum.
"""
_COLUMNS = ("sum", "negative", "reciprocal", "share", "rest", "error", "index")
"""Scratch buffers with one number per sum."""


_MOST = {False: MAX_EXTENT - 1, True: 3840}
"""Maximum extent of the axis: a window has one element more, and a lane of 32 KiB also holds the tables of
logarithms.
"""


def byte_softmax_refusal(count: int, *, log: bool) -> str | None:
    """The refusal of a long axis, None if it fits."""
    return None if count <= _MOST[log] else f"at most {_MOST[log]} values along the axis, this one has {count}"


class ByteSoftmaxKernel(LaneKernel[tpu.Softmax]):
    """Softmax times `factor`, or its logarithm, as bf16. A sum is rounded to bf16; adding its negative to its terms
    yields the rounding error. The reciprocal is refined by that error, and every other number is a sum of two bf16
    parts.
    """

    def refuse(self, node: Node[tpu.Softmax]) -> str | None:
        x = node.operand_types[0]
        if len(node.operand_types) < 2 or node.operand_types[1].size != ENTRIES or x.storage.bits != 8:
            return f"bytes and a table of {ENTRIES} exponentials"
        if node.result_type.storage != BF16:
            return f"the result must be bf16, this one is {node.result_type.storage}"
        return byte_softmax_refusal(x.dims[positive_axis(node.op.axis, x.rank)], log=node.op.log)

    def space(self, node: Node) -> Space:
        view = self._view(node)
        axes = self.lanes.parallel_axes(view.shape, whole="w" if _is_row(node) else "h")
        return Space(axes, (view, *(None for _ in node.operand_types[1:])), (view,))

    def _view(self, node: Node[tpu.Softmax]) -> View:
        """The axis along w; or along h, with the dimensions after it along w and, where they fill more lanes,
        distributed over the lanes.
        """
        before, count, behind = _extents(node)
        if _is_row(node):
            return View((1, before * behind, 1, count))
        parts = next(number for number in range(self.lanes.count, 0, -1) if behind % number == 0)
        if parts <= min(before, self.lanes.count):
            return View((1, before, count, behind))
        part = behind // parts
        return View((before, parts, count, part), (count * behind, part, behind, 1))

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return [PackedConstant(name, broadcast=True) for name in (*_TABLES, *(_LOG_TABLES if node.op.log else ()))]

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        return 1, TABLE_BYTES

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        if name in ("exponents", "mantissas"):
            return as_table(reciprocal_table(name))
        powers = arrays[1]
        assert powers is not None, "an operand of the node"
        exact = _exact(node, name.removesuffix("_rests"), powers)
        upper = exact.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)
        return as_table(exact - upper if name.endswith("_rests") else upper)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        shape = tile_shape(tile)
        row = _is_row(node)
        wide, column = self.planes_bytes(_longer(shape, row), BF16_BYTES), _column(shape, row)
        return [
            Scratch("words", 2 * wide),
            Scratch("largest", self.planes_bytes(column)),
            *(Scratch(name, self.planes_bytes(column, BF16_BYTES)) for name in _COLUMNS),
        ]

    def emit(self, node: Node[tpu.Softmax], placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        _Emission.of(node, placed, asm, self).emit()


@dataclass(frozen=True)
class _Emission:
    """Records the commands of a tile. Along the axis, `words` and `floats` have one extra element, the `slot`."""

    node: Node[tpu.Softmax]
    placed: PlacedTile
    asm: Cv18Assembler
    words: Operand
    floats: Operand
    is_row: bool

    @classmethod
    def of(cls, node: Node[tpu.Softmax], placed: PlacedTile, asm: Cv18Assembler, kernel: LaneKernel[Any]) -> _Emission:
        """Create from a kernel's tile."""
        is_row = _is_row(node)
        longer = _longer(placed.result.shape, is_row)
        strides = Operand(0, DType.BF16).strides(longer, asm.target)
        start = placed.scratch["words"].address
        second = start + kernel.planes_bytes(longer, BF16_BYTES)
        words, floats = (Operand(address, DType.BF16, strides) for address in (start, second))
        return cls(node, placed, asm, words, floats, is_row)

    def emit(self) -> None:
        """Record the commands."""
        self._locate()
        column, target = _column(self.placed.result.shape, self.is_row), self.asm.target
        small = Steps(self.asm, column)
        names = {name: Operand(self.placed.scratch[name].address, DType.BF16) for name in _COLUMNS}
        self._sum_up(small, names)
        emit_reciprocal(small, names["sum"], names["reciprocal"], names["index"], self.placed.constants)
        parts = self._logarithms(small, names) if self.node.op.log else self._shares(small, names)
        steps = parts[0].strides(column, target)
        repeated = (steps[0], steps[1], 0, 0 if self.is_row else steps[3])
        upper, lower = (Operand(one.address, DType.BF16, repeated) for one in parts)
        whole, result = Steps(self.asm, self.placed.result.shape), operand(self.placed.result)
        if self.node.op.log:
            whole.do(ArithmeticOp.SUB, self.words, self.words, lower)
            whole.do(ArithmeticOp.SUB, result, self.floats, upper)
            whole.do(ArithmeticOp.ADD, result, result, self.words)
        else:
            whole.do(ArithmeticOp.MUL, result, self.words, upper)
            whole.do(ArithmeticOp.MAC, result, self.floats, lower)
            whole.do(ArithmeticOp.MAC, result, self.floats, upper)

    def _locate(self) -> None:
        """Compute differences from the largest byte as table indices, and 0 in the slot."""
        x, shape = operand(self.placed.operand(0)), self.placed.result.shape
        column, strides = _column(shape, self.is_row), self.words.strides(shape, self.asm.target)
        largest = Operand(self.placed.scratch["largest"].address, x.dtype)
        self.asm.record(
            MaxPool(
                result=largest,
                result_shape=column,
                input=x,
                input_size=(shape[2], shape[3]),
                kernel=self._window(shape),
                pad_value=_LOWEST[x.dtype],
            )
        )
        steps = largest.strides(column, self.asm.target)
        repeated = Operand(largest.address, x.dtype, (steps[0], steps[1], 0, 0 if self.is_row else steps[3]))
        wide = Operand(self.words.address, DType.INT16, strides, self.floats.address - self.words.address)
        self._record(ArithmeticOp.MUL, wide, repeated, Scalar.of(-1, DType.INT8))
        self._record(ArithmeticOp.MAC, wide, x, Scalar.of(1, DType.INT8))
        plain, slot = Operand(largest.address, DType.UINT8), self._slot(self.words)
        first = Operand(slot.address, DType.UINT8, slot.layout)
        self._record(ArithmeticOp.XOR, first, plain, plain, column)

    def _look_up(self, target: Operand, table: str) -> None:
        """Look up the table entries at the indices."""
        longer = Steps(self.asm, _longer(self.placed.result.shape, self.is_row))
        words, found = (Operand(one.address, DType.BF16) for one in (self.words, target))
        longer.look_up(found, words, self.placed.constants[table])

    def _sum_up(self, small: Steps, work: dict[str, Operand]) -> None:
        """`negative`: minus the rounded sum; `rest`: its rounding error. The slot adds no table remainder, because the
        power 1 is exact.
        """
        slot = self._slot(self.floats)
        self._look_up(self.floats, "powers")
        small.do(ArithmeticOp.MUL, slot, slot, 0.0)
        self._total(work["sum"], self.floats)
        small.do(ArithmeticOp.MUL, work["negative"], work["sum"], -1.0)
        small.do(ArithmeticOp.MUL, slot, work["sum"], -1.0)
        self._total(work["rest"], self.floats)
        rests = self.floats if self.node.op.log else self.words
        self._look_up(rests, "powers_rests")
        self._total(work["error"], rests)
        small.do(ArithmeticOp.ADD, work["rest"], work["rest"], work["error"])

    def _shares(self, small: Steps, work: dict[str, Operand]) -> tuple[Operand, Operand]:
        """`factor` divided by the sum, in two parts: `factor` times the reciprocal of the rounded sum, and the
        remainder of `factor` after multiplying that by the exact sum, divided again.
        """
        upper, lower = _parts(self.node.op.factor)
        total, reciprocal, share, error = (work[name] for name in ("sum", "reciprocal", "share", "error"))
        small.do(ArithmeticOp.MUL, share, reciprocal, upper)
        small.do(ArithmeticOp.MUL, error, total, 0.0)
        small.do(ArithmeticOp.ADD, error, error, upper)
        small.do(ArithmeticOp.MAC, error, work["negative"], share)
        small.do(ArithmeticOp.ADD, error, error, lower)
        small.do(ArithmeticOp.MUL, work["rest"], work["rest"], -1.0)
        small.do(ArithmeticOp.MAC, error, work["rest"], share)
        small.do(ArithmeticOp.MUL, error, error, reciprocal)
        return share, error

    def _logarithms(self, small: Steps, work: dict[str, Operand]) -> tuple[Operand, Operand]:
        """`factor` times the logarithm of the sum, in two parts. The logarithms of exponent and mantissa are added, and
        the correction for the rounding error of the sum is subtracted. The logarithm of the exponent is 0 or the
        larger of the two.
        """
        total, index, rest, whole, part, upper = (
            work[name] for name in ("sum", "index", "rest", "share", "negative", "error")
        )
        tables = self.placed.constants
        small.do(ArithmeticOp.MUL, rest, rest, work["reciprocal"])
        small.do(ArithmeticOp.MUL, rest, rest, self.node.op.factor)
        emit_exponent_index(small, total, index)
        small.look_up(whole, index, tables["wholes"])
        small.look_up(index, index, tables["wholes_rests"])
        small.do(ArithmeticOp.ADD, rest, rest, index)
        small.look_up(part, total, tables["parts"])
        small.look_up(index, total, tables["parts_rests"])
        small.do(ArithmeticOp.ADD, rest, rest, index)
        small.do(ArithmeticOp.ADD, upper, whole, part)
        small.do(ArithmeticOp.SUB, whole, whole, upper)
        small.do(ArithmeticOp.ADD, whole, whole, part)
        small.do(ArithmeticOp.ADD, rest, rest, whole)
        self._look_up(self.floats, "distances")
        self._look_up(self.words, "distances_rests")
        return upper, rest

    def _total(self, result: Operand, terms: Operand) -> None:
        """Sum over the axis, including the slot."""
        shape = self.placed.result.shape
        longer = _longer(shape, self.is_row)
        self.asm.record(
            AveragePool(
                result=result,
                result_shape=_column(shape, self.is_row),
                input=Operand(terms.address, DType.BF16),
                input_size=(longer[2], longer[3]),
                kernel=self._window(longer),
                factor=Scalar.of(1.0, DType.BF16).bits,
            )
        )

    def _window(self, shape: Shape4) -> tuple[int, int]:
        return (1, shape[3]) if self.is_row else (shape[2], 1)

    def _slot(self, whole: Operand) -> Operand:
        shape = self.placed.result.shape
        steps = whole.strides(shape, self.asm.target)
        last = shape[3] * steps[3] if self.is_row else shape[2] * steps[2]
        return Operand(whole.address + last, whole.dtype, steps)

    def _record(
        self,
        operation: ArithmeticOp,
        target: Operand,
        left: Operand,
        right: Operand | Scalar | None = None,
        shape: Shape4 | None = None,
    ) -> None:
        shape = shape or self.placed.result.shape
        self.asm.record(Arithmetic(operation=operation, shape=shape, result=target, left=left, right=right))


def _exact(node: Node[tpu.Softmax], name: str, powers: Array) -> Array:
    """The table entries before rounding."""
    op, logarithms = node.op, {"wholes": "exponents", "parts": "mantissas"}
    if name in logarithms:
        return op.factor * logarithm_table(logarithms[name])
    if name == "distances":
        by_distance = -np.arange(ENTRIES) * (op.beta * op.factor * node.operand_types[0].uniform.scale)
    else:
        by_distance = np.ascontiguousarray(powers).reshape(-1).astype(np.float64)
    # Indices are low bytes of differences from the largest, which are negative.
    return np.roll(by_distance[::-1], 1)


def _parts(number: float) -> tuple[float, float]:
    """Split a number into two bf16 parts."""
    upper = float(np.float32(number).astype(ml_dtypes.bfloat16))
    return upper, float(np.float32(number - upper).astype(ml_dtypes.bfloat16))


def _is_row(node: Node[tpu.Softmax]) -> bool:
    _, count, behind = _extents(node)
    return count == 1 or behind == 1


def _extents(node: Node[tpu.Softmax]) -> tuple[int, int, int]:
    """Number of elements before, along and after the axis."""
    dims = node.operand_types[0].dims
    axis = positive_axis(node.op.axis, len(dims))
    return math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :])


def _longer(shape: Shape4, is_row: bool) -> Shape4:
    n, c, h, w = shape
    return (n, c, h, w + 1) if is_row else (n, c, h + 1, w)


def _column(shape: Shape4, is_row: bool) -> Shape4:
    n, c, _, w = shape
    return (n, c, 1, 1) if is_row else (n, c, 1, w)


class AnySoftmaxKernel(KernelChoice[tpu.Softmax]):
    """Chooses the chip for bytes, the runtime for floats."""

    def __init__(self, target: Target) -> None:
        self._bytes, self._floats = ByteSoftmaxKernel(target), SoftmaxRoutine()

    def kernel(self, node: Node) -> TileKernel[Any, Cv18Assembler] | CpuRoutine[Any]:
        return self._floats if node.operand_types[0].storage.is_float else self._bytes
