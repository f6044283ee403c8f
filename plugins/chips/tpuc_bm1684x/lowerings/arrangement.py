"""Ops that cut, repeat and resample tensors, made of slices, concatenations and products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import F32, Lowering, LoweringBuilder, LoweringNode, Node, TensorType, Value, Wants
from tpuc_ops.shapes import positive_axis
from tpuc_ops.top.interp import Interp
from tpuc_ops.top.split import Split
from tpuc_ops.top.tile import Tile
from tpuc_ops.tpu.matmul import MatMul as TpuMatMul
from tpuc_ops.tpu.permute import Permute as TpuPermute
from tpuc_ops.tpu.slice import Slice as TpuSlice
from tpuc_ops.tpu.upsample import Upsample as TpuUpsample

from tpuc_bm1684x.lowerings.common import ALL, FLOATS, Array, float_weight
from tpuc_bm1684x.lowerings.repetition import tiled
from tpuc_bm1684x.lowerings.table import TABLE

_SWAPPED = (0, 1, 3, 2)


class AsStored(Lowering[Any]):
    """Base: operands as their producers made them."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS,) * len(node.operand_types)


@TABLE.lowers(Split, *ALL)
class SplitAny(AsStored):
    """One slice per result."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        source = node.operands[0]
        dims = source.tensor.dims
        axis = positive_axis(node.op.axis, len(dims))
        values: list[Value] = []
        at = 0
        for result, name in zip(node.result_types, node.result_names, strict=True):
            offset = tuple(at if index == axis else 0 for index in range(len(dims)))
            ends = tuple(start + extent for start, extent in zip(offset, result.dims, strict=True))
            tpu = TpuSlice(offset=offset, steps=(1,) * len(dims), ends=ends)
            values.append(build(tpu, [source], source.tensor.with_shape(result.dims).at(None), name))
            at += result.dims[axis]
        return values


@TABLE.lowers(Tile, *ALL)
class TileAny(AsStored):
    """The tensor beside itself, dimension by dimension."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        value = node.operands[0]
        repeated = [axis for axis, count in enumerate(node.op.tile) if count != 1]
        for axis in repeated or [0]:
            name = node.name if axis == (repeated or [0])[-1] else f"{node.name}_axis{axis}"
            value = tiled(build, value, axis, node.op.tile[axis], name)
        return [value]


@TABLE.lowers(Interp, *ALL)
class InterpAny(Lowering[Interp]):
    """Nearest places of a whole factor are repeated as stored; else a product with a matrix along each dimension.

    The products are floats, f32 in the integer modes.
    """

    def refuse(self, node: LoweringNode) -> str | None:
        if len(node.operand_types[0].dims) != 4:
            return f"only images of 4 dimensions, this one has {len(node.operand_types[0].dims)}"
        return None

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        if _factors(node) is not None:
            return (Wants.AS_IS,) * len(node.operand_types)
        return (Wants.MODE if node.mode in FLOATS else Wants.FLOAT, *(Wants.AS_IS,) * (len(node.operand_types) - 1))

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        value, dims = node.operands[0], node.result_type.dims
        factors = _factors(node)
        if factors is not None:
            tpu = TpuUpsample(scale_h=factors[0], scale_w=factors[1])
            return [build(tpu, [value], value.tensor.with_shape(dims).at(None))]
        n, c, h, w = value.tensor.dims
        rows, columns = dims[2], dims[3]
        if columns != w:
            name = f"{node.name}_columns" if rows != h else node.name
            value = self._product(node, build, value, (n, c, h, columns), (w, columns), name)
        if rows != h:
            value = self._permuted(build, value, f"{node.name}_turned")
            value = self._product(node, build, value, (n, c, columns, rows), (h, rows), f"{node.name}_rows")
            value = self._permuted(build, value, node.name)
        return [value]

    def _permuted(self, build: LoweringBuilder, value: Value, name: str) -> Value:
        n, c, h, w = value.tensor.dims
        return build(TpuPermute(order=_SWAPPED), [value], value.tensor.with_shape((n, c, w, h)).at(None), name)

    def _product(
        self,
        node: LoweringNode,
        build: LoweringBuilder,
        value: Value,
        dims: tuple[int, ...],
        extents: tuple[int, int],
        name: str,
    ) -> Value:
        mode = value.tensor.storage.name
        matrix = _matrix(node.op, *extents, node.op.scale_w if name.endswith("_columns") else node.op.scale_h)
        operands = [value, float_weight(build, f"matrix{extents[0]}to{extents[1]}", matrix, mode), *[build.none()] * 3]
        return build(TpuMatMul(), operands, value.tensor.with_shape(dims).at(None), name)


def _factors(node: LoweringNode) -> tuple[int, int] | None:
    """Whole factors by which nearest neighbours repeat."""
    op: Interp = node.op
    (_, _, h, w), (_, _, rows, columns) = node.operand_types[0].dims, node.result_type.dims
    if op.mode != "nearest" or op.coord_mode == "align_corners" or rows % h or columns % w:
        return None
    down, right = rows // h, columns // w
    for scale, factor in ((op.scale_h, down), (op.scale_w, right)):
        if scale > 0 and scale != factor:
            return None
    return down, right


def _matrix(op: Interp, extent: int, count: int, scale: float) -> Array:
    """What one dimension of the op does to unit vectors."""
    single = Interp(mode=op.mode, coord_mode=op.coord_mode, scale_w=scale)
    units = np.eye(extent, dtype=np.float32)[None, None]
    types = TensorType((1, 1, extent, extent), F32), TensorType((1, 1, extent, count), F32)
    (result,) = single.evaluate(Node(single, (types[0],), (types[1],)), [units])
    return result[0, 0]
