"""Pools over one or three dimensions as image pools, in one step where possible, else in two.

Pooled dimensions that the result does not keep are removed afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from tpuc.api import F32, Legalization, LegalizationBuilder, LoweringNode, TensorType, Value
from tpuc_ops import top
from tpuc_ops.top.pool import Pool

from tpuc_legalize.composer import compute_type
from tpuc_legalize.table import TABLE
from tpuc_legalize.windows import over_row

PoolT = TypeVar("PoolT", top.AvgPool, top.MaxPool)


@dataclass(frozen=True)
class _Axis:
    """One dimension, and the window along it."""

    size: int
    kernel: int
    stride: int
    before: int
    after: int

    @property
    def is_whole(self) -> bool:
        """True if one window covers all of it."""
        return self.kernel == self.size and not self.before and not self.after

    @property
    def is_single(self) -> bool:
        """True if every element is a window of its own."""
        return self.kernel == self.stride == 1 and not self.before and not self.after

    def joined(self, inner: _Axis) -> _Axis | None:
        """This dimension merged with the next; None where windows over it would differ from windows over both."""
        size = self.size * inner.size
        if self.is_whole and inner.is_whole:
            return _Axis(size, size, 1, 0, 0)
        return _Axis(size, 1, 1, 0, 0) if self.is_single and inner.is_single else None


_ROW = _Axis(1, 1, 1, 0, 0)


@dataclass(frozen=True)
class _Pools(Generic[PoolT]):
    """Builds the replacement of one node."""

    node: LoweringNode[PoolT]
    build: LegalizationBuilder

    def reshaped(self, value: Value, dims: Sequence[int], name: str) -> Value:
        """The same elements under another shape; in the middle of a node nothing where the shape is the same."""
        dims = tuple(dims)
        if value.tensor.dims == dims and name != self.node.name:
            return value
        return self.build(top.Reshape(shape=dims), [value], value.tensor.with_shape(dims), name)

    def pooled(
        self, value: Value, down: _Axis, across: _Axis, result: TensorType, name: str, mode: str | None, *, last: bool
    ) -> Value:
        """Pool all images of `value`, with the two other dimensions as channels; `result`: the element type."""
        node = self.node
        n, size = node.operand_types[0].dims[0], down.size * across.size
        images = (n, value.tensor.size // (n * size), down.size, across.size)
        op = replace(
            node.op,
            kernel_shape=(down.kernel, across.kernel),
            strides=(down.stride, across.stride),
            pads=(down.before, across.before, down.after, across.after),
            keepdims=True,
            do_relu=node.op.do_relu and last,
        )
        source = self.reshaped(value, images, f"{name}_images")
        dims = (*images[:2], *op.window().output(images[2:]))
        return self.build(op, [source], result.with_shape(dims), name, mode)


class VolumePool(Legalization[PoolT]):
    """Base: pool over rows and columns first, then over the depth, with windows over images of one row.

    A two-dimensional pool can replace a three-dimensional one where all elements along one dimension are windows of
    their own, or where two adjacent dimensions are covered whole. Such a pool keeps the node's mode.
    """

    def refuse(self, node: LoweringNode[PoolT]) -> str | None:
        if len(node.op.kernel_shape) == 2 and node.op.keepdims:
            return "no lowering accepts it, and only windows over 1 or 3 dimensions are decomposed"
        return None

    def inner(self, node: LoweringNode[PoolT]) -> tuple[TensorType, str | None]:
        """The type between the two steps, and the mode of both."""
        raise NotImplementedError

    def rewrite(self, node: LoweringNode[PoolT], build: LegalizationBuilder) -> Sequence[Value]:
        if len(node.op.kernel_shape) == 1:
            return over_row(node, build)
        do, (value,), name, result = _Pools(node, build), node.operands, node.name, node.result_type
        if len(node.op.kernel_shape) == 2:
            op = replace(node.op, keepdims=True)
            (images,) = op.infer(node.operand_types)
            value = build(op, [value], result.with_shape(images.dims), f"{name}_images")
            return [do.reshaped(value, result.dims, name)]
        depth, *image = _axes(node.op, node.operand_types[0].dims[2:])
        single = _as_images(depth, *image)
        if single is not None:
            value = do.pooled(value, *single, result, f"{name}_2d", None, last=True)
        else:
            between, mode = self.inner(node)
            value = do.pooled(value, image[0], image[1], between, f"{name}_by_image", mode, last=False)
            rest = math.prod(value.tensor.dims[2:])
            value = do.pooled(value, depth, replace(_ROW, size=rest), result, f"{name}_2d", mode, last=True)
        return [do.reshaped(value, result.dims, name)]


@TABLE.legalizes(top.MaxPool)
class MaxVolumes(VolumePool[top.MaxPool]):
    """Maxima are values of the operand, with its type."""

    into = (top.MaxPool, top.Reshape)

    def inner(self, node: LoweringNode[top.MaxPool]) -> tuple[TensorType, str | None]:
        return node.operand_types[0], None


@TABLE.legalizes(top.AvgPool)
class MeanVolumes(VolumePool[top.AvgPool]):
    """Means of means: the number of counted elements in a window is a product over the dimensions, also at the padding.
    Two steps are computed in floats, so that integers are rounded once; a chip without floats rounds twice.
    """

    into = (top.AvgPool, top.Reshape)

    def inner(self, node: LoweringNode[top.AvgPool]) -> tuple[TensorType, str | None]:
        mode = compute_type(node)
        assert node.chip is not None
        return (TensorType((), F32), mode) if mode in node.chip.modes else (node.operand_types[0], None)


def _axes(op: Pool, size: Sequence[int]) -> list[_Axis]:
    rank = len(size)
    return [
        _Axis(extent, op.kernel_shape[axis], op.strides[axis], op.pads[axis], op.pads[axis + rank])
        for axis, extent in enumerate(size)
    ]


def _as_images(depth: _Axis, rows: _Axis, columns: _Axis) -> tuple[_Axis, _Axis] | None:
    """Two dimensions with the windows of three."""
    if depth.is_single:
        return rows, columns
    image, above = rows.joined(columns), depth.joined(rows)
    if image is not None:
        return depth, image
    return (above, columns) if above is not None else None
