"""Functions of exponent and mantissa from tables: square root, logarithm and quotient of bf16 values.

The index of the first table is the exponent, produced by a copy. The index of the second is the element's own low byte:
the mantissa and the lowest bit of the exponent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from tpuc.api import ABSENT, KernelChoice, LocalBlock, LocalTensor, Node, PlacedTile, Space, TileKernel
from tpuc_ops import tpu

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import ArithmeticOp, MoveFunction, Operand, Target, TensorCopy, natural_strides
from tpuc_cv18.kernels.activation import emit_limit
from tpuc_cv18.kernels.circles import CircleKernel
from tpuc_cv18.kernels.curves import (
    ENTRIES,
    MODES,
    AbsoluteKernel,
    Array,
    ExponentialKernel,
    HardKernel,
    SlopeKernel,
    SquareKernel,
    Steps,
    TableKernel,
)
from tpuc_cv18.kernels.elementwise import repeat_refusal
from tpuc_cv18.operands import operand, strided

_LEAST, _HALF = -63, ENTRIES // 2
"""The exponent with index 0, and half of the table. Indices wrap around: exponents above 64 use the upper half of the
table, followed by those below -63. Negative numbers use the index of a positive one in the other half.
"""
_MOST = 128


def _exponents() -> Array:
    """The exponent for each index, for positive numbers."""
    exponents = np.arange(ENTRIES) + _LEAST
    return np.where(exponents < _MOST, exponents, exponents - ENTRIES).astype(np.float64)


def _mantissas() -> tuple[Array, Array]:
    """The mantissa in 1..2 for each low byte, and whether the exponent is even: the field is the exponent plus 127."""
    low = np.arange(ENTRIES)
    return 1 + (low % _HALF) / _HALF, low >= _HALF


@dataclass(frozen=True)
class Split:
    """A function of `mantissa * 2**exponent` as the results of two tables, combined by `join`."""

    exponents: Callable[[Array], Array]
    mantissas: Callable[[Array, Array], Array]
    join: ArithmeticOp = ArithmeticOp.MUL


def _even(exponents: Array) -> Array:
    """Half of the exponent, rounded down. The mantissa table covers the lowest bit, so the root of the power of two is
    exact.
    """
    return np.floor(exponents / 2)


_SPLITS: Mapping[str, Split] = {
    "SQRT": Split(lambda e: 2.0 ** _even(e), lambda m, even: np.sqrt(np.where(even, m, 2 * m))),
    "RSQRT": Split(lambda e: 2.0 ** -_even(e), lambda m, even: 1 / np.sqrt(np.where(even, m, 2 * m))),
    "LN": Split(lambda e: e * np.log(2.0), lambda m, _: np.log(m), ArithmeticOp.ADD),
}
_RECIPROCAL = Split(lambda e: 2.0**-e, lambda m, _: 1 / m)


class SplitKernel(TableKernel):
    """One table by exponent and one by mantissa, combined by a product or sum. Numbers that are not positive count as
    2**-63: negative numbers, and -0.0 and denormals, which only copies produce.
    """

    tables = ("exponents", "mantissas")
    work = ("index",)

    def split(self, node: Node) -> Split:
        """The function's two tables."""
        return _SPLITS[node.op.mode]

    def table(self, node: Node, name: str) -> Array:
        return _table(self.split(node), name)

    def compute(self, node: Node, placed: PlacedTile, steps: Steps, work: Mapping[str, Operand]) -> None:
        result = operand(placed.result)
        steps.do(ArithmeticOp.MAX, result, operand(placed.operand(0)), 0.0)
        self.evaluate(node, placed, placed.result, result, steps, work["index"])

    def evaluate(
        self, node: Node, placed: PlacedTile, x: LocalTensor, result: Operand, steps: Steps, index: Operand
    ) -> None:
        """Record the commands that compute `result` from `x`, with the same extents."""
        _join(Steps(steps.asm, x.shape), operand(x), result, index, placed.constants, self.split(node).join)


