"""Ops spelled in other ops of the network, each lowered by the chip's own cell, in f32 in every mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc.api import ABSENT, F32, Lowering, LoweringBuilder, LoweringNode, Op, TensorType, Value, Wants
from tpuc_ops import top

from tpuc_bm1684x.lowerings.table import TABLE

Array: TypeAlias = npt.NDArray[Any]
Part: TypeAlias = "Value | Array | float | None"
"""A computed value, a constant, or an absent operand."""


@dataclass(frozen=True)
class _Named(LoweringBuilder):
    """A builder whose nameless ops and weights are inner ones of the node."""

    inner: LoweringBuilder
    name: str
    suffix: str

    def __call__(
        self, op: Op, operands: Sequence[Value], result: TensorType | None = None, name: str | None = None
    ) -> Value:
        return self.inner(op, operands, result, name or self.name)

    def weight(self, suffix: str, array: Array, element: str | None = None) -> Value:
        return self.inner.weight(f"{self.suffix}_{suffix}", array, element)

    def none(self) -> Value:
        return self.inner.none()


@dataclass
class Speller:
    """Builds the inner ops of one node. Names count up; the last op of the node is made with `last`."""

    node: LoweringNode
    build: LoweringBuilder
    _count: int = field(default=0, init=False)

    def __call__(
        self, op: Op, *parts: Part, dims: Sequence[int] | None = None, last: bool = False, name: str | None = None
    ) -> Value:
        """The first result of `op`; `dims` where the op does not tell its extents from its operands'."""
        self._count += 1
        suffix = f"part{self._count}"
        arrays = [self._array(part) for part in parts]
        types = [self._type(part) for part in parts]
        shape = tuple(dims) if dims is not None else self._inferred(op, types)
        chip = self.node.chip
        assert chip is not None
        pairs = enumerate(zip(parts, arrays, strict=True))
        operands = tuple(self._value(part, array, f"{suffix}_{index}") for index, (part, array) in pairs)
        own = self.node.name if last else name or f"{self.node.name}_{suffix}"
        result = TensorType(shape, F32)
        inner = LoweringNode(op, tuple(types), (result,), own, operands, tuple(arrays), "f32", chip, (own,))
        cell: Lowering[Any] | None = TABLE.cells.get((op.name, "f32"))
        if cell is None:
            raise ValueError(f"it is spelled with {op.name}, which the chip has no lowering for")
        reason = cell.refuse(inner)
        if reason is not None:
            raise ValueError(f"it is spelled with {op.name}: {reason}")
        return cell.lower(inner, _Named(self.build, own, suffix))[0]

    def reshape(self, value: Value, *dims: int, last: bool = False) -> Value:
        """The same bytes under another shape."""
        if value.tensor.dims == dims and not last:
            return value
        return self(top.Reshape(shape=dims), value, dims=dims, last=last)

    def permute(self, value: Value, *order: int, last: bool = False, name: str | None = None) -> Value:
        """The dimensions in another order."""
        if order == tuple(range(len(order))) and not last and name is None:
            return value
        dims = [value.tensor.dims[axis] for axis in order]
        return self(top.Permute(order=order), value, dims=dims, last=last, name=name)

    def _array(self, part: Part) -> Array | None:
        if part is None or isinstance(part, Value):
            return None
        return np.asarray(part, np.float32).reshape(np.shape(part) or (1,))

    def _type(self, part: Part) -> Any:
        if part is None:
            return ABSENT
        array = self._array(part)
        if array is not None:
            return TensorType(array.shape, F32)
        assert isinstance(part, Value)
        return part.tensor.shape_only()

    def _value(self, part: Part, array: Array | None, suffix: str) -> Value:
        if isinstance(part, Value):
            return part
        return self.build.none() if array is None else self.build.weight(suffix, array)

    def _inferred(self, op: Op, types: Sequence[Any]) -> tuple[int, ...]:
        results = op.infer(tuple(types))
        assert results is not None, f"{op.name} needs its extents"
        (first, *_) = results
        return first.dims


class Spelled(Lowering[Any]):
    """Base of lowerings in f32, whose result is f32."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.FLOAT,) * len(node.operand_types)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        parts = [
            array if array is not None else None if type_ is ABSENT else value
            for value, array, type_ in zip(node.operands, node.constants, node.operand_types, strict=True)
        ]
        return self.spell(node, Speller(node, build), parts)

    def spell(self, node: LoweringNode, do: Speller, parts: Sequence[Part]) -> Sequence[Value]:
        """One value per result; `parts` are the operands, constants as arrays."""
        raise NotImplementedError
