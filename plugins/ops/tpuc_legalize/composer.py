"""Compose an op of the network from others, in the chip's float type for compositions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, TypeAlias

import numpy as np
from tpuc.api import ABSENT, F32, Legalization, LegalizationBuilder, LoweringNode, Op, OpT, TensorType, Value
from tpuc_ops import top
from tpuc_ops.arrays import Array

Part: TypeAlias = "Value | Array | float | None"
"""A computed value, a constant, or an absent operand."""

MOVES = (top.Permute, top.Reshape, top.Slice)
"""Ops allowed in every composition."""
_WIDEST = 2048
"""Widest row that windows of all chips cover."""
MANTISSA_BITS = {"f32": 24, "f16": 11, "bf16": 8}


class Composer:
    """Builds the inner ops of one node. Names are numbered; an op that computes a result of the node is made with
    `last`, or with `name` where there are several results.
    """

    def __init__(self, node: LoweringNode, build: LegalizationBuilder) -> None:
        self.node, self.build = node, build
        self._count = 0

    @property
    def parts(self) -> list[Part]:
        """The operands, constants as arrays and absent ones as None."""
        node = self.node
        given = zip(node.operands, node.constants, node.operand_types, strict=True)
        return [array if array is not None else None if type_ is ABSENT else value for value, array, type_ in given]

    def __call__(
        self, op: Op, *parts: Part, dims: Sequence[int] | None = None, last: bool = False, name: str | None = None
    ) -> Value:
        """The first result of `op`; `dims` where the op cannot infer its extents from its operands'."""
        self._count += 1
        own = self.node.name if last else name or f"{self.node.name}_part{self._count}"
        shape = tuple(dims) if dims is not None else self._inferred(op, parts)
        suffix = f"{self.node.name}_part{self._count}"
        operands = [self._value(part, f"{suffix}_{index}") for index, part in enumerate(parts)]
        names = self.node.result_names
        type_ = self.node.result_types[names.index(own)].with_shape(shape) if own in names else TensorType(shape, F32)
        return self.build(op, operands, type_, own, compute_type(self.node))

    def constant(self, array: Array) -> Value:
        """A constant as a value."""
        self._count += 1
        return self.build.weight(f"{self.node.name}_part{self._count}", array)

    def reshape(self, value: Value, *dims: int, last: bool = False, name: str | None = None) -> Value:
        """The same bytes under another shape."""
        if value.tensor.dims == dims and not last and name is None:
            return value
        return self(top.Reshape(shape=dims), value, dims=dims, last=last, name=name)

    def permute(self, value: Value, *order: int, last: bool = False, name: str | None = None) -> Value:
        """The dimensions in another order."""
        if order == tuple(range(len(order))) and not last and name is None:
            return value
        dims = [value.tensor.dims[axis] for axis in order]
        return self(top.Permute(order=order), value, dims=dims, last=last, name=name)

    def slice(
        self, value: Value, offset: Sequence[int], ends: Sequence[int], steps: Sequence[int] | None = None
    ) -> Value:
        """A part of a value."""
        steps = tuple(steps or (1,) * len(offset))
        dims = [-(-(end - start) // step) for start, end, step in zip(offset, ends, steps, strict=True)]
        op = top.Slice(offset=tuple(offset), steps=steps, ends=tuple(ends))
        return self(op, value, None, None, None, dims=dims)

    def _inferred(self, op: Op, parts: Sequence[Part]) -> tuple[int, ...]:
        results = op.infer(tuple(self._type(part) for part in parts))
        assert results is not None, f"{op.name} needs its extents"
        (first, *_) = results
        return first.dims

    def _type(self, part: Part) -> TensorType:
        if part is None:
            return ABSENT
        return part.tensor.shape_only() if isinstance(part, Value) else TensorType(_array(part).shape, F32)

    def _value(self, part: Part, name: str) -> Value:
        if isinstance(part, Value):
            return part
        return self.build.none() if part is None else self.build.weight(name, _array(part))


def _array(part: Array | float) -> Array:
    return np.asarray(part, np.float32).reshape(np.shape(part) or (1,))


def row_sums(do: Composer, value: Value, factors: Array | None = None) -> Value:
    """The sums along the last dimension, times factors, as a column. Products are exact where some chips compute a
    reduction from rounded averages.
    """
    count = value.tensor.dims[-1]
    column = np.ones(count, np.float32) if factors is None else factors
    flat = do.reshape(value, value.tensor.size // count, count)
    return do(top.MatMul(), flat, column.reshape(count, 1), None)


def viewed(do: Composer, part: Part, *dims: int) -> Value | Array:
    """A part under another shape; -1 stands for what remains."""
    if not isinstance(part, Value):
        return np.asarray(part).reshape(dims)
    rest = part.tensor.size // max(-math.prod(dims), 1) if -1 in dims else 0
    return do.reshape(part, *(rest if extent < 0 else extent for extent in dims))


def rows_of(node: LoweringNode, count: int) -> tuple[int, ...]:
    """Return a shape that views the first operand as `count` rows, one per channel: `[1, rows, a, b]`, with b as large
    as windows allow; `[1, rows, extent]` for three or more dimensions if the chip does not profit from the width.
    """
    assert node.chip is not None
    type_ = node.operand_types[0]
    extent = type_.size // count
    if type_.rank > 2 and not node.chip.works_along_width:
        return (1, count, extent)
    width = next(width for width in range(min(extent, _WIDEST), 0, -1) if extent % width == 0)
    return (1, count, extent // width, width)


def compute_type(node: LoweringNode) -> str:
    """The float mode for compositions on the node's chip; without a chip, f32."""
    return "f32" if node.chip is None else node.chip.compute_type


def largest_whole(node: LoweringNode) -> int:
    """Integers up to this are exact in compositions."""
    return 1 << MANTISSA_BITS[compute_type(node)]


class Composed(Legalization[OpT]):
    """Base of legalizations that compute in floats, whose results are floats in every mode."""

    into: ClassVar[tuple[type[Op], ...]] = MOVES

    def rewrite(self, node: LoweringNode, build: LegalizationBuilder) -> Sequence[Value]:
        do = Composer(node, build)
        return self.compose(node, do, do.parts)

    def compose(self, node: LoweringNode, do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        """One value per result; `parts` are the operands, constants as arrays."""
        raise NotImplementedError