def emit_reciprocal(
    steps: Steps, x: Operand, result: Operand, index: Operand, tables: Mapping[str, LocalBlock]
) -> None:
    """`result = 1 / x` of positive numbers, all ALIGNED, with the tables `exponents` and `mantissas`."""
    _join(steps, x, result, index, tables, _RECIPROCAL.join)


def reciprocal_table(name: str) -> Array:
    """The entries of these tables; negative numbers use half of the exponents."""
    table = _table(_RECIPROCAL, name)
    return table if name == "mantissas" else np.concatenate([table[:_HALF], -table[:_HALF]])


def logarithm_table(name: str) -> Array:
    """The entries of these tables for logarithms, which are the sum of both."""
    return _table(_SPLITS["LN"], name)


def emit_exponent_index(steps: Steps, x: Operand, index: Operand) -> None:
    """Convert the exponents of ALIGNED numbers to table indices."""
    strides = natural_strides(steps.asm.target, steps.shape, 2)[:3]
    steps.asm.record(
        TensorCopy(
            source=x.address,
            destination=index.address,
            shape=steps.shape,
            dtype=index.dtype,
            source_strides=strides,
            destination_strides=strides,
            function=MoveFunction.EXPONENT_INDEX,
        )
    )


def _table(split: Split, name: str) -> Array:
    return split.mantissas(*_mantissas()) if name == "mantissas" else split.exponents(_exponents())


def _join(
    steps: Steps, x: Operand, result: Operand, index: Operand, tables: Mapping[str, LocalBlock], join: ArithmeticOp
) -> None:
    emit_exponent_index(steps, x, index)
    steps.look_up(index, index, tables["exponents"])
    steps.look_up(result, x, tables["mantissas"])
    steps.do(join, result, result, index)


class DivisionKernel(SplitKernel):
    """The product with the reciprocal, which is rounded in between. Positive and negative divisors use one half of the
    table each, so their magnitudes range from 2**-63 to 2**65.
    """

    work = ("index", "reciprocal")

    def refuse(self, node: Node) -> str | None:
        if any(type_ is ABSENT for type_ in node.operand_types):
            return "an absent operand"
        return super().refuse(node) or repeat_refusal(node)

    def split(self, node: Node) -> Split:
        return _RECIPROCAL

    def table(self, node: Node, name: str) -> Array:
        return reciprocal_table(name)

    def compute(self, node: Node, placed: PlacedTile, steps: Steps, work: Mapping[str, Operand]) -> None:
        over, under = placed.operand(0), placed.operand(1)
        if node.op.is_reverse:
            over, under = under, over
        shape = placed.result.shape
        self.evaluate(node, placed, under, work["reciprocal"], steps, work["index"])
        reciprocal = LocalTensor(work["reciprocal"].address, under.shape, under.layout, under.element)
        steps.do(
            ArithmeticOp.MUL,
            operand(placed.result),
            strided(over, shape, self.target),
            strided(reciprocal, shape, self.target),
            relu=node.op.do_relu,
        )
        emit_limit(node, placed.result, steps.asm)


class ActiveKernel(KernelChoice[tpu.Active]):
    """Chooses the kernel by the function's mode."""

    kernels: ClassVar[Mapping[str, type[TableKernel]]] = {
        **dict.fromkeys(MODES, SlopeKernel),
        **dict.fromkeys(_SPLITS, SplitKernel),
        **dict.fromkeys(CircleKernel.modes, CircleKernel),
        "EXP": ExponentialKernel,
        "HSIGMOID": HardKernel,
        "HSWISH": HardKernel,
        "SQUARE": SquareKernel,
        "ABSVAL": AbsoluteKernel,
    }

    def __init__(self, target: Target) -> None:
        self._kernels = {mode: kernel(target) for mode, kernel in self.kernels.items()}

    def kernel(self, node: Node) -> TileKernel[Any, Cv18Assembler]:
        return self._kernels.get(node.op.mode, _OtherKernel())


class _OtherKernel(TileKernel[tpu.Active, Cv18Assembler]):
    """Refuses functions without tables."""

    def refuse(self, node: Node) -> str | None:
        return f"modes {', '.join(sorted(ActiveKernel.kernels))}, this one is {node.op.mode}"

    def space(self, node: Node) -> Space:
        raise AssertionError("refused")
