"""Compute windows over one dimension as the same op over images with one row."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tpuc.api import NO_LOWERING, Legalization, LegalizationBuilder, LoweringNode, Value
from tpuc_ops import top

from tpuc_legalize.table import TABLE

_OF_A_ROW = {"kernel_shape": 1, "strides": 1, "dilations": 1, "output_padding": 0, "inserts": 0}
"""Attributes with one number per dimension, and their values for the row dimension."""
_RANK = 3


def over_row(node: LoweringNode, build: LegalizationBuilder) -> Sequence[Value]:
    """Compute `[n, c, w]` as `[n, c, 1, w]`, with the filter reshaped alike, in the mode of the node."""
    source, result, name = node.operands[0], node.result_type, node.name
    row = source.tensor.with_shape(_images(source.tensor.dims))
    operands = [build(top.Reshape(shape=row.dims), [source], row, f"{name}_in"), *node.operands[1:]]
    filters = node.constants[1] if len(node.constants) > 1 else None
    if filters is not None:
        element = node.operand_types[1].element
        operands[1] = build.weight(f"{name}_filter", filters.reshape(_images(filters.shape)), element)
        before, after = node.operands[1].defining, operands[1].defining
        if before is not None and after is not None:
            after.op = before.op  # with the scales that training learned
    images = result.with_shape(_images((*result.dims, 1)[:_RANK]))
    value = build(_over_row(node.op), operands, images, f"{name}_row")
    return [build(top.Reshape(shape=result.dims), [value], result, name)]


def _images(dims: Sequence[int]) -> tuple[int, ...]:
    return (*dims[:2], 1, *dims[2:])


def _over_row(op: Any) -> Any:
    """Return the op with its one-dimensional attributes extended by a row dimension."""
    before, after = op.pads
    changed: dict[str, Any] = {
        name: (row, *getattr(op, name)) for name, row in _OF_A_ROW.items() if getattr(op, name, None)
    }
    if hasattr(op, "keepdims"):
        changed["keepdims"] = True
    return dataclasses.replace(op, pads=(0, before, 0, after), **changed)


class FilterOverRow(Legalization[Any]):
    """Base of convolutions over one dimension."""

    def refuse(self, node: LoweringNode) -> str | None:
        if len(node.op.kernel_shape) != 1:
            return NO_LOWERING
        return "the filter must be a constant" if node.constants[1] is None else None

    def rewrite(self, node: LoweringNode, build: LegalizationBuilder) -> Sequence[Value]:
        return over_row(node, build)


@TABLE.legalizes(top.Conv)
class ConvOverRow(FilterOverRow):
    """Convolutions over one dimension."""

    into = (top.Conv, top.Reshape)


@TABLE.legalizes(top.Deconv)
class DeconvOverRow(FilterOverRow):
    """Transposed convolutions over one dimension."""

    into = (top.Deconv, top.Reshape)
