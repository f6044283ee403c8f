"""Functions of bf16 values from tables in local memory: values and slopes at equidistant points.

A table is indexed by the low byte of each element, and a sum between 128 and 256 holds an integer there. Adding an
offset therefore rounds a number to its table point and produces the index in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import ml_dtypes
import numpy as np
from tpuc.api import (
    LocalBlock,
    Node,
    PackedConstant,
    Phase,
    PlacedTile,
    Scratch,
    Shape4,
    Space,
    Tile,
)
from tpuc_chip_parts.tiles import tile_shape
from tpuc_ops import functions, top, tpu
from tpuc_ops.arrays import Array

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, DType, Lookup, Operand, Scalar
from tpuc_cv18.kernels.common import LaneKernel, element_refusal, flat_space
from tpuc_cv18.operands import operand

Curve: TypeAlias = Callable[[Array], Array]

ENTRIES = 256
FIRST = 128
"""The sum with index 0. Sums up to 256 are integers; from there to 512 they are even, so entries are twice as far
apart.
"""
BF16_BYTES = 2
TABLE_BYTES = ENTRIES * BF16_BYTES


def as_table(values: Array) -> Array:
    """Encode up to 256 numbers as the bytes of a table."""
    table = np.zeros(ENTRIES, ml_dtypes.bfloat16)
    table[: values.size] = values.astype(np.float32)
    return table.reshape(1, -1).view(np.uint8)


@dataclass(frozen=True)
class Places:
    """The points of a table: from `start` in steps of `1 / scale`, a power of two that may be negative.

    `is_long`: another `FIRST` entries follow in double steps.
    """

    start: float
    scale: float
    is_long: bool = False

    @property
    def numbers(self) -> Array:
        """The points, in float64."""
        steps = np.arange(FIRST, dtype=np.float64)
        if self.is_long:
            steps = np.concatenate([steps, FIRST + 2 * steps])
        return self.start + steps / self.scale

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest point."""
        numbers = self.numbers
        return float(numbers.min()), float(numbers.max())

    @property
    def offset(self) -> float:
        """The offset that maps the first point, scaled, to `FIRST`."""
        return FIRST - self.start * self.scale

    def values(self, curve: Curve) -> Array:
        """The function at each point."""
        return curve(self.numbers)

    def levels(self, curve: Curve) -> Array:
        """For each point, the level at which a line with the function's slope deviates least from the function on both
        sides.
        """
        half = np.diff(self.numbers, append=self.numbers[-1:]) / 2
        return (2 * curve(self.numbers) + curve(self.numbers - half) + curve(self.numbers + half)) / 4

    def slopes(self, curve: Curve) -> Array:
        """The slope of the function around each point, per step."""
        half = 0.5 / self.scale
        return curve(self.numbers + half) - curve(self.numbers - half)


@dataclass(frozen=True)
class Steps:
    """Records elementwise commands of one tile."""

    asm: Cv18Assembler
    shape: Shape4

    def do(self, operation: ArithmeticOp, target: Operand, left: Operand, right: Operand | float, **more: Any) -> None:
        """`target = left operation right`."""
        source = right if isinstance(right, Operand) else Scalar.of(right, DType.BF16)
        self.asm.record(
            Arithmetic(operation=operation, shape=self.shape, result=target, left=left, right=source, **more)
        )

    def look_up(self, target: Operand, index: Operand, table: LocalBlock) -> None:
        """`target` = the table entry at the low byte of `index`."""
        self.asm.record(Lookup(shape=self.shape, result=target, input=index, table=table.address))

    def locate(self, places: Places, scaled: Operand, index: Operand, whole: Operand) -> None:
        """Set `index` to the entry nearest to the scaled number, and replace the number by its distance from that
        entry, in entries.
        """
        self.do(ArithmeticOp.ADD, index, scaled, places.offset)
        self.do(ArithmeticOp.SUB, whole, index, places.offset)
        self.do(ArithmeticOp.SUB, scaled, scaled, whole)


