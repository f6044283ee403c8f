"""Windows over lines `[n, c, w]`: the same op over images of one row."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tpuc.api import LoweringBuilder, LoweringNode, Value
from tpuc_chip_parts.lowering import InnerBuilder
from tpuc_ops import tpu

_RANK = 3
_PAIRS = {"kernel_shape": 1, "strides": 1, "dilations": 1, "output_padding": 0, "inserts": 0}
"""Attributes of one number per dimension, and what rows have."""

CellT = TypeVar("CellT", bound=type[Any])


def over_lines(cell: CellT) -> CellT:
    """A cell for windows of one dimension, too."""
    refuse: Callable[[Any, LoweringNode], str | None] = cell.refuse
    lower: Callable[[Any, LoweringNode, LoweringBuilder], Sequence[Value]] = cell.lower

    def refuse_any(self: Any, node: LoweringNode) -> str | None:
        return refuse(self, _as_images(node))

    def lower_any(self: Any, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        if not _is_line(node):
            return lower(self, node, build)
        images = _as_images(node)
        source = node.operands[0]
        value = build(
            tpu.Reshape(shape=images.operand_types[0].dims),
            [source],
            source.tensor.with_shape(images.operand_types[0].dims),
            f"{node.name}_in",
        )
        name = f"{node.name}_images"
        images = dataclasses.replace(images, name=name, operands=(value, *node.operands[1:]))
        (result,) = lower(self, images, InnerBuilder(build, name))
        dims = node.result_type.dims
        return [build(tpu.Reshape(shape=dims), [result], result.tensor.with_shape(dims).at(None), node.name)]

    cell.refuse, cell.lower = refuse_any, lower_any
    return cell


def _is_line(node: LoweringNode) -> bool:
    return len(node.op.kernel_shape) == 1 and len(node.operand_types[0].dims) == _RANK


def _as_images(node: LoweringNode) -> LoweringNode:
    """Rows of one line; other nodes as they are."""
    if not _is_line(node):
        return node
    op: Any = node.op
    changed: dict[str, Any] = {
        name: (row, *getattr(op, name)) for name, row in _PAIRS.items() if getattr(op, name, None) is not None
    }
    before, after = op.pads
    source, *others = node.operand_types
    constants = tuple(
        constant[:, :, None] if constant is not None and constant.ndim == _RANK else constant
        for constant in node.constants
    )
    n, c, w = source.dims
    a, b, d = (*node.result_type.dims, 1)[:_RANK]
    return dataclasses.replace(
        node,
        op=dataclasses.replace(op, pads=(0, before, 0, after), **changed),
        operand_types=(source.with_shape((n, c, 1, w)), *others),
        result_types=(node.result_type.with_shape((a, b, 1, d)),),
        constants=constants,
    )
