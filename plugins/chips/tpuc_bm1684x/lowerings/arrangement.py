"""Lower Split, Tile and Interp to slices, concatenations and matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_chip_parts.lowering import ShapeLowering, SplitAny, images_refusal, interpolation_matrix, whole_factors
from tpuc_ops import top, tpu

from tpuc_bm1684x.lowerings.common import ALL, FLOATS, Array, float_weight
from tpuc_bm1684x.lowerings.repetition import tiled
from tpuc_bm1684x.lowerings.table import TABLE

_SWAPPED = (0, 1, 3, 2)


TABLE.lowers(top.Split, *ALL)(SplitAny)


@TABLE.lowers(top.Tile, *ALL)
class TileAny(ShapeLowering):
    """Concatenates the tensor with itself, one dimension at a time."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        value = node.operands[0]
        repeated = [axis for axis, count in enumerate(node.op.tile) if count != 1]
        for axis in repeated or [0]:
            name = node.name if axis == (repeated or [0])[-1] else f"{node.name}_axis{axis}"
            value = tiled(build, value, axis, node.op.tile[axis], name)
        return [value]


@TABLE.lowers(top.Interp, *ALL)
class InterpAny(Lowering[top.Interp]):
    """Repeats stored values for nearest-neighbor scaling by whole factors; otherwise multiplies by a matrix along each
    dimension.

    The products are computed in floats, in f32 for the integer modes.
    """

    def refuse(self, node: LoweringNode) -> str | None:
        return images_refusal(node)

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        if _factors(node) is not None:
            return (Wants.AS_IS,) * len(node.operand_types)
        return (Wants.MODE if node.mode in FLOATS else Wants.FLOAT, *(Wants.AS_IS,) * (len(node.operand_types) - 1))

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        value, dims = node.operands[0], node.result_type.dims
        factors = _factors(node)
        if factors is not None:
            lowered = tpu.Upsample(scale_h=factors[0], scale_w=factors[1])
            return [build(lowered, [value], value.tensor.with_shape(dims).at(None))]
        n, c, h, w = value.tensor.dims
        rows, columns = dims[2], dims[3]
        if columns != w:
            name = f"{node.name}_columns" if rows != h else node.name
            matrix = interpolation_matrix(node.op, w, columns, node.op.scale_w)
            value = self._product(build, value, matrix, (n, c, h, columns), name)
        if rows != h:
            value = self._permuted(build, value, f"{node.name}_turned")
            matrix = interpolation_matrix(node.op, h, rows, node.op.scale_h)
            value = self._product(build, value, matrix, (n, c, columns, rows), f"{node.name}_rows")
            value = self._permuted(build, value, node.name)
        return [value]

    def _permuted(self, build: LoweringBuilder, value: Value, name: str) -> Value:
        n, c, h, w = value.tensor.dims
        return build(tpu.Permute(order=_SWAPPED), [value], value.tensor.with_shape((n, c, w, h)).at(None), name)

    def _product(self, build: LoweringBuilder, value: Value, matrix: Array, dims: tuple[int, ...], name: str) -> Value:
        suffix = f"matrix{matrix.shape[0]}to{matrix.shape[1]}"
        operands = [value, float_weight(build, suffix, matrix, value.tensor.storage.name), *[build.none()] * 3]
        return build(tpu.MatMul(), operands, value.tensor.with_shape(dims).at(None), name)


def _factors(node: LoweringNode) -> tuple[int, int] | None:
    """The whole factors of a nearest-neighbor scaling, None for other interpolations."""
    return whole_factors(node) if node.op.mode == "nearest" else None