class TableKernel(LaneKernel[Any]):
    """Base of kernels with one bf16 operand, tables held by every lane, and scratch buffers of the tile's size."""

    tables: ClassVar[Sequence[str]] = ()
    work: ClassVar[Sequence[str]] = ()

    def refuse(self, node: Node) -> str | None:
        return element_refusal(node)

    def space(self, node: Node) -> Space:
        return flat_space(self.lanes, node)

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return [PackedConstant(name, broadcast=True) for name in self.tables]

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        return 1, TABLE_BYTES

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        return as_table(self.table(node, name))

    def table(self, node: Node, name: str) -> Array:
        """The entries of a table."""
        raise NotImplementedError

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        size = self.planes_bytes(tile_shape(tile), BF16_BYTES)
        return [Scratch(name, size) for name in self.work]

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        work = {name: Operand(placed.scratch[name].address, DType.BF16) for name in self.work}
        self.compute(node, placed, Steps(asm, placed.result.shape), work)

    def compute(self, node: Node, placed: PlacedTile, steps: Steps, work: Mapping[str, Operand]) -> None:
        """Record the commands of a tile."""
        raise NotImplementedError


@dataclass(frozen=True)
class Form:
    """A function between two ends, constant beyond them; optionally multiplied by x, or added to relu(x).

    `is_mirrored`: the argument is -
    x
    . `first`: the value at the first point, which applies to everything before it.
    """

    curve: Curve
    places: Places
    times_x: bool = False
    plus_relu: bool = False
    is_mirrored: bool = False
    first: float | None = None

    def values(self) -> Array:
        """The table of values."""
        values = self.places.levels(self.curve)
        if self.first is not None:
            values[0] = self.first
        return values


def _gate(curve: Curve) -> Curve:
    """The factor of x in a function through the origin."""

    def factor(x: Array) -> Array:
        safe = np.where(np.abs(x) < 1e-6, 1e-6, x)
        return curve(safe) / safe

    return factor


_WIDE, _NARROW = Places(-8.0, 8.0), Places(-4.0, 16.0)
_BELOW = Places(-127 / 16, 16.0)
_FALLING = Places(6.0, -8.0, is_long=True)
"""Points down to -41.75: in some tensors, all sigmoids are that small."""
_FORMS: Mapping[str, Form] = {
    "SIGMOID": Form(functions.sigmoid, _FALLING, first=1.0),
    "SILU": Form(functions.sigmoid, _FALLING, times_x=True, first=1.0),
    "TANH": Form(np.tanh, _NARROW),
    "ERF": Form(functions.erf, _NARROW),
    "GELU": Form(_gate(functions.gelu), _NARROW, times_x=True, first=0.0),
    "MISH": Form(_gate(top.Mish().function), _WIDE, times_x=True, first=0.0),
    "SOFT_PLUS": Form(functions.softplus, _BELOW, plus_relu=True, is_mirrored=True, first=0.0),
}
MODES = (*_FORMS, "ELU")


def form_of(op: tpu.Active) -> Form:
    """The form of an op's function."""
    if op.mode != "ELU":
        return _FORMS[op.mode]
    (alpha, *_) = op.coeffs or (1.0,)
    return Form(lambda x: alpha * np.expm1(x), _BELOW, plus_relu=True)


class SlopeKernel(TableKernel):
    """The nearest entry plus the distance from it times the slope there.

    Entries have 16 bits in two tables of 8 bits each. Small terms are added first and the larger part of the entry
    last, so the result is rounded once, instead of rounding the entry, the sum and the product with x.
    """

    tables = ("values", "rests", "slopes")
    work = ("scaled", "index", "whole")

    def table(self, node: Node, name: str) -> Array:
        form = form_of(node.op)
        if name == "slopes":
            return form.places.slopes(form.curve)
        values = form.values()
        return values if name == "values" else values - values.astype(ml_dtypes.bfloat16).astype(np.float64)

    def compute(self, node: Node, placed: PlacedTile, steps: Steps, work: Mapping[str, Operand]) -> None:
        form = form_of(node.op)
        places = form.places
        x, result = operand(placed.operand(0)), operand(placed.result)
        scaled, index, whole = (work[name] for name in self.work)
        low, high = places.ends
        if form.is_mirrored:
            steps.do(ArithmeticOp.MUL, scaled, x, -1.0)
            steps.do(ArithmeticOp.MIN, scaled, scaled, x)
        else:
            steps.do(ArithmeticOp.MIN, scaled, x, high)
        steps.do(ArithmeticOp.MAX, scaled, scaled, low)
        steps.do(ArithmeticOp.MUL, scaled, scaled, places.scale)
        steps.locate(places, scaled, index, whole)
        steps.look_up(result, index, placed.constants["rests"])
        steps.look_up(whole, index, placed.constants["slopes"])
        steps.do(ArithmeticOp.MAC, result, scaled, whole)
        steps.look_up(whole, index, placed.constants["values"])
        if form.times_x:
            steps.do(ArithmeticOp.MUL, result, result, x)
            steps.do(ArithmeticOp.MAC, result, whole, x)
        else:
            steps.do(ArithmeticOp.ADD, result, result, whole)
        if form.plus_relu:
            steps.do(ArithmeticOp.MAX, scaled, x, 0.0)
            steps.do(ArithmeticOp.ADD, result, result, scaled)


