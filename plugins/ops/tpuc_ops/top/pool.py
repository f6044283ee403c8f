"""Shared attributes of pooling ops."""

from __future__ import annotations

from dataclasses import dataclass, field

from tpuc.api import I64, Bool, I64Array, Node, Op, Str, Types

from tpuc_ops.elementwise import ReluFields
from tpuc_ops.traits import Differentiable, ExtractsFeatures, Homogeneous, KeepsSign, NoLarger, RowByRow
from tpuc_ops.window import Extents, Window, spatial


@dataclass(frozen=True)
class Pool(ReluFields, Op, NoLarger, KeepsSign, Homogeneous, RowByRow, ExtractsFeatures, Differentiable):
    """A reduction of every channel under a sliding window over one to three dimensions; `pads` lists all before, then
    all after (for images top, left, bottom, right).

    `ceil_mode` adds a last window that extends beyond the padding if it begins before it.
    """

    kernel_shape: I64Array
    strides: I64Array = (1, 1)
    pads: I64Array = (0, 0, 0, 0)
    pad_value: I64 = 0
    count_include_pad: Bool = False
    is_adaptive: Bool = False
    keepdims: Bool = True
    ceil_mode: Bool | None = None
    auto_pad: Str | None = None
    round_mode: Str = field(default="HalfAwayFromZero", kw_only=True)
    first_round_mode: Str = "HalfAwayFromZero"

    def window(self) -> Window:
        """Return the sliding window; raises ValueError if the attributes contradict each other."""
        return Window.of(self.kernel_shape, self.strides, self.pads, ceil=bool(self.ceil_mode), most=3)

    def size(self, node: Node) -> Extents:
        """Return the extents that the window slides over; a single dimension counts as a row."""
        return spatial(node.operand_types[0].dims, len(self.kernel_shape))

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        rank = len(self.kernel_shape)
        output = self.window().output(spatial(x.dims, rank))
        dims = (*x.dims[:2], *output[-rank:])
        return (x.shape_only().with_shape(dims if self.keepdims else dims[:2]),)

    def flops(self, node: Node) -> int:
        return node.result_type.size * (self.window().taps + self.do_relu)
