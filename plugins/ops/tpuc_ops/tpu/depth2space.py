"""Rearrangement of channels as blocks of rows and columns, or back, on stored elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import I64, Bool, Node, Op, Raw, Types

from tpuc_ops import top
from tpuc_ops.arrays import Array


@dataclass(frozen=True)
class Depth2Space(Op):
    """As `top.Depth2Space`, on stored elements."""

    name = "tpu.Depth2Space"
    block_h: I64
    block_w: I64
    is_CRD: Bool  # noqa: N815  # the peer's attribute
    is_inversed: Bool
    in_is_NCHW: Bool = True  # noqa: N815  # the peer's attribute
    out_is_NCHW: Bool = True  # noqa: N815  # the peer's attribute
    swap_cr: Bool = False
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        x = operands[0]
        (result,) = self._top().infer((x,))
        return (x.with_shape(result.dims),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return self._top().evaluate(node, operands[:1])

    def _top(self) -> top.Depth2Space:
        return top.Depth2Space(
            block_h=self.block_h,
            block_w=self.block_w,
            is_CRD=self.is_CRD,
            is_inversed=self.is_inversed,
            in_is_NCHW=self.in_is_NCHW,
            out_is_NCHW=self.out_is_NCHW,
            swap_cr=self.swap_cr,
        )