class ExponentialKernel(TableKernel):
    """e to the nearest integer times e to the remainder, both from tables; the remainder's entry is refined with its
    slope.
    """

    tables = ("integers", "values", "slopes")
    work = ("rest", "index", "whole")
    _integers: ClassVar[Places] = Places(-64.0, 1.0)
    _rests: ClassVar[Places] = Places(-0.5, 64.0)

    def table(self, node: Node, name: str) -> Array:
        if name == "integers":
            return self._integers.values(np.exp)
        return self._rests.values(np.exp) if name == "values" else self._rests.slopes(np.exp)

    def compute(self, node: Node, placed: PlacedTile, steps: Steps, work: Mapping[str, Operand]) -> None:
        x, result = operand(placed.operand(0)), operand(placed.result)
        rest, index, whole = (work[name] for name in self.work)
        low, high = self._integers.ends
        steps.do(ArithmeticOp.MIN, rest, x, high)
        steps.do(ArithmeticOp.MAX, rest, rest, low)
        steps.locate(self._integers, rest, index, whole)
        steps.look_up(result, index, placed.constants["integers"])
        steps.do(ArithmeticOp.MUL, rest, rest, self._rests.scale)
        steps.locate(self._rests, rest, index, whole)
        values, slopes = index, whole
        steps.look_up(slopes, index, placed.constants["slopes"])
        steps.look_up(values, index, placed.constants["values"])
        steps.do(ArithmeticOp.MAC, values, rest, slopes)
        steps.do(ArithmeticOp.MUL, result, result, values)


class HardKernel(TableKernel):
    """A line clamped to 0..1, optionally times x, without a table."""

    _slopes: ClassVar[tuple[float, float]] = (1 / 6, 0.5)
    work = ("line",)

    def compute(self, node: Node[tpu.Active], placed: PlacedTile, steps: Steps, work: Mapping[str, Operand]) -> None:
        slope, offset = self._slopes if node.op.mode == "HSWISH" else (node.op.coeffs or self._slopes)[:2]
        x, result, line = operand(placed.operand(0)), operand(placed.result), work["line"]
        steps.do(ArithmeticOp.MUL, line, x, slope)
        steps.do(ArithmeticOp.ADD, line, line, offset)
        steps.do(ArithmeticOp.MAX, line, line, 0.0)
        times_x = node.op.mode == "HSWISH"
        steps.do(ArithmeticOp.MIN, line if times_x else result, line, 1.0)
        if times_x:
            steps.do(ArithmeticOp.MUL, result, line, x)


class SquareKernel(TableKernel):
    """The square of each element."""

    def compute(self, node: Node, placed: PlacedTile, steps: Steps, work: Mapping[str, Operand]) -> None:
        x = operand(placed.operand(0))
        steps.do(ArithmeticOp.MUL, operand(placed.result), x, x)


class AbsoluteKernel(TableKernel):
    """The larger of a number and its negative."""

    work = ("negative",)

    def compute(self, node: Node, placed: PlacedTile, steps: Steps, work: Mapping[str, Operand]) -> None:
        x, negative = operand(placed.operand(0)), work["negative"]
        steps.do(ArithmeticOp.MUL, negative, x, -1.0)
        steps.do(ArithmeticOp.MAX, operand(placed.result), negative, x)
