"""Build the inner ops of a node's lowering in one float type."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import LoweringBuilder, LoweringNode, Op, ScalarType, TensorType, Value
from tpuc_ops import tpu
from tpuc_ops.shapes import broadcast


class InnerOps:
    """Inner ops get numbered names; an op that computes a result of the node gets the result's name."""

    def __init__(self, node: LoweringNode, build: LoweringBuilder, element: ScalarType) -> None:
        self.node, self.build, self.element = node, build, element
        self._count = 0

    def name(self) -> str:
        """The name of the next inner op."""
        self._count += 1
        return f"{self.node.name}_step{self._count}"

    def do(
        self, op: Op, operands: Sequence[Value], dims: Sequence[int] | None = None, name: str | None = None
    ) -> Value:
        """Add an op whose result has the extents `dims`, by default those that its operands broadcast to."""
        shape = tuple(dims) if dims is not None else broadcast(*(value.tensor.dims for value in operands))
        return self.build(op, operands, TensorType(shape, self.element), name or self.name())

    def reshape(self, value: Value, dims: Sequence[int], name: str | None = None) -> Value:
        """The same elements under other extents."""
        dims = tuple(dims)
        return (
            value if value.tensor.dims == dims and not name else self.do(tpu.Reshape(shape=dims), [value], dims, name)
        )

    def permute(self, value: Value, order: Sequence[int], name: str | None = None) -> Value:
        """Another order of dimensions."""
        if list(order) == sorted(order) and not name:
            return value
        dims = [value.tensor.dims[axis] for axis in order]
        return self.do(tpu.Permute(order=tuple(order)), [value], dims, name)

    def slice(self, value: Value, offset: Sequence[int], ends: Sequence[int]) -> Value:
        """A part of a value."""
        dims = [end - start for start, end in zip(offset, ends, strict=True)]
        op = tpu.Slice(offset=tuple(offset), steps=(1,) * len(dims), ends=tuple(ends))
        return self.do(op, [value], dims)
