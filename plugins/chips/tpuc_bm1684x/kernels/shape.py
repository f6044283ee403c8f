"""Ops that only move data: reshapes are aliases, permutations strided copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuc.api import Move, MoveKernel, Node, Shape4

from tpuc_bm1684x.operands import MAX_EXTENT


class AliasKernel(MoveKernel[Any]):
    """The result is the operand's bytes under another shape."""

    def is_alias(self, node: Node) -> bool:
        return True


class PermuteKernel(MoveKernel[Any]):
    """One DDR to DDR copy with permuted source strides."""

    def refuse(self, node: Node) -> str | None:
        if len(node.result_type.dims) > 4:
            return f"at most 4 dimensions, this one has {len(node.result_type.dims)}"
        if max(node.result_type.dims) > MAX_EXTENT:
            return f"at most {MAX_EXTENT} per dimension"
        return None

    def moves(self, node: Node) -> Sequence[Move]:
        order: tuple[int, ...] = node.op.order
        source = node.operand_types[0].dims
        strides = _dense(source)
        shape = _four([source[axis] for axis in order], 1)
        return (
            Move(
                0,
                shape,
                0,
                _four([strides[axis] for axis in order], 0),
                0,
                _four(_dense(node.result_type.dims), 0),
            ),
        )


def _dense(shape: Sequence[int]) -> list[int]:
    strides = [1] * len(shape)
    for index in range(len(shape) - 2, -1, -1):
        strides[index] = strides[index + 1] * shape[index + 1]
    return strides


def _four(values: Sequence[int], fill: int) -> Shape4:
    n, c, h, w = [fill] * (4 - len(values)) + list(values)
    return (n, c, h, w)
