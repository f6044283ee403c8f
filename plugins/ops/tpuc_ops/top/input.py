"""An input of the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import I64, Bool, F64Array, I64Array, NetworkInput, Node, Op, Str, Types

from tpuc_ops.arrays import Array


@dataclass(frozen=True)
class Input(Op, NetworkInput):
    """An argument of the function, passed on. The attributes say how an image becomes this tensor; they are left out
    where nobody said so, and do not change the value here.
    """

    name = "top.Input"
    do_preprocess: Bool | None = None
    aligned: Bool | None = None
    channel_format: Str | None = None
    customization_format: Str | None = None
    keep_aspect_ratio: Bool | None = None
    keep_ratio_mode: Str | None = None
    mean: F64Array | None = None
    pad_type: Str | None = None
    pad_value: I64 | None = None
    pixel_format: Str | None = None
    resize_dims: I64Array | None = None
    scale: F64Array | None = None
    yuv_type: Str | None = None

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [operands[0]]
